package smooth

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// Bounds of the actions that a site may have beside the protocol's (SMO-229).
const (
	maxTitle = 60 // code points
	// maxLooked bounds the conversations that one list looks at, since those
	// without a message are left out.
	maxLooked = 200
)

// extras are served where Config.Extras says so.
var extras = map[string]action{
	"list_conversations":  {(*conn).conversations, []string{"limit"}},
	"rename_conversation": {(*conn).rename, []string{"conversationId", "title"}},
}

// conversation is an entry of a list.
type conversation struct {
	id, title string
	updated   int64
	messages  int
}

// conversations lists the person's own conversations that have a message, the
// one that changed last first. Who is nobody in particular has none: what others
// began without a name is not his.
func (c *conn) conversations(ctx context.Context, o *object, request string) error {
	limit := defaultPage
	if o.has("limit") {
		n, err := strconv.Atoi(string(o.members["limit"]))
		if limit = n; err != nil || n < 1 || n > maxPage {
			o.fail("'limit' must be an integer from 1 to %d", maxPage)
		}
	}
	if o.err != nil {
		return o.err
	}
	var list []conversation
	if !c.anonymous {
		var err error
		if list, err = c.listed(ctx, limit); err != nil {
			return err
		}
	}
	slices.SortStableFunc(list, func(a, b conversation) int { return int(b.updated - a.updated) })
	b := []byte(`{"conversations":[`)
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = member(quoted(append(b, `{"conversationId":`...), e.id), "title", e.title)
		b = instant(append(b, `,"updatedAt":`...), e.updated)
		b = append(strconv.AppendInt(append(b, `,"messageCount":`...), int64(e.messages), 10), '}')
	}
	c.out.send(immediate(request, 200, "Conversations", append(b, "]}"...), c.server.now()))
	return nil
}

func (c *conn) listed(ctx context.Context, limit int) (list []conversation, err error) {
	after := ""
	for looked := 0; looked < maxLooked; {
		threads, more, err := c.server.o.Desk.List(ctx, c.who, after, maxPage)
		if err != nil {
			return nil, err
		}
		for _, t := range threads {
			e, err := c.entryOf(ctx, t)
			if errors.Is(err, chat.ErrNoThread) {
				continue // it was deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			if looked++; e.messages > 0 {
				if list = append(list, e); len(list) == limit {
					return list, nil
				}
			}
		}
		if !more || len(threads) == 0 {
			break
		}
		after = threads[len(threads)-1].ID
	}
	return list, nil
}

func (c *conn) entryOf(ctx context.Context, t dialect.Thread) (e conversation, err error) {
	v, err := c.view(ctx, t.ID)
	if err != nil {
		return e, err
	}
	defer v.done()
	st := v.seat.State()
	e = conversation{updated: st.At, messages: st.Count(), title: t.Title}
	if e.messages == 0 {
		return e, nil
	}
	if e.id, err = c.remember(ctx, t.ID); err != nil {
		return e, err
	}
	if e.title == "" {
		first, err := c.server.o.Desk.Messages(ctx, c.who, t.ID, st, 0, 1)
		if err != nil {
			return e, err
		}
		for _, m := range first {
			e.title = titled(m.Content())
		}
	}
	return e, nil
}

// rename gives a conversation a title, which other dialects show too.
func (c *conn) rename(ctx context.Context, o *object, request string) error {
	id, title := o.required("conversationId", maxText), titled(o.required("title", maxText))
	if o.err == nil && title == "" {
		o.fail("'title' must not be empty")
	}
	if o.err != nil {
		return o.err
	}
	t, err := c.thread(ctx, id)
	if err != nil {
		return err
	}
	if t.ID == "" {
		err = chat.ErrNoThread
	} else {
		err = c.server.o.Desk.Rename(ctx, c.who, t.ID, title)
	}
	if errors.Is(err, chat.ErrNoThread) {
		return &Error{CodeNoConversation, "There is no such conversation."}
	}
	if err != nil {
		return err
	}
	b := member(quoted([]byte(`{"conversationId":`), id), "title", title)
	c.out.send(immediate(request, 200, "ConversationRenamed", append(b, '}'), c.server.now()))
	return nil
}

// titled is a text as a title: one line of at most maxTitle characters.
func titled(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle]))
	}
	return s
}
