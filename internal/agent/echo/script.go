package echo

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// maxLong bounds /long: more would be refused as too long an answer anyway.
const maxLong = 2_000_000

// action is one thing to do: a word of command, or "" to say words.
type action struct {
	do    string
	words string
	tool  string
	args  string
	n     int
}

// parse reads a message into what is to be done, in order.
func parse(text string) []action {
	var script []action
	said := 0
	say := func(to int) {
		if w := strings.TrimSpace(text[said:to]); w != "" {
			script = append(script, action{words: w})
		}
	}
	for at := 0; at < len(text); {
		next := at + len(word(text[at:]))
		a, rest, ok := command(text[at:])
		if !ok {
			at = next
			continue
		}
		say(at)
		script = append(script, a)
		at = len(text) - len(rest)
		said = at
	}
	say(len(text))
	return script
}

// word is the first word of text with the space that follows it: never less
// than a whole character, so that nothing is torn.
func word(text string) string {
	space := false
	for i, r := range text {
		if unicode.IsSpace(r) {
			space = true
		} else if space {
			return text[:i]
		}
	}
	return text
}

// command reads a word of command and what belongs to it.
func command(text string) (a action, rest string, ok bool) {
	w := word(text)
	a.do, rest = strings.TrimSpace(w), text[len(w):]
	switch a.do {
	case "/tool", "/ask", "/ask2", "/plan", "/think", "/fail", "/slow", "/sub":
		return a, rest, true
	case "/long":
		w = word(rest)
		n, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || n < 0 {
			a.n = 100
			return a, rest, true
		}
		a.n = min(n, maxLong)
		return a, rest[len(w):], true
	case "/client":
		w = word(rest)
		a.tool, rest = strings.TrimSpace(w), rest[len(w):]
		a.args, rest = object(rest)
		return a, rest, a.tool != ""
	}
	return action{}, text, false
}

// object takes a JSON object off the start of text, or "{}" where none is.
func object(text string) (string, string) {
	if !strings.HasPrefix(text, "{") {
		return "{}", text
	}
	d := jsontext.NewDecoder(strings.NewReader(text))
	v, err := d.ReadValue()
	if err != nil {
		return "{}", text
	}
	return string(v), text[d.InputOffset():]
}
