package smooth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// parkCode opens a session, and a turn of it that waits for a code.
func (c *client) parkCode(s *site) (session string) {
	c.t.Helper()
	session = c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(askForCode, text("here they are"))
	c.say(session, "turn", "my bills")
	c.expect("otp_verification_required")
	c.expect("otp_sent")
	return session
}

func (c *client) verify(session, code string) {
	c.t.Helper()
	c.send(`{"action":"verify_otp","requestId":"v","sessionId":%q,"code":%q}`, session, code)
}

func (c *client) wrong(what, reason string, left float64) {
	c.t.Helper()
	if f := c.expect("otp_invalid"); f.text("data.data.error") != reason || f.at("data.data.attemptsRemaining") != left {
		c.t.Errorf("%s: %s", what, f)
	}
}

func TestACodeIsLockedHereToo(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.parkCode(s)
	for left := 4.0; left >= 0; left-- {
		c.verify(session, "000000")
		c.wrong("SMO-206 SMO-210 each attempt counts", "INVALID_CODE", left)
	}
	c.verify(session, "123456")
	c.wrong("SMO-206 SMO-210 the right code comes too late", "MAX_ATTEMPTS", 0)
	if h.tried != 5 {
		t.Errorf("SMO-210 the service is asked no more: %d", h.tried)
	}
	c.silent("SMO-204 the turn waits")
	c.send("%s", getSession(s, session, "")) // asks for another code
	c.expect("immediate_response")
	c.expect("otp_verification_required")
	c.expect("otp_sent")
	if h.sent[0].ID == h.sent[1].ID {
		t.Error("SMO-206 what is locked is not sent again")
	}
	c.verify(session, "123456")
	c.expect("otp_verified")
	c.until("eventual_response")
}

func TestACodeExpiresHereToo(t *testing.T) {
	h, watch := &host{left: 1000}, new(clock)
	s := serveAt(t, watch.now, func(e *edge.Site) { e.Smooth.Codes, e.Smooth.Park = h, -1 })
	c := s.dial("ann")
	session := c.parkCode(s)
	watch.forward(10*time.Minute + time.Second)
	c.verify(session, "123456")
	c.wrong("SMO-205 SMO-210 ten minutes later", "EXPIRED", 0)
	if h.tried != 0 {
		t.Error("SMO-210 the service is not asked")
	}
	for range 9 {
		c.send("%s", getSession(s, session, ""))
		c.expect("immediate_response")
		c.expect("otp_verification_required")
		c.expect("otp_sent")
		watch.forward(codeAge)
	}
	c.send("%s", getSession(s, session, ""))
	c.until("otp_sent")
	if n := len(h.sent); n != 11 {
		t.Errorf("SMO-210 %d codes", n)
	}
}

// codeAge ends a challenge, and some of them an hour.
const codeAge = 10*time.Minute + time.Second

func TestCodesAreNotSentWithoutEnd(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes, e.Smooth.CodesPerAddress = h, 20 })
	c := s.dial("ann")
	session := c.parkCode(s)
	for range 5 {
		c.send("%s", getSession(s, session, ""))
		c.until("otp_sent")
	}
	if len(h.sent) != 3 {
		t.Errorf("SMO-210 the code of a challenge was sent %d times", len(h.sent))
	}
	for range 9 {
		c.send(`{"action":"cancel"}`)
		c.expect("cancelled")
		s.agent.says(askForCode)
		c.say(session, "turn", "my bills")
		c.expect("otp_verification_required")
		c.expect("otp_sent")
	}
	c.send(`{"action":"cancel"}`)
	c.expect("cancelled")
	s.agent.says(askForCode)
	c.say(session, "turn", "my bills")
	c.expect("otp_verification_required")
	c.refused("SMO-208 an eleventh challenge within an hour", "OTP_SEND_FAILED", "turn")
	if len(h.sent) != 12 {
		t.Errorf("SMO-210 %d codes", len(h.sent))
	}
}

// TestNobodyIsFloodedWithCodes: an address has a bound of its own, whoever names it
// in however many sessions, on whichever edge.
func TestNobodyIsFloodedWithCodes(t *testing.T) {
	h := &host{left: 1000}
	a, b, store, watch := pair(t, func(e *edge.Site) { e.Smooth.Codes = h })
	ask := func(s *site, who, address string) frame {
		c := s.dial(who)
		defer c.close()
		session := c.session(`,"userEmail":"` + address + `"`).text("data.sessionId")
		a.agent.says(askForCode)
		c.say(session, "turn", "my bills")
		c.expect("otp_verification_required")
		f := c.next()
		c.send(`{"action":"cancel"}`)
		c.expect("cancelled")
		return f
	}
	for n := range smooth.DefaultCodesPerAddress {
		who, address := []string{"bob", ""}[n%2], []string{"ann@example.com", "Ann@Example.com"}[n/2%2]
		if f := ask([]*site{a, b}[n%2], who, address); f.kind() != "otp_sent" {
			t.Fatalf("SMO-210 code %d: %s", n+1, f)
		}
	}
	for _, s := range []*site{a, b} {
		if f := ask(s, "carol", "ann@example.com"); f.text("error.code") != "OTP_SEND_FAILED" || f.text("requestId") != "turn" {
			t.Errorf("SMO-208 SMO-210 one code too many for an address: %s", f)
		}
	}
	if f := ask(b, "carol", "carol@example.com"); f.kind() != "otp_sent" {
		t.Errorf("SMO-210 another address: %s", f)
	}
	if n := len(h.sent); n != smooth.DefaultCodesPerAddress+1 {
		t.Errorf("SMO-210 %d codes were sent", n)
	}
	for _, key := range store.Do("KEYS", "*").([]any) {
		if k := fmt.Sprintf("%s", key); strings.Contains(strings.ToLower(k), "example.com") {
			t.Errorf("SMO-210 the name of a count tells the address: %s", k)
		}
	}
	watch.forward(time.Hour)
	if f := ask(a, "carol", "ann@example.com"); f.kind() != "otp_sent" {
		t.Errorf("SMO-210 an hour later: %s", f)
	}
}

func TestAttemptsAtOnce(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.parkCode(s)
	var wg sync.WaitGroup
	for range 8 {
		other := s.dial("ann")
		wg.Go(func() {
			for range 3 {
				other.verify(session, "000000")
				if f := other.next(); f.kind() != "otp_invalid" && f.text("error.code") != "STORAGE_ERROR" {
					t.Errorf("SMO-205 %s", f)
				}
			}
		})
	}
	wg.Wait()
	if h.tried == 0 || h.tried > 5 {
		t.Errorf("SMO-210 %d attempts of 24 at once were made", h.tried)
	}
}

func TestAServiceThatIsDownCostsNoAttempt(t *testing.T) {
	h := &host{left: 1000, down: true}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.parkCode(s)
	for range 6 {
		c.verify(session, "123456")
		c.refused("SMO-126 an error that does not end the turn", "INTERNAL_ERROR", "v")
	}
	h.down = false
	c.verify(session, "123456")
	c.expect("otp_verified")
	c.until("eventual_response")
}

func TestOTPResumeResend(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes, e.Smooth.Resend = h, true })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(askForCode, text("I need to know who you are."))
	c.say(session, "turn", "my bills")
	order := ""
	for _, f := range c.until("eventual_response") {
		if f.text("requestId") != "turn" {
			t.Errorf("SMO-204 %s", f)
		}
		if f.kind() != "stream_token" {
			order += f.kind() + " "
		}
	}
	if order != "otp_verification_required otp_sent eventual_response " {
		t.Errorf("SMO-204 the turn ends without the code: %s", order)
	}
	if a := s.agent.last().Answers; len(a) != 1 || a[0].Status != chat.InterruptDeclined {
		t.Errorf("SMO-204 the agent goes on without: %+v", a)
	}
	c.verify(session, "000000")
	c.wrong("SMO-205 after the turn", "INVALID_CODE", 4)
	c.verify(session, "123456")
	c.expect("otp_verified")
	c.verify(session, "123456")
	c.wrong("SMO-207 a code counts once", "NOT_FOUND", 0)
	s.agent.says(askForCode, text("here they are"))
	c.say(session, "again", "my bills")
	if f := c.until("eventual_response")[0]; f.kind() != "otp_verified" || f.text("requestId") != "again" {
		t.Errorf("SMO-203 the session is authenticated: %s", f)
	}
	call := s.agent.last()
	if a := call.Answers; string(a[0].Answer) != `{"verified":true,"by":"session"}` || !strings.Contains(string(call.Origin.Props), `"verified":true`) {
		t.Errorf("SMO-203 the agent is told: %+v %s", a[0], call.Origin.Props)
	}
	if len(h.sent) != 1 {
		t.Errorf("%d codes were sent", len(h.sent))
	}
	other := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	s.agent.says(text("hm"))
	c.say(other, "other", "hi")
	c.until("eventual_response")
	if strings.Contains(string(s.agent.last().Origin.Props), "verified") {
		t.Error("SMO-203 it is the session that is authenticated, no other")
	}
}

func TestAnAgentThatDoesNotPark(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com","supports":["identity_form"]`).text("data.sessionId")
	want := scriptItem{Kind: "custom", Name: "otp", Value: []byte(`{"toolId":"bills","message":"To see your bills.","authLevel":"end_user"}`)}
	s.agent.says(want, text("I need to know who you are."))
	c.say(session, "turn", "my bills")
	list := c.until("eventual_response")
	kinds := map[string]int{}
	for _, f := range list {
		kinds[f.kind()]++
		if f.kind() == "otp_verification_required" && (f.text("data.data.toolId") != "bills" || f.text("data.data.actionDescription") != "To see your bills.") {
			t.Errorf("SMO-200 %s", f)
		}
	}
	if kinds["otp_verification_required"] != 1 || kinds["otp_sent"] != 1 {
		t.Errorf("SMO-204 the code is sent before the turn ends: %v", list)
	}
	c.silent("SMO-022 nothing follows the end")
	c.verify(session, "123456")
	c.expect("otp_verified")
	s.agent.says(want, text("here they are"))
	c.say(session, "again", "my bills")
	for _, f := range c.until("eventual_response") {
		if f.kind() == "otp_verification_required" {
			t.Errorf("SMO-203 who is verified is asked again: %s", f)
		}
	}
	s.agent.says(call("request_identity_intake", intakeRaise), want, text("bob?"))
	c.say(session, "third", "I am Bob")
	f := c.expect("interaction_required")
	c.expect("stream_chunk")
	c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":{"email":"bob@example.com"}}`, session, f.text("data.data.interactionId"))
	asked := 0
	for _, f := range c.until("eventual_response") {
		if f.kind() == "otp_sent" && f.text("data.data.maskedDestination") == "b***@example.com" {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("SMO-203 who was verified at another address is not at this one: %d", asked)
	}
}

// TestNoCodeIsKept: neither the journal nor the log has one, right or wrong.
func TestNoCodeIsKept(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.parkCode(s)
	c.verify(session, "987654")
	c.expect("otp_invalid")
	c.verify(session, "123456")
	c.until("eventual_response")
	c.close()
	s.stop()
	looked := 0
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		looked += len(b)
		if bytes.Contains(b, []byte("987654")) || bytes.Contains(b, []byte("123456")) {
			t.Errorf("SMO-210 %s has a code", path)
		}
		return err
	})
	if err != nil || looked == 0 {
		t.Errorf("nothing was looked at: %d %v", looked, err)
	}
}

// lateHost answers two codes when it is told to: "late", that it is down, and
// "slow", that it is right.
type lateHost struct {
	*host
	asked, answer chan struct{}
}

func (h *lateHost) Verify(ctx context.Context, c smooth.Challenge, code string) (smooth.Verdict, error) {
	switch code {
	case "late", "slow":
		close(h.asked)
		<-h.answer
		if code == "slow" {
			return smooth.Verdict{OK: true}, nil
		}
		return smooth.Verdict{}, errors.New("the service is down")
	}
	return h.host.Verify(ctx, c, code)
}

// An attempt that fails late gives back its own, and none that was counted since.
func TestALateFailureGivesBackOneAttempt(t *testing.T) {
	for _, locked := range []bool{false, true} {
		h := &lateHost{&host{left: 1000}, make(chan struct{}), make(chan struct{})}
		s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
		c, other := s.dial("ann"), s.dial("ann")
		session := c.parkCode(s)
		other.verify(session, "late")
		<-h.asked
		if locked {
			h.left = 0
			c.verify(session, "000000")
			c.wrong("SMO-206 the service locks it", "MAX_ATTEMPTS", 0)
		} else {
			for left := 3.0; left >= 0; left-- {
				c.verify(session, "000000")
				c.wrong("SMO-206 SMO-210 each attempt counts", "INVALID_CODE", left)
			}
		}
		close(h.answer)
		other.refused("SMO-126 an error that does not end the turn", "INTERNAL_ERROR", "v")
		if !locked {
			c.verify(session, "000000")
			c.wrong("SMO-210 the one that was given back", "INVALID_CODE", 0)
		}
		c.verify(session, "123456")
		c.wrong("SMO-206 SMO-210 it stays locked", "MAX_ATTEMPTS", 0)
	}
}

// A code that went to one address vouches for no other: neither where the person
// says to be another before it is checked, nor while it is.
func TestACodeVouchesForItsAddress(t *testing.T) {
	for _, during := range []bool{false, true} {
		h := &lateHost{&host{left: 1000}, make(chan struct{}), make(chan struct{})}
		s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
		c, other := s.dial("ann"), s.dial("ann")
		session := c.session(`,"userEmail":"ann@example.com","supports":["identity_form"]`).text("data.sessionId")
		s.agent.says(scriptItem{Kind: "custom", Name: "otp", Value: []byte(`{"toolId":"bills"}`)}, text("who?"))
		c.say(session, "turn", "my bills")
		c.until("eventual_response")
		if during {
			other.verify(session, "slow")
			<-h.asked
		}
		s.agent.says(call("request_identity_intake", intakeRaise), text("bob?"))
		c.say(session, "again", "I am Bob")
		f := c.expect("interaction_required")
		c.expect("stream_chunk")
		c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":{"email":"bob@example.com"}}`, session, f.text("data.data.interactionId"))
		c.until("eventual_response")
		if during {
			close(h.answer)
			other.expect("otp_invalid")
		} else {
			close(h.answer)
			other.verify(session, "slow")
			other.wrong("SMO-203 a code for another address", "NOT_FOUND", 0)
		}
		s.agent.says(text("hm"))
		c.say(session, "last", "hi")
		c.until("eventual_response")
		if p := string(s.agent.last().Origin.Props); !strings.Contains(p, "bob@example.com") || strings.Contains(p, `"verified":true`) {
			t.Errorf("SMO-203 during %v, the agent is told: %s", during, p)
		}
	}
}

// An agent that says again and again that it needs a code has one sent for the turn.
func TestATurnHasOneCodeSentUnasked(t *testing.T) {
	h := &host{left: 1000}
	s := serve(t, func(e *edge.Site) { e.Smooth.Codes = h })
	c := s.dial("ann")
	session := c.session(`,"userEmail":"ann@example.com"`).text("data.sessionId")
	var script []scriptItem
	for range 50 {
		script = append(script, scriptItem{Kind: "custom", Name: "otp", Value: []byte(`{"toolId":"bills"}`)})
	}
	for n := 1; n <= 2; n++ {
		s.agent.says(append(script, text("who?"))...)
		c.say(session, "turn", "my bills")
		cards := 0
		for _, f := range c.until("eventual_response") {
			if f.kind() == "otp_verification_required" {
				cards++
			}
		}
		if cards != 1 || len(h.sent) != n {
			t.Errorf("SMO-200 turn %d: %d cards, %d codes", n, cards, len(h.sent))
		}
	}
}
