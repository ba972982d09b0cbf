package smooth_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// host is a back end's service for codes, whose code is 123456.
type host struct {
	mu    sync.Mutex
	sent  []smooth.Challenge
	left  int
	fails bool
	tried int
	down  bool
}

func (h *host) Send(_ context.Context, c smooth.Challenge) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails {
		return errors.New("the post is on strike")
	}
	h.sent = append(h.sent, c)
	return nil
}

func (h *host) Verify(_ context.Context, c smooth.Challenge, code string) (smooth.Verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried++
	switch {
	case h.down:
		return smooth.Verdict{}, errors.New("the service is down")
	case h.left == 0:
		return smooth.Verdict{Reason: "MAX_ATTEMPTS", Remaining: 3}, nil
	case code == "123456" && c == h.sent[len(h.sent)-1]:
		return smooth.Verdict{OK: true}, nil
	}
	h.left--
	return smooth.Verdict{Reason: "INVALID_CODE", Remaining: h.left}, nil
}

var askForCode = scriptItem{Kind: "ask", Value: []byte(`{"message":"To see your bills.","metadata":{"kind":"otp"}}`)}

func TestOneTimeCode(t *testing.T) {
	h := &host{left: 2}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(askForCode, text("here they are"))
	c.say(session, "turn", "my bills")
	f := c.expect("otp_verification_required")
	if f.text("requestId") != "turn" || f.text("data.data.actionDescription") != "To see your bills." || f.text("data.data.availableChannels.0") != "email" || f.text("data.data.authLevel") != "end_user" {
		t.Errorf("SMO-200 %s", f)
	}
	f = c.expect("otp_sent")
	if f.text("data.data.channel") != "email" || f.text("data.data.maskedDestination") != "a***@example.com" {
		t.Errorf("SMO-201 SMO-211 a code is sent at once, by the first channel: %s", f)
	}
	verify := func(c *client, code string) {
		c.send(`{"action":"verify_otp","requestId":"turn","sessionId":%q,"code":%q}`, session, code)
	}
	verify(c, "000000")
	if f := c.expect("otp_invalid"); f.text("data.data.error") != "INVALID_CODE" || f.at("data.data.attemptsRemaining") != 1.0 {
		t.Errorf("SMO-205 SMO-206 it may be tried again: %s", f)
	}
	c.silent("SMO-204 the turn waits")
	bob := s.dial("bob")
	verify(bob, "123456")
	bob.refused("SMO-208 another's session", "SESSION_NOT_FOUND", "turn")
	again := s.dial("ann")
	again.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, session)
	again.expect("immediate_response")
	again.expect("otp_verification_required")
	again.expect("otp_sent")
	if h.sent[0] != h.sent[1] {
		t.Errorf("the same challenge is sent again: %+v", h.sent)
	}
	verify(again, "123456")
	f = again.expect("otp_verified")
	if f.text("requestId") != "turn" || f.text("data.data.message") == "" {
		t.Errorf("SMO-203 %s", f)
	}
	again.until("eventual_response")
	call := s.agent.last()
	if a := string(call.Answers[0].Answer); a != `{"verified":true,"by":"email"}` || strings.Contains(a, "123456") {
		t.Errorf("SMO-204 SMO-210 the agent goes on, and hears of no code: %s", a)
	}
	verify(again, "123456")
	if f := again.expect("otp_invalid"); f.text("data.data.error") != "NOT_FOUND" || f.at("data.data.attemptsRemaining") != 0.0 {
		t.Errorf("SMO-207 nothing waits any more: %s", f)
	}
}

func TestOneTimeCodeLocked(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = &host{} })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(askForCode)
	c.say(session, "turn", "my bills")
	c.expect("otp_verification_required")
	c.expect("otp_sent")
	c.send(`{"action":"verify_otp","requestId":"v","sessionId":%q,"code":"123456"}`, session)
	if f := c.expect("otp_invalid"); f.text("data.data.error") != "MAX_ATTEMPTS" || f.at("data.data.attemptsRemaining") != 0.0 {
		t.Errorf("SMO-206 who is locked has no attempt: %s", f)
	}
	c.send(`{"action":"cancel"}`)
	c.expect("cancelled")
}

func TestOneTimeCodeThatIsNotSent(t *testing.T) {
	h := &host{fails: true}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(askForCode)
	c.say(session, "turn", "my bills")
	c.expect("otp_verification_required")
	c.refused("SMO-208 a code that is not sent", "OTP_SEND_FAILED", "turn")
	c.send(`{"action":"send_message","requestId":"n","sessionId":%q,"message":"x"}`, session)
	c.refused("SMO-126 it does not end the turn", "TURN_IN_PROGRESS", "n")
	c.send(`{"action":"cancel"}`)
	c.expect("cancelled")
}

// TestWhoNeedsNoCode: whom the back end vouches for, and who cannot be asked.
func TestWhoNeedsNoCode(t *testing.T) {
	key := []byte("a key that only the back end has")
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, key)
	m.Write([]byte("ann" + stamp))
	vouched := `,"userEmail":"ann@example.com","authContext":{"userId":"ann","signature":"` + hex.EncodeToString(m.Sum(nil)) + `","timestamp":` + stamp + `}`
	h := &host{left: 5}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes, e.Smooth.AuthKey = h, key })
	for _, who := range []struct{ name, more, answer string }{
		{"SMO-042 SMO-209 vouched for", vouched, `{"verified":true,"by":"auth_context"}`},
		{"nowhere to send a code to", "", ""},
	} {
		c := s.dial("ann")
		session := c.session(who.more).text("data.sessionId")
		s.agent.says(askForCode, text("well"))
		c.say(session, "turn", "my bills")
		list := c.until("eventual_response")
		if told := list[0].kind() == "otp_verified"; told != (who.more != "") {
			t.Errorf("%s: %v", who.name, list)
		}
		for _, f := range list {
			if f.kind() == "otp_verification_required" || f.kind() == "otp_sent" {
				t.Errorf("%s: %s", who.name, f)
			}
		}
		id := `"id":"ann",`
		if props := string(s.agent.last().Origin.Props); strings.Contains(props, id+`"email":"ann@example.com","verified":true`) != (who.more != "") || strings.Contains(props, id) != (who.more != "") {
			t.Errorf("%s: the agent is told whom: %s", who.name, props)
		}
		if a := s.agent.last().Answers[0].Answer; string(a) != who.answer {
			t.Errorf("%s: the agent hears %s", who.name, a)
		}
	}
	if len(h.sent) > 0 {
		t.Errorf("codes were sent: %+v", h.sent)
	}
}

// Another dialect's answer would be taken unseen: the code must be checked.
func TestOneTimeCodeIsNotAnsweredElsewhere(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = &host{left: 2} })
	c := s.dial("ann")
	f := c.session(`,"userEmail":"ann@example.com"`)
	session, thread := f.text("data.sessionId"), f.text("data.conversationId")
	s.agent.says(askForCode, text("here they are"))
	c.say(session, "turn", "my bills")
	c.expect("otp_verification_required")
	c.expect("otp_sent")
	d := s.hub.Desk()
	seat, err := d.Join(t.Context(), person("ann"), thread, none{}, none{})
	if err != nil {
		t.Fatal(err)
	}
	run := seat.State().Runs[0]
	open := run.Open()
	seat.Leave()
	for _, name := range []string{open.ID, open.Call, open.Tool} {
		err := d.Decide(t.Context(), person("ann"), dialect.Decision{Thread: thread, Run: run.ID, Name: name, Settle: func(*chat.Interrupt) (chat.InterruptStatus, jsontext.Value, error) {
			return chat.InterruptAnswered, jsontext.Value(`{"verified":true}`), nil
		}})
		if err == nil {
			t.Errorf("SMO-204 an approval by %q without a code is taken", name)
		}
	}
	_, err = d.Answer(t.Context(), person("ann"), dialect.Answer{Thread: thread, Interrupt: open.ID, Value: []byte(`{"verified":true}`)})
	if !errors.Is(err, chat.ErrNotWaiting) {
		t.Errorf("SMO-204 an answer without a code: %v", err)
	}
	c.send(`{"action":"verify_otp","requestId":"turn","sessionId":%q,"code":"123456"}`, session)
	c.expect("otp_verified")
	c.until("eventual_response")
}
