package smooth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// What this side holds a person to, whatever the back end's service does
// (SMO-206, SMO-210).
const (
	// codeTries is how many wrong codes lock a challenge, codeLife how long it
	// may be answered, codeSends how often its code is sent.
	codeTries = 5
	codeLife  = 10 * time.Minute
	codeSends = 3
	// codeFlows bounds the challenges of a session in codeHour.
	codeFlows = 10
	codeHour  = time.Hour
	// maxFlows is how many challenges of a session are remembered; the oldest go.
	maxFlows = 8
)

// DefaultCodesPerAddress bounds the codes that go to one address in an hour.
const DefaultCodesPerAddress = 10

// The notes of a session's challenges, and of the codes that went to an address.
const (
	noteCodes = "smooth.codes"
	noteSent  = "smooth.sent"
)

// codes is what is known of a session's challenges, on every edge; of a code
// nothing is.
type codes struct {
	Since int64  `json:"since,omitzero"` // when the present hour began
	Begun int    `json:"begun,omitzero"` // challenges since then
	Flows []flow `json:"flows,omitempty"`
}

// flow is one challenge.
type flow struct {
	// For is the question that it is for; "" is none, but the session.
	For       string `json:"for,omitempty"`
	Challenge string `json:"challenge"`
	// To is where its code went, by Challenge.place: it vouches for no other.
	To      string `json:"to"`
	Tool    string `json:"tool,omitempty"`
	Sends   int    `json:"sends,omitzero"`
	Tries   int    `json:"tries,omitzero"`
	Expires int64  `json:"expires"`
}

// place stands for where a code is sent to.
func (c Challenge) place() string {
	sum := sha256.Sum256([]byte(c.Channel + "\x00" + c.Destination))
	return hex.EncodeToString(sum[:])
}

func (f *flow) dead(now int64) bool { return now >= f.Expires || f.Tries >= codeTries }

var errTooManyCodes = &Error{codeOTPSend, "Too many codes were sent; try again later."}

// ask begins a challenge, or goes on with the one that is open. send says
// whether its code is to be sent now.
func (k *codes) ask(question string, to Challenge, now int64) (f flow, send bool, err error) {
	i := k.find(question)
	if i >= 0 && !k.Flows[i].dead(now) && k.Flows[i].To == to.place() {
		if k.Flows[i].Sends >= codeSends {
			return k.Flows[i], false, nil
		}
		k.Flows[i].Sends++
		return k.Flows[i], true, nil
	}
	if now-k.Since >= codeHour.Milliseconds() {
		k.Since, k.Begun = now, 0
	}
	if k.Begun++; k.Begun > codeFlows {
		return flow{}, false, errTooManyCodes
	}
	f = flow{For: question, Challenge: question, To: to.place(), Tool: to.Tool, Sends: 1, Expires: now + codeLife.Milliseconds()}
	if i >= 0 || question == "" {
		f.Challenge = uuid.NewString() // a code of the former one must not do
	}
	if i >= 0 {
		k.Flows = slices.Delete(k.Flows, i, i+1)
	}
	k.Flows = append(k.Flows, f)
	k.Flows = k.Flows[max(0, len(k.Flows)-maxFlows):]
	return f, true, nil
}

// try takes an attempt at a challenge before it is made, so that no two at once
// are counted as one; bad says why there is none to be made.
func (k *codes) try(question string, to Challenge, now int64) (f flow, bad string) {
	i := k.find(question)
	switch {
	case i < 0, k.Flows[i].To != to.place():
		return flow{}, "NOT_FOUND"
	case k.Flows[i].Tries >= codeTries:
		return flow{}, "MAX_ATTEMPTS"
	case now >= k.Flows[i].Expires:
		return flow{}, "EXPIRED"
	}
	k.Flows[i].Tries++
	return k.Flows[i], ""
}

// close ends a challenge that was passed.
func (k *codes) close(challenge string) {
	k.Flows = slices.DeleteFunc(k.Flows, func(f flow) bool { return f.Challenge == challenge })
}

// lock lets nobody try any more. Attempts that are being made may yet be given
// back, and must not open it again.
func (k *codes) lock(challenge string) { k.add(challenge, codeTries) }

// giveBack takes one attempt back, and leaves those that others have made since.
func (k *codes) giveBack(challenge string) { k.add(challenge, -1) }

func (k *codes) add(challenge string, tries int) {
	for i := range k.Flows {
		if f := &k.Flows[i]; f.Challenge == challenge {
			f.Tries = max(0, f.Tries+tries)
		}
	}
}

func (k *codes) find(question string) int {
	return slices.IndexFunc(k.Flows, func(f flow) bool { return f.For == question })
}

// account changes what is known of a session's challenges. What change refuses
// with is returned; the change is kept.
func (c *conn) account(ctx context.Context, session string, change func(*codes) error) error {
	return keep(ctx, c, dialect.Note{Kind: noteCodes, ID: session}, change)
}

// keep changes a note, of what was counted for some hours, whatever others do to
// it meanwhile. What change refuses with is returned; the change is kept.
func keep[T any](ctx context.Context, c *conn, note dialect.Note, change func(*T) error) error {
	for range 16 {
		n, err := c.server.o.Desk.Note(ctx, c.who, note.Kind, note.ID)
		if err != nil && !errors.Is(err, chat.ErrNoThread) {
			return err
		}
		var v T
		if len(n.Data) > 0 {
			if err := json.Unmarshal(n.Data, &v); err != nil {
				return err
			}
		}
		refused := change(&v)
		if note.Data, err = json.Marshal(v); err != nil {
			return err
		}
		note.Version = n.Version
		if ok, err := c.server.o.Desk.PutNote(ctx, c.who, note, 2*codeHour); err != nil {
			return err
		} else if ok {
			return refused
		}
	}
	return conductor.ErrBusy
}

// sent counts what went to one address, for all sessions and edges.
type sent struct {
	Since int64 `json:"since"` // when the present hour began
	Codes int   `json:"codes"`
}

// deliver has a code sent, unless too many went to its address within the hour.
// It counts before it sends: a client may open any number of sessions, and no two
// at once are counted as one. The note's name tells nobody the address.
func (c *conn) deliver(ctx context.Context, cfg *Config, to Challenge) error {
	most, now := cfg.codesPerAddress(), c.server.now()
	address := to.Channel + "\x00" + strings.ToLower(to.Destination)
	note := dialect.Note{Kind: noteSent, ID: hex.EncodeToString(sign(c.space[:], address)), Shared: true}
	err := keep(ctx, c, note, func(s *sent) error {
		if now-s.Since >= codeHour.Milliseconds() {
			*s = sent{Since: now}
		}
		if s.Codes >= most {
			return errTooManyCodes
		}
		s.Codes++
		return nil
	})
	if err != nil {
		return err
	}
	return cfg.Codes.Send(ctx, to)
}
