package socket

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = chat.Key{Realm: "r", Thread: "t"}

// serve calls an agent as a conductor does and returns what it emits, and how it
// ends, when it ends.
func serve(ctx context.Context, a *Agent, draft ...*chat.Part) (*agent.Call, *[]agent.Event, chan agent.Outcome) {
	var events []agent.Event
	out := make(chan agent.Outcome, 1)
	call := &agent.Call{Key: key, Run: "run", Draft: draft}
	go func() {
		out <- a.Run(ctx, call, func(e agent.Event) error {
			events = append(events, e)
			return nil
		})
	}()
	return call, &events, out
}

// said folds events as a thread does.
func folded(events []agent.Event) (text string, starts, rewrites int) {
	for _, e := range events {
		switch {
		case e.Kind == chat.KindTextStart:
			starts++
		case e.Kind != chat.KindTextDelta:
		case e.Rewrite:
			text = e.Text
			rewrites++
		default:
			text += e.Text
		}
	}
	return text, starts, rewrites
}

// PIN-194 PIN-196 PIN-197: whole texts become deltas.
func TestTexts(t *testing.T) {
	for name, c := range map[string]struct {
		pushes   []string
		text     string
		events   int
		rewrites int
	}{
		"each prolongs the one before":    {[]string{"one", "one two", "one two three"}, "one two three", 4, 0},
		"an unchanged text says nothing":  {[]string{"one", "one", "one"}, "one", 2, 0},
		"another text takes its place":    {[]string{"one", "two", "two three"}, "two three", 4, 1},
		"a shorter text takes its place":  {[]string{"one two", "one", "one more"}, "one more", 4, 1},
		"nothing is not said":             {[]string{"", "one", "", "one two"}, "one two", 3, 0},
		"a prolongation within a letter":  {[]string{"é", "é😀", "é😀x"}, "é😀x", 4, 0},
		"the former as a piece of itself": {[]string{"a", "ba"}, "ba", 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Options{})
			call, events, out := serve(t.Context(), a)
			for _, p := range c.pushes {
				say(t, a, call, Push{Text: &p})
			}
			say(t, a, call, Push{End: chat.RunComplete})
			if o := <-out; o.Status != chat.RunComplete {
				t.Errorf("it ends as %+v", o)
			}
			text, starts, rewrites := folded(*events)
			if text != c.text || starts != 1 || rewrites != c.rewrites || len(*events) != c.events {
				t.Errorf("%q of %d blocks with %d rewrites: %+v", text, starts, rewrites, *events)
			}
			if err := a.Push(t.Context(), call, Push{End: chat.RunComplete}); !errors.Is(err, ErrAbsent) {
				t.Errorf("PIN-200 a second end: %v", err)
			}
		})
	}
}

// say pushes as soon as the run is served.
func say(t *testing.T, a *Agent, c *agent.Call, p Push) {
	t.Helper()
	for {
		err := a.Push(t.Context(), c, p)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrAbsent) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// PIN-194 PIN-204: after a pause the text goes on in a block that stands in place
// of the one before.
func TestTextGoesOn(t *testing.T) {
	for _, whole := range []string{"May I? Yes.", "Something else"} {
		a := New(Options{})
		call, events, out := serve(t.Context(), a, &chat.Part{Type: chat.PartText, Text: chat.Text("May I?")})
		same := "May I?"
		say(t, a, call, Push{Text: &same})
		say(t, a, call, Push{Text: &whole})
		say(t, a, call, Push{End: chat.RunError})
		if o := <-out; o.Status != chat.RunError || o.Code == "" {
			t.Errorf("%+v", o)
		}
		if text, _, _ := folded(*events); text != whole || len(*events) != 2 || !(*events)[0].Rewrite {
			t.Errorf("%+v", *events)
		}
	}
}

// PIN-203: a decision is asked for with the call in the agent's own words.
func TestSuspend(t *testing.T) {
	a := New(Options{})
	call, events, out := serve(t.Context(), a)
	say(t, a, call, Push{Suspend: &Suspend{Call: "c", Tool: "mail", Args: []byte(`{"to":"bob"}`)}})
	o := <-out
	if o.Status != chat.RunSuspended || len(o.Interrupts) != 1 || len(*events) != 3 {
		t.Fatalf("%+v %+v", o, *events)
	}
	if i := o.Interrupts[0]; i.Name() != "c" || i.Tool != "mail" || i.Kind != chat.InterruptApproval || !strings.Contains(string(i.Payload), `"args":{"to":"bob"}`) {
		t.Errorf("%+v", i)
	}
}

// PIN-194 PIN-206: another attempt at the segment goes on with the text that is
// there; the session of an attempt that was lost does not end the one after it.
func TestAnotherAttempt(t *testing.T) {
	for whole, rewrites := range map[string]int{"May I? Yes.": 0, "May I?": 0, "No.": 1} {
		a := New(Options{})
		ctx, lose := context.WithCancel(t.Context())
		former, _, lost := serve(ctx, a)
		first := "May I?"
		say(t, a, former, Push{Text: &first})
		if err := a.Push(t.Context(), &agent.Call{Key: key, Run: "run"}, Push{Text: &whole}); !errors.Is(err, ErrAbsent) {
			t.Errorf("a call that is not served yet: %v", err)
		}
		call, events, out := serve(t.Context(), a, &chat.Part{Type: chat.PartText, Text: chat.Text("May I?"), Open: true})
		lose()
		if o := <-lost; o.Status != chat.RunCancelled {
			t.Errorf("%+v", o)
		}
		say(t, a, call, Push{Text: &whole})
		if err := a.Push(t.Context(), former, Push{End: chat.RunComplete}); !errors.Is(err, ErrAbsent) {
			t.Errorf("a call that is over: %v", err)
		}
		say(t, a, call, Push{End: chat.RunComplete})
		<-out
		text, starts, n := folded(*events)
		if n == 0 {
			text = first + text
		}
		if text != whole || starts != 0 || n != rewrites {
			t.Errorf("%q of %d blocks with %d rewrites: %+v", text, starts, n, *events)
		}
		if len(a.sessions) != 0 {
			t.Error("a session is left")
		}
	}
}

// PIN-185: each sign of life counts; after none for long enough the run ends.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{})
		call, _, out := serve(t.Context(), a)
		text := ""
		for range 5 {
			time.Sleep(DefaultIdle - time.Second)
			text += "x"
			say(t, a, call, Push{Text: &text})
		}
		begin := time.Now()
		if o := <-out; o.Status != chat.RunCancelled || time.Since(begin) != DefaultIdle {
			t.Errorf("%+v after %v", o, time.Since(begin))
		}
	})
}
