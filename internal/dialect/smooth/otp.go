package smooth

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// Codes is a back end's service for one-time codes. It makes them, keeps them and
// counts the attempts; this package sees a code only on its way through, and
// neither logs nor stores it (SMO-210).
type Codes interface {
	// Send sends a code. It may be called again for the same challenge, after a
	// failure or for a client that came back.
	Send(ctx context.Context, c Challenge) error
	// Verify says how a code fared.
	Verify(ctx context.Context, c Challenge, code string) (Verdict, error)
}

// Challenge is what a code is asked for.
type Challenge struct {
	// ID is the question's own, and the same each time it is asked.
	ID, Session string
	// Channel is email or sms, Destination the address or the number.
	Channel, Destination string
	Tool                 string
}

// Verdict is how a code fared. Reason is one of the protocol's INVALID_CODE,
// MAX_ATTEMPTS, NOT_FOUND and EXPIRED; Remaining is how often the person may try
// again (SMO-205, SMO-206).
type Verdict struct {
	OK        bool
	Reason    string
	Remaining int
}

// kindOTP is the kind by which an agent's question asks for a code.
const kindOTP = "otp"

const codeOTPSend Code = "OTP_SEND_FAILED"

// maxCode bounds a code, in bytes.
const maxCode = 64

// WantsCode says that a question is for a one-time code.
func WantsCode(i *chat.Interrupt) bool {
	if i.Kind == chat.InterruptOTP {
		return true
	}
	if i.Kind != chat.InterruptQuestion || i.Payload.Kind() != '{' {
		return false
	}
	o := entry(i.Payload)
	return first(entry(o.members["metadata"]).text("kind", maxName), o.text("kind", maxName)) == kindOTP
}

// challenge is what a session's person can be sent a code by: his mail address
// before his number (SMO-211).
func challenge(s *session, i *chat.Interrupt) (Challenge, bool) {
	c := Challenge{ID: i.ID, Session: s.ID, Tool: first(i.Tool, "action")}
	switch {
	case s.Email != "" || s.UserEmail != "":
		c.Channel, c.Destination = "email", first(s.Email, s.UserEmail)
	case s.Phone != "":
		c.Channel, c.Destination = "sms", s.Phone
	default:
		return c, false
	}
	return c, true
}

// masked is a destination as it may be shown: the first letter of a name and its
// domain, or a number's last two digits.
func masked(c Challenge) string {
	if name, domain, ok := strings.Cut(c.Destination, "@"); ok && c.Channel == "email" {
		_, n := utf8.DecodeRuneInString(name)
		return name[:n] + "***@" + domain
	}
	return "***" + c.Destination[max(0, len(c.Destination)-2):]
}

// askCode begins a verification: it shows the card, sends a code and tells where
// to. Whom the back end vouches for needs none (SMO-042, SMO-209), and who cannot
// be sent one declines.
func (t *turn) askCode(ctx context.Context, cfg *Config, i *chat.Interrupt) error {
	c := t.conn
	s, err := c.session(ctx, t.session)
	if err != nil {
		return err
	}
	a := dialect.Answer{Thread: t.thread, Interrupt: i.ID, Tools: cfg.tools()}
	to, reachable := challenge(s, i)
	switch {
	case s.Vouched:
		a.Value, a.Verified = verifiedBy("auth_context"), true
		c.tell(t, i, verifiedFrame(t.request, c.server.now()))
		_, err := c.server.o.Desk.Answer(ctx, c.who, a)
		return err
	case cfg.Codes == nil || !reachable:
		a.Status = chat.InterruptDeclined
		_, err := c.server.o.Desk.Answer(ctx, c.who, a)
		return err
	}
	c.tell(t, i, codeCard(t.request, s, to, i, c.server.now()))
	if err := cfg.Codes.Send(ctx, to); err != nil {
		c.tell(t, i, failure(t.request, &Error{codeOTPSend, "The code could not be sent."}, c.server.now()))
		return err
	}
	b := member(quoted([]byte(`{"channel":`), to.Channel), "maskedDestination", masked(to))
	c.tell(t, i, nested(eventOTPSent, t.request, append(b, '}'), c.server.now()))
	return nil
}

// tell sends a frame of a turn that still shows the question.
func (c *conn) tell(t *turn, i *chat.Interrupt, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.over && c.turn == t && t.asked == i.ID {
		c.out.send(frame)
	}
}

func verifiedBy(what string) jsontext.Value {
	return append(quoted([]byte(`{"verified":true,"by":`), what), '}')
}

func verifiedFrame(request string, at int64) []byte {
	return nested(eventOTPVerified, request, []byte(`{"message":"You are verified."}`), at)
}

// codeCard is the event that shows that a code is needed (SMO-200).
func codeCard(request string, s *session, to Challenge, i *chat.Interrupt, at int64) []byte {
	text, level := "A code is needed to go on.", ""
	if i.Payload.Kind() == '{' {
		text = describe(i, text)
		o := entry(i.Payload)
		level = first(entry(o.members["metadata"]).text("authLevel", maxName), o.text("authLevel", maxName))
	}
	b := member(quoted([]byte(`{"toolId":`), to.Tool), "actionDescription", text)
	b = append(b, `,"availableChannels":["`+to.Channel+`"`...)
	if to.Channel == "email" && s.Phone != "" {
		b = append(b, `,"sms"`...)
	}
	b = member(append(b, ']'), "authLevel", first(level, "end_user"))
	return nested(eventOTP, request, append(b, '}'), at)
}

// verify answers a one-time code (SMO-202 to SMO-208). The conversation is not
// held while the back end thinks, and what it says of a question that somebody
// else has answered meanwhile counts for nothing.
func (c *conn) verify(ctx context.Context, o *object, request string) error {
	o.required("requestId", maxText)
	id := o.session()
	code := o.required("code", maxCode)
	if o.err != nil {
		return o.err
	}
	s, v, err := c.parked(ctx, id)
	if err != nil {
		return err
	}
	run, i := c.waiting(v.seat.State(), s, request)
	v.done()
	cfg := c.config()
	if i == nil || cfg == nil || cfg.Codes == nil || !WantsCode(i) {
		c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
		return nil
	}
	to, ok := challenge(s, i)
	if !ok {
		c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
		return nil
	}
	verdict, err := cfg.Codes.Verify(ctx, to, code)
	if err != nil {
		return err
	}
	if !verdict.OK {
		c.refuseCode(request, verdict)
		return nil
	}
	if v, err = c.view(ctx, s.Thread); err != nil {
		return err
	}
	defer v.done() // the turn goes on behind the frame that says so
	_, err = c.server.o.Desk.Answer(ctx, c.who, dialect.Answer{
		Thread: s.Thread, Interrupt: i.ID, Value: verifiedBy(to.Channel), Verified: true, Tools: c.toolsFor(cfg, run),
	})
	switch {
	case errors.Is(err, chat.ErrNotWaiting), errors.Is(err, chat.ErrUnknownRun):
		c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
		return nil
	case err != nil:
		return err
	}
	c.out.send(verifiedFrame(request, c.server.now()))
	return nil
}

// The words for each reason.
var refusedCodes = map[string]string{
	"INVALID_CODE": "The code is not right.",
	"MAX_ATTEMPTS": "Too many attempts; ask for a new code.",
	"EXPIRED":      "The code has expired; ask for a new one.",
	"NOT_FOUND":    "No verification is in progress.",
}

func (c *conn) refuseCode(request string, v Verdict) {
	if refusedCodes[v.Reason] == "" {
		v.Reason = "INVALID_CODE"
	}
	if v.Reason != "INVALID_CODE" || v.Remaining < 0 {
		v.Remaining = 0 // a new flow is needed
	}
	b := append(quoted([]byte(`{"error":`), v.Reason), `,"attemptsRemaining":`...)
	b = member(strconv.AppendInt(b, int64(v.Remaining), 10), "message", refusedCodes[v.Reason])
	c.out.send(nested(eventOTPInvalid, request, append(b, '}'), c.server.now()))
}
