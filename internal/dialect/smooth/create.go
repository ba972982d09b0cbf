package smooth

import (
	"context"
	"net/mail"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/dialect"
)

// create opens a session, of a fresh conversation or of one that the client
// names and may see (SMO-040 to SMO-055).
func (c *conn) create(ctx context.Context, o *object, request string) error {
	agentID := strings.TrimSpace(o.required("agentId", maxText))
	s := &session{
		ID: uuid.NewString(), AgentID: agentID, User: uuid.NewString(), Assistant: uuid.NewString(),
		UserName: o.text("userName", maxName), UserEmail: o.text("userEmail", maxName),
		Metadata: o.object("metadata", maxMetadata), Created: c.server.now(), Used: c.server.now(),
	}
	o.text("browserFingerprint", maxText)
	conversation := o.text("conversationId", maxText)
	supports, declared := o.strings("supports", maxSupports)
	vouch := o.object("authContext", maxText)
	if o.err == nil && agentID == "" {
		o.fail("'agentId' is required")
	}
	if o.err == nil && s.UserEmail != "" && !isEmail(s.UserEmail) {
		o.fail("'userEmail' must be an email address")
	}
	if o.err != nil {
		return o.err
	}
	cfg := c.config()
	if cfg == nil {
		return &Error{CodeUnavailable, "This chat is not served here any more."}
	}
	var refused *Error
	if s.Agent, refused = cfg.agent(agentID, c.origin); refused != nil {
		return refused
	}
	var err error
	if s.VouchedID, err = c.vouched(ctx, cfg, vouch); err != nil {
		return err
	}
	s.Vouched = s.VouchedID != ""
	if !isUUID(agentID) {
		s.AgentID = c.shown(agentID)
	}
	if conversation != "" {
		t, err := c.thread(ctx, conversation)
		if err != nil {
			return err
		}
		// It is the conversation's own agent that will answer.
		if t.ID != "" && t.Agent != "" {
			if refused := cfg.admits(t.Agent, c.origin); refused != nil {
				return refused
			}
		}
		s.Thread = t.ID
	}
	resumed := s.Thread != ""
	if !resumed {
		t, err := c.server.o.Desk.Create(ctx, c.who, dialect.NewThread{Agent: s.Agent})
		if err != nil {
			return err
		}
		s.Thread = t.ID
	}
	if s.Conversation, err = c.remember(ctx, s.Thread); err != nil {
		return err
	}
	if declared {
		if err := c.declare(ctx, s.Thread, supports); err != nil {
			return err
		}
	}
	if ok, err := c.save(ctx, s); err != nil || !ok {
		return err
	}
	c.hold(s)
	reply := immediate(request, 200, "Session created", s.reply(false, 0), c.server.now())
	if !resumed && !slices.Contains(supports, capabilityWatch) {
		c.out.send(reply)
		return nil
	}
	return c.takeUp(ctx, s, true, reply)
}

// reply is what a client is told of its session; whole adds what only
// get_session says (SMO-046, SMO-061).
func (s *session) reply(whole bool, now int64) []byte {
	b := quoted([]byte(`{"sessionId":`), s.ID)
	b = member(b, "conversationId", s.Conversation)
	b = member(b, "agentId", s.AgentID)
	b = member(b, "agentName", s.Agent)
	b = member(b, "userParticipantId", s.User)
	b = member(b, "agentParticipantId", s.Assistant)
	if whole {
		b = member(b, "threadId", s.Thread)
		b = member(b, "status", s.status(now))
	}
	return append(b, '}')
}

// get tells of a session, and takes its live turn up on this connection
// (SMO-060 to SMO-064, SMO-159).
func (c *conn) get(ctx context.Context, o *object, request string) error {
	id := o.session()
	if o.err != nil {
		return o.err
	}
	s, err := c.session(ctx, id)
	if err != nil {
		return err
	}
	c.hold(s)
	now := c.server.now()
	return c.takeUp(ctx, s, false, immediate(request, 200, "Session", s.reply(true, now), now))
}

// strings is an optional list of strings.
func (o *object) strings(name string, most int) (list []string, ok bool) {
	values, ok := o.list(name)
	if len(values) > most {
		o.fail("'%s' has more than %d entries", name, most)
	}
	list = make([]string, 0, len(values))
	for _, v := range values {
		s, is := unquote(v)
		if !is || len(s) > maxName {
			o.fail("'%s' must be a list of short strings", name)
			return nil, ok
		}
		list = append(list, s)
	}
	return list, ok
}

func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
