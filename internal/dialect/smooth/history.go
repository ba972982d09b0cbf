package smooth

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Bounds of one look at a conversation's messages.
const (
	defaultPage = 50
	maxPage     = 100
	readAhead   = 2 * chat.ChunkSize
	maxForked   = 5_000
)

// messages answers get_conversation_messages (SMO-070 to SMO-082).
func (c *conn) messages(ctx context.Context, o *object, request string) error {
	id, limit := o.session(), defaultPage
	if o.has("limit") {
		n, err := strconv.Atoi(string(o.members["limit"]))
		if limit = n; err != nil || n < 1 || n > maxPage {
			o.fail("'limit' must be an integer from 1 to %d", maxPage)
		}
	}
	cursor := o.text("cursor", maxText)
	if o.err != nil {
		return o.err
	}
	s, err := c.session(ctx, id)
	if err != nil {
		return err
	}
	c.hold(s)
	v, err := c.view(ctx, s.Thread)
	if err != nil {
		return err
	}
	defer v.done()
	list, more, err := c.page(ctx, s, v.seat.State(), cursor, limit)
	if err != nil {
		return err
	}
	b := []byte(`{"messages":[`)
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.entry(b, s, m.Message)
	}
	b = append(b, ']')
	if more {
		b = member(b, "nextCursor", list[len(list)-1].cursor())
		b = append(b, `,"hasMore":true}`...)
	} else {
		b = append(b, `,"nextCursor":null,"hasMore":false}`...)
	}
	c.out.send(immediate(request, 200, "ConversationMessages", b, c.server.now()))
	return nil
}

// placed is a message with its ordinal, which never changes.
type placed struct {
	*chat.Message
	at int
}

// cursor names a message; it is opaque to clients.
func (p placed) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(p.at) + ":" + p.ID))
}

var errCursor = invalid("Unknown 'cursor'")

// page returns the messages before the one that the cursor names, newest first.
func (c *conn) page(ctx context.Context, s *session, st *chat.State, cursor string, limit int) (list []placed, more bool, err error) {
	to := st.Count()
	if cursor != "" {
		if to, err = c.before(ctx, s, st, cursor); err != nil {
			return nil, false, err
		}
	}
	view := func(list []*chat.Message) []*chat.Message { return list }
	if st.Forked {
		// Which messages are shown can only be told from all that follow them.
		shown, err := c.server.o.Desk.History(ctx, c.who, s.Thread, st, maxForked)
		if err != nil {
			return nil, false, err
		}
		view = func(list []*chat.Message) []*chat.Message {
			return slices.DeleteFunc(slices.Clone(list), func(m *chat.Message) bool {
				return !slices.ContainsFunc(shown, func(k *chat.Message) bool { return k.ID == m.ID })
			})
		}
	}
	for to > 0 && len(list) <= limit {
		from := max(0, to-readAhead)
		batch, err := c.server.o.Desk.Messages(ctx, c.who, s.Thread, st, from, to)
		if err != nil {
			return nil, false, err
		}
		kept := view(batch)
		for i := len(batch) - 1; i >= 0; i-- {
			m := batch[i]
			if len(kept) > 0 && kept[len(kept)-1].ID == m.ID {
				kept = kept[:len(kept)-1]
				if visible(m) {
					list = append(list, placed{m, from + i})
				}
			}
		}
		to = from
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// before finds the ordinal that a cursor names.
func (c *conn) before(ctx context.Context, s *session, st *chat.State, cursor string) (int, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, errCursor
	}
	number, id, ok := strings.Cut(string(b), ":")
	at, err := strconv.Atoi(number)
	if !ok || err != nil || at < 0 || at >= st.Count() {
		return 0, errCursor
	}
	list, err := c.server.o.Desk.Messages(ctx, c.who, s.Thread, st, at, at+1)
	if err != nil {
		return 0, err
	}
	if len(list) != 1 || list[0].ID != id {
		return 0, errCursor
	}
	return at, nil
}

// visible says whether the protocol shows a message: the text of a turn that
// was stopped or failed is not kept in its histories (SMO-129, SMO-165).
func visible(m *chat.Message) bool {
	return !m.Empty() && (m.Role == chat.User || m.Status == chat.MessageComplete)
}

// entry appends an item (SMO-076).
func (c *conn) entry(b []byte, s *session, m *chat.Message) []byte {
	direction, from, to := "inbound", s.User, s.Assistant
	if m.Role != chat.User {
		direction, from, to = "outbound", s.Assistant, s.User
	}
	b = append(b, `{"id":`...)
	b = quoted(b, c.shown(m.ID))
	b = member(b, "direction", direction)
	b = append(b, `,"content":{"text":`...)
	b = quoted(b, m.Content())
	b = append(b, `},"from":`...)
	b = s.participant(b, from)
	b = append(b, `,"to":`...)
	b = s.participant(b, to)
	b = append(b, `,"createdAt":`...)
	return append(instant(b, m.Created), '}')
}

func (s *session) participant(b []byte, id string) []byte {
	kind, name := "user", s.UserName
	if id == s.Assistant {
		kind, name = "ai-agent", s.Agent
	}
	b = quoted(append(b, `{"id":`...), id)
	return append(optional(member(b, "type", kind), "name", name), '}')
}
