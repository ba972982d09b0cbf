package smooth

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// Codes is a back end's service for one-time codes. It makes them, keeps them and
// counts the attempts, which this package does too; it sees a code only on its
// way through, and neither logs nor stores it (SMO-210).
type Codes interface {
	// Send sends a code. It may be called again for the same challenge, after a
	// failure or for a client that came back.
	Send(ctx context.Context, c Challenge) error
	// Verify says how a code fared.
	Verify(ctx context.Context, c Challenge, code string) (Verdict, error)
}

// Challenge is what a code is asked for.
type Challenge struct {
	// ID is the same each time the code of one challenge is sent or checked.
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
func challenge(s *session, tool string) (Challenge, bool) {
	c := Challenge{Session: s.ID, Tool: first(tool, "action")}
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

// codeless is Unasked for a code: whom the back end vouched for as the turn began
// needs none, nor who was checked where no turn waits for it.
func (c *Config) codeless(run *chat.Run) (chat.InterruptStatus, jsontext.Value) {
	var p props
	if json.Unmarshal(run.Origin.Props, &p) != nil || p.User == nil {
		p.User = new(user)
	}
	switch {
	case p.User.ID != "":
		return chat.InterruptAnswered, verifiedBy("auth_context")
	case p.User.Verified && c.Resend:
		return chat.InterruptAnswered, verifiedBy("session")
	case c.Codes == nil:
		return chat.InterruptDeclined, nil
	}
	return "", nil
}

// askCode begins a verification: it shows the card, sends a code and tells where
// to. Whom the back end vouches for needs none (SMO-042, SMO-209), and who cannot
// be sent one declines. Where people send their message again after a code, the
// agent goes on without an answer, and one who was checked needs none (SMO-204).
func (t *turn) askCode(ctx context.Context, cfg *Config, i *chat.Interrupt) error {
	c := t.conn
	s, err := c.session(ctx, t.session)
	if err != nil {
		return err
	}
	a := dialect.Answer{Thread: t.thread, Interrupt: i.ID}
	to, reachable := challenge(s, i.Tool)
	switch {
	case s.Vouched, s.Verified && cfg.Resend:
		a.Value, a.Verified = verifiedBy(map[bool]string{true: "auth_context", false: "session"}[s.Vouched]), true
		c.tell(t, i.ID, verifiedFrame(t.request, c.server.now()))
		_, err := c.server.o.Desk.Answer(ctx, c.who, a)
		return err
	case cfg.Codes == nil || !reachable:
		a.Status = chat.InterruptDeclined
		_, err := c.server.o.Desk.Answer(ctx, c.who, a)
		return err
	case cfg.Resend:
		err := t.sendCode(ctx, cfg, s, to, "", i.ID, i.Payload)
		a.Status = chat.InterruptDeclined
		_, declined := c.server.o.Desk.Answer(ctx, c.who, a)
		return errors.Join(err, declined)
	}
	return t.sendCode(ctx, cfg, s, to, i.ID, i.ID, i.Payload)
}

// sendCode shows the card of a challenge for a question, or for the session
// where that is "", and has its code sent. asked is the question that must still
// be shown, or "".
func (t *turn) sendCode(ctx context.Context, cfg *Config, s *session, to Challenge, question, asked string, said jsontext.Value) error {
	c := t.conn
	var f flow
	send := false
	err := c.account(ctx, s.ID, func(k *codes) (err error) {
		f, send, err = k.ask(question, to, c.server.now())
		return err
	})
	refused, told := errors.AsType[*Error](err)
	if err != nil && !told {
		return err
	}
	c.tell(t, asked, codeCard(t.request, s, to, said, c.server.now()))
	if to.ID = f.Challenge; send {
		if err = c.deliver(ctx, cfg, to); err != nil {
			if refused, told = errors.AsType[*Error](err); !told {
				refused = &Error{codeOTPSend, "The code could not be sent."}
			}
		}
	}
	if refused != nil {
		c.tell(t, asked, failure(t.request, refused, c.server.now()))
		return err
	}
	b := member(quoted([]byte(`{"channel":`), to.Channel), "maskedDestination", masked(to))
	c.tell(t, asked, nested(eventOTPSent, t.request, append(b, '}'), c.server.now()))
	return nil
}

// wantCode has a code sent because the agent said, without a question, that it
// needs one: the turn ends as it would, behind the frames that say so, and the
// person sends the message again once the code was right (SMO-204). What it says
// of that again in the turn adds nothing. Holds conn.mu.
func (t *turn) wantCode(said jsontext.Value) {
	c, cfg := t.conn, t.conn.config()
	if t.mirror || t.wanted || cfg == nil || cfg.Codes == nil || said.Kind() != '{' {
		return
	}
	t.wanted = true
	t.sending++
	t.conn.server.spawn(func(ctx context.Context) {
		err := t.sessionCode(ctx, cfg, said)
		c.server.report("code", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.sending--; t.sending == 0 && t.last != nil && !t.over {
			t.last()
		}
	})
}

func (t *turn) sessionCode(ctx context.Context, cfg *Config, said jsontext.Value) error {
	s, err := t.conn.session(ctx, t.session)
	if err != nil {
		return err
	}
	to, reachable := challenge(s, entry(said).text("toolId", maxName))
	if !reachable || s.Vouched || s.Verified {
		return nil
	}
	return t.sendCode(ctx, cfg, s, to, "", "", said)
}

// tell sends a frame of a turn that still shows the question; "" is any.
func (c *conn) tell(t *turn, asked string, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.over && c.turn == t && (asked == "" || t.asked == asked) {
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
func codeCard(request string, s *session, to Challenge, said jsontext.Value, at int64) []byte {
	text, level := "A code is needed to go on.", ""
	if said.Kind() == '{' {
		o := entry(said)
		text = first(o.text("message", maxText), text)
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

// verify answers a one-time code (SMO-202 to SMO-208), that of the question that
// waits or else of the session. The conversation is not held while the back end
// thinks, and what it says of a question that somebody else has answered
// meanwhile counts for nothing.
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
	_, i := c.waiting(v.seat.State(), s, request)
	v.done()
	cfg := c.config()
	if cfg == nil || cfg.Codes == nil {
		c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
		return nil
	}
	question := ""
	if i != nil && WantsCode(i) {
		question = i.ID
	}
	verdict, to, err := c.checkCode(ctx, cfg, s, question, code)
	if err != nil {
		return err
	}
	if !verdict.OK {
		c.refuseCode(request, verdict)
		return nil
	}
	same := false // as when the code was sent: he may have said meanwhile that he is another
	verified := func(s *session) {
		now, ok := challenge(s, "")
		if same = ok && now.place() == to.place(); same {
			s.Verified = true
		}
	}
	if question == "" {
		if err := c.change(ctx, s.ID, verified); err != nil {
			return err
		}
		if !same {
			c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
			return nil
		}
		c.out.send(verifiedFrame(request, c.server.now()))
		return nil
	}
	if v, err = c.view(ctx, s.Thread); err != nil {
		return err
	}
	defer v.done() // the turn goes on behind the frame that says so
	_, err = c.server.o.Desk.Answer(ctx, c.who, dialect.Answer{
		Thread: s.Thread, Interrupt: question, Value: verifiedBy(to.Channel), Verified: true,
	})
	switch {
	case errors.Is(err, chat.ErrNotWaiting), errors.Is(err, chat.ErrUnknownRun):
		c.refuseCode(request, Verdict{Reason: "NOT_FOUND"})
		return nil
	case err != nil:
		return err
	}
	c.server.report("verified", c.change(ctx, s.ID, verified))
	c.out.send(verifiedFrame(request, c.server.now()))
	return nil
}

// checkCode has a code checked, and keeps account of it: an attempt counts before it
// is made, and only one that the service did not answer is given back.
func (c *conn) checkCode(ctx context.Context, cfg *Config, s *session, question, code string) (v Verdict, to Challenge, err error) {
	to, reachable := challenge(s, "")
	if !reachable {
		return Verdict{Reason: "NOT_FOUND"}, to, nil
	}
	var f flow
	err = c.account(ctx, s.ID, func(k *codes) error {
		f, v.Reason = k.try(question, to, c.server.now())
		return nil
	})
	switch {
	case err != nil:
		return Verdict{}, to, err
	case v.Reason != "":
		return v, to, nil
	}
	to.ID, to.Tool = f.Challenge, f.Tool
	v, err = cfg.Codes.Verify(ctx, to, code)
	settle := (*codes).lock
	switch {
	case err != nil:
		settle = (*codes).giveBack
	case v.OK:
		return v, to, c.account(ctx, s.ID, func(k *codes) error { k.close(f.Challenge); return nil })
	case v.Reason != "" && v.Reason != "INVALID_CODE":
	default:
		v.Remaining = min(v.Remaining, codeTries-f.Tries)
		return v, to, nil
	}
	c.server.report("code", c.account(context.WithoutCancel(ctx), s.ID, func(k *codes) error { settle(k, f.Challenge); return nil }))
	return v, to, err
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
