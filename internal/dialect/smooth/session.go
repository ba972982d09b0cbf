package smooth

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// The kinds of notes that this dialect keeps.
const (
	noteSession  = "smooth.session"
	noteSupports = "smooth.supports"
	noteID       = "smooth.id"
	notePark     = "smooth.park"
)

// session is a client's way into a conversation. It lives on the shelf, so it
// outlives connections and edges (SMO-062).
type session struct {
	ID           string         `json:"-"`
	Thread       string         `json:"thread"`
	Conversation string         `json:"conversation"`
	Agent        string         `json:"agent"`
	AgentID      string         `json:"agentId"`
	User         string         `json:"user"`
	Assistant    string         `json:"assistant"`
	UserName     string         `json:"userName,omitempty"`
	UserEmail    string         `json:"userEmail,omitempty"`
	Email        string         `json:"contactEmail,omitempty"`
	Phone        string         `json:"contactPhone,omitempty"`
	Metadata     jsontext.Value `json:"metadata,omitzero"`
	// Vouched says that the back end said who the person is, by VouchedID
	// (SMO-042): of what else the client said it knows nothing.
	Vouched   bool   `json:"vouched,omitzero"`
	VouchedID string `json:"vouchedId,omitempty"`
	// Verified says that a one-time code of the person's was right.
	Verified bool  `json:"verified,omitzero"`
	Created  int64 `json:"created"`
	Used     int64 `json:"used"`

	version uint64
}

// session finds a session of the principal's; an unknown one and a foreign one
// are the same error (SMO-063).
func (c *conn) session(ctx context.Context, id string) (*session, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id {
		return nil, errNoSession
	}
	n, err := c.server.o.Desk.Note(ctx, c.who, noteSession, id)
	if errors.Is(err, chat.ErrNoThread) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, err
	}
	s := &session{ID: id, version: n.Version}
	if err := json.Unmarshal(n.Data, s); err != nil {
		return nil, err
	}
	if now := c.server.now(); now-s.Used > touchAfter.Milliseconds() {
		s.Used = now
		// Another may have used it meanwhile, which is as good.
		_, _ = c.save(ctx, s)
	}
	return s, nil
}

func (c *conn) save(ctx context.Context, s *session) (bool, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	return c.server.o.Desk.PutNote(ctx, c.who, dialect.Note{
		Kind: noteSession, ID: s.ID, Data: data, Version: s.version,
	}, sessionLife)
}

// change changes a session whatever others do to it meanwhile.
func (c *conn) change(ctx context.Context, id string, f func(*session)) error {
	for range 8 {
		s, err := c.session(ctx, id)
		if err != nil {
			return err
		}
		f(s)
		if ok, err := c.save(ctx, s); ok || err != nil {
			return err
		}
	}
	return errors.New("smooth: a session changes too often")
}

// status says whether a session is in use (SMO-064).
func (s *session) status(now int64) string {
	if now-s.Used > idleAfter.Milliseconds() {
		return "idle"
	}
	return "active"
}

// supports are the capabilities that a conversation's clients declared last.
func (c *conn) supports(ctx context.Context, thread string) ([]string, error) {
	n, err := c.server.o.Desk.Note(ctx, c.who, noteSupports, thread)
	if errors.Is(err, chat.ErrNoThread) {
		return nil, nil
	}
	var list []string
	if err == nil {
		err = json.Unmarshal(n.Data, &list)
	}
	return list, err
}

// declare replaces them, also by none (SMO-049).
func (c *conn) declare(ctx context.Context, thread string, list []string) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	for range 8 {
		n, err := c.server.o.Desk.Note(ctx, c.who, noteSupports, thread)
		if err != nil && !errors.Is(err, chat.ErrNoThread) {
			return err
		}
		n = dialect.Note{Kind: noteSupports, ID: thread, Shared: true, Data: data, Version: n.Version}
		if ok, err := c.server.o.Desk.PutNote(ctx, c.who, n, 0); ok || err != nil {
			return err
		}
	}
	return errors.New("smooth: a conversation's capabilities change too often")
}

// shown is an id as the protocol shows it: a UUID. Others than ours are hidden
// behind one of a secret namespace (SMO-220).
func (c *conn) shown(id string) string {
	if canonical(id) {
		return id
	}
	return uuid.NewSHA1(c.space, []byte(id)).String()
}

// thread finds the thread that a client's conversationId means: an id as it was
// shown, or the thread's own. One without an id is none that he may see.
func (c *conn) thread(ctx context.Context, conversation string) (t dialect.Thread, err error) {
	id := conversation
	n, err := c.server.o.Desk.Note(ctx, c.who, noteID, conversation)
	switch {
	case err == nil:
		id = string(n.Data)
	case !errors.Is(err, chat.ErrNoThread):
		return t, err
	case !chat.ValidID(id):
		return t, nil
	}
	t, err = c.server.o.Desk.Get(ctx, c.who, id)
	if errors.Is(err, chat.ErrNoThread) {
		return dialect.Thread{}, nil
	}
	return t, err
}

// remember keeps what a shown conversation id means, where it is not the
// thread's own.
func (c *conn) remember(ctx context.Context, thread string) (string, error) {
	id := c.shown(thread)
	if id == thread {
		return id, nil
	}
	_, err := c.server.o.Desk.PutNote(ctx, c.who, dialect.Note{Kind: noteID, ID: id, Shared: true, Data: []byte(thread)}, 0)
	return id, err // false: it is remembered already
}

// spaceTimeout bounds the look for the secret namespace of a connection.
const spaceTimeout = 5 * time.Second
