package pilotoo

import (
	"strings"
	"unicode/utf8"

	"github.com/parlance-gateway/parlance/internal/dialect"
)

// MaxTitle bounds a conversation's title, in characters.
const MaxTitle = 200

// ParseConversation reads the body of POST /conversations; an empty body asks
// for a conversation without a title (PIL-198).
func ParseConversation(b []byte) (dialect.NewThread, error) {
	t, err := parseConversation(b)
	return t, err.orNil()
}

func parseConversation(b []byte) (t dialect.NewThread, err *Error) {
	if len(b) == 0 {
		return t, nil
	}
	o, err := readCommand(b, "id", "title")
	if err != nil {
		return t, err
	}
	if t.ID, err = o.optionalID("id"); err != nil || !o.has("title") {
		return t, err
	}
	if t.Title, err = o.text("title"); err != nil {
		return t, err
	}
	if utf8.RuneCountInString(t.Title) > MaxTitle || strings.IndexFunc(t.Title, control) >= 0 {
		return t, invalid("title must have at most %d characters and no control characters", MaxTitle)
	}
	return t, nil
}

// conversation is a thread as the HTTP routes show it.
func conversation(b []byte, t dialect.Thread) []byte {
	b = append(b, `{"id":`...)
	b = quoted(b, t.ID)
	b = optional(b, "title", t.Title)
	return append(instant(append(b, `,"createdAt":`...), t.Created), '}')
}
