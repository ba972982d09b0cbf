package pilotoo

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestRefusalsAreWordedInFiveCodes(t *testing.T) {
	cases := []struct {
		name string
		err  error
		code Code
	}{
		{"PIL-184 PIL-043 no such thread", chat.ErrNoThread, CodeConversation},
		{"PIL-183 PIL-035 a message twice", chat.ErrDuplicateMessage, CodeDuplicate},
		{"PIL-185 PIL-040 no fork point", chat.ErrForkPoint, CodeForkPoint},
		{"PIL-182 PIL-096 PIL-104 no active run", chat.ErrUnknownRun, CodeUnknownRun},
		{"PIL-182 PIL-084 no such decision", chat.ErrNotWaiting, CodeUnknownRun},
		{"PIL-181 PIL-041 an answer is no fork point", chat.ErrForkRole, CodeInvalid},
		{"PIL-181 PIL-046 a run is in flight", chat.ErrBusy, CodeInvalid},
		{"PIL-181 PIL-047 another's run waits", chat.ErrWaiting, CodeInvalid},
		{"PIL-181 PIL-105 nothing to detach", chat.ErrNoSubagent, CodeInvalid},
		{"PIL-181 too many runs", chat.ErrTooManyRuns, CodeInvalid},
		{"PIL-181 a run id twice", chat.ErrDuplicateRun, CodeInvalid},
		{"PIL-187 a fault of the storage", fmt.Errorf("redis at 10.0.0.7: %w", fs.ErrPermission), CodeInvalid},
		{"PIL-187 a lost connection", errors.New("dial tcp: refused"), CodeInvalid},
	}
	for _, c := range cases {
		for _, err := range []error{c.err, fmt.Errorf("thread 7 on shard secret-host: %w", c.err)} {
			e := refusal(err)
			if e.Code != c.code || e.Message == "" {
				t.Errorf("%s: %+v, want %s", c.name, e, c.code)
			}
			for _, inner := range []string{"secret-host", "redis", "10.0.0.7", "permission", "dial"} {
				if strings.Contains(e.Message, inner) {
					t.Errorf("PIL-131 %s: the client is told %q", c.name, e.Message)
				}
			}
			for name, b := range map[string][]byte{"protocol.error": errorObject(e), "command.ack": failure(e), "thread.messages.ack": failure(e)} {
				if err := validate(t, name, b); err != nil {
					t.Errorf("PIL-158 PIL-159 %s: %s: %v", c.name, b, err)
				}
			}
		}
	}
	if e := refusal(chat.ErrBusy); e.Message != "a run is already in flight" {
		t.Errorf("PIL-046 the message is %q", e.Message)
	}
	if !fault(errors.New("x")) || fault(chat.ErrBusy) || fault(invalid("x")) {
		t.Error("a fault is what is not in the table")
	}
}

// PIL-186: what a start is refused with when several things are wrong.
func TestPrecedenceOfErrors(t *testing.T) {
	w := newWorld(t)
	first := w.open()
	w.text(first, w.state.Run(first).Answer, "hello")
	question := w.state.Run(first).Message
	w.end(first, chat.End{Status: chat.RunComplete})
	answer := w.state.Tail[1].ID
	w.say(chat.Start{})

	start := func(st *chat.State, message, fork string) error {
		_, err := st.Start(chat.Start{
			Message: &chat.Message{ID: message}, Fork: fork, Run: "r", Answer: "a", Segment: "s", WithdrawSegment: "v",
			Upstream: "u", OneRun: true, Origin: chat.Origin{By: ann},
		}, w.lookup)
		return err
	}
	nobody := &chat.State{Schema: chat.SchemaVersion}
	cases := []struct {
		name string
		err  error
		code Code
	}{
		{"no thread before a duplicate", start(nobody, question, "nowhere"), CodeConversation},
		{"a duplicate before a fork point", start(w.state, question, "nowhere"), CodeDuplicate},
		{"PIL-041 a message that replaces itself is a duplicate", start(w.state, "new", "new"), CodeDuplicate},
		{"PIL-036 an answer's id is taken too", start(w.state, answer, ""), CodeDuplicate},
		{"a fork point before a run in flight", start(w.state, "new", "nowhere"), CodeForkPoint},
		{"PIL-041 an answer as fork point", start(w.state, "new", answer), CodeInvalid},
		{"PIL-046 a run in flight", start(w.state, "new", ""), CodeInvalid},
		{"no thread before an unknown decision", func() error {
			_, _, _, err := nobody.Answer(chat.Answer{Interrupt: "i"})
			return err
		}(), CodeConversation},
		{"PIL-084 an unknown decision", func() error {
			_, _, _, err := w.state.Answer(chat.Answer{Interrupt: "i"})
			return err
		}(), CodeUnknownRun},
	}
	for _, c := range cases {
		if e := refusal(c.err); e.Code != c.code {
			t.Errorf("PIL-186 %s: %v is %s, want %s", c.name, c.err, e.Code, c.code)
		}
	}
}
