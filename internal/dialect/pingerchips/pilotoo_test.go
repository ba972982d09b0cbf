package pingerchips_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// people admits whoever names himself, to all threads: a Pilotoo user with a
// capability on what the app's users talk about.
type people struct{}

func (people) Authenticate(_ context.Context, c identity.Credentials) (identity.Principal, error) {
	if c.Token == "" {
		return identity.Principal{}, identity.ErrUnauthenticated
	}
	return identity.Principal{
		Realm: "default", Subject: identity.Subject{Issuer: "test", ID: c.Token},
		Caps: identity.OwnThreads(identity.UserVerbs).WithAll(identity.UserVerbs),
	}, nil
}

func (people) Recheck(identity.Principal, time.Time) error { return nil }

// pilot is a window that speaks Pilotoo, as far as these tests need it.
type pilot struct {
	t    *testing.T
	ws   *websocket.Conn
	done chan struct{}

	mu   sync.Mutex
	acks map[int]jsontext.Value
	seen []envelope
	n    int
	bell chan struct{}
}

type envelope struct {
	RunID    string `json:"runId"`
	Sequence int    `json:"sequence"`
	Event    struct {
		Type        string `json:"type"`
		MessageID   string `json:"messageId"`
		Delta       string `json:"delta"`
		InterruptID string `json:"interruptId"`
	} `json:"event"`
}

func (s *site) pilot(t *testing.T, who string) *pilot {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), s.url+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{HTTPClient: s.client})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	p := &pilot{t: t, ws: ws, done: make(chan struct{}), acks: map[int]jsontext.Value{}, bell: make(chan struct{}, 1)}
	p.write(`40{"token":` + quote(who) + `}`)
	go p.read()
	t.Cleanup(func() { _ = ws.CloseNow(); <-p.done })
	return p
}

func (p *pilot) write(s string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = p.ws.Write(ctx, websocket.MessageText, []byte(s))
}

func (p *pilot) read() {
	defer close(p.done)
	for {
		_, b, err := p.ws.Read(context.Background())
		if err != nil {
			return
		}
		if string(b) == "2" {
			p.write("3")
			continue
		}
		var id int
		p.mu.Lock()
		switch {
		case strings.HasPrefix(string(b), "43"):
			at := strings.IndexByte(string(b), '[')
			_, _ = fmt.Sscan(string(b[2:at]), &id)
			var list []jsontext.Value
			if json.Unmarshal(b[at:], &list) == nil && len(list) > 0 {
				p.acks[id] = list[0]
			}
		case strings.HasPrefix(string(b), `42["run:event",`):
			var list []jsontext.Value
			var e envelope
			if json.Unmarshal(b[2:], &list) == nil && json.Unmarshal(list[1], &e) == nil {
				p.seen = append(p.seen, e)
			}
		}
		p.mu.Unlock()
		select {
		case p.bell <- struct{}{}:
		default:
		}
	}
}

func (p *pilot) wait(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		done := ok()
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-p.bell:
		case <-deadline:
			p.t.Fatalf("%s did not come", what)
		}
	}
}

// call sends a command and returns its acknowledgement.
func (p *pilot) call(command, payload string) (ack struct {
	OK       bool   `json:"ok"`
	RunID    string `json:"runId"`
	Messages []struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
},
) {
	p.t.Helper()
	p.n++
	id := p.n
	p.write(fmt.Sprintf(`42%d[%q,%s]`, id, command, payload))
	p.wait(command, func() bool { return p.acks[id] != nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.Unmarshal(p.acks[id], &ack); err != nil {
		p.t.Fatalf("%s: %v", p.acks[id], err)
	}
	return ack
}

// until waits for an event of any run behind the first from ones.
func (p *pilot) until(from int, event string) (e envelope) {
	p.t.Helper()
	p.wait(event, func() bool {
		for _, x := range p.seen[min(from, len(p.seen)):] {
			if x.Event.Type == event {
				e = x
				return true
			}
		}
		return false
	})
	return e
}

func (p *pilot) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

func withPeople(c *edge.Site) { c.Auth = people{} }

func unmarshal(t failer, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

// same compares what both dialects show of a thread, message by message.
func same(t *testing.T, what string, w *window, p *pilot, thread string) {
	t.Helper()
	var one, two []string
	for _, m := range w.ok("view:get", `{"limit":200}`).Messages {
		if m.Role == "user" || deref(m.Content) != "" { // C27: Pilotoo hides what is empty
			one = append(one, m.Role+": "+deref(m.Content))
		}
	}
	for _, m := range p.call("thread:messages", `{"threadId":`+quote(thread)+`}`).Messages {
		if m.Role == "assistant" && m.Content == "" {
			continue
		}
		// Pilotoo shows a message for each text part (C13), Pingerchips one.
		if n := len(two) - 1; m.Role == "assistant" && n >= 0 && strings.HasPrefix(two[n], "assistant: ") {
			two[n] += "\n\n" + m.Content
			continue
		}
		two = append(two, m.Role+": "+m.Content)
	}
	if strings.Join(one, "\n") != strings.Join(two, "\n") {
		t.Errorf("PIN-250 %s: Pingerchips shows\n%s\nPilotoo shows\n%s", what, strings.Join(one, "\n"), strings.Join(two, "\n"))
	}
}

func TestOneThreadInTwoDialects(t *testing.T) {
	s := serve(t, withPeople)
	w := s.joinAs("t1", s.token("ann", "chat:subscribe:t1", "chat:publish:user_message:t1", "chat:publish:cancel_any:t1", "chat:publish:tool_approval:t1"))
	p := s.pilot(t, "pete")
	if h := p.call("thread:messages", `{"threadId":"t1"}`); !h.OK || len(h.Messages) != 0 {
		t.Fatalf("PIN-250 a thread of Pingerchips in Pilotoo: %+v", h)
	}
	start := func(id, text, more string) string {
		t.Helper()
		a := p.call("run:start", `{"threadId":"t1","messageId":`+quote(id)+`,"input":`+quote(text)+more+`}`)
		if !a.OK {
			t.Fatalf("run:start %s was refused", id)
		}
		return a.RunID
	}
	ends := func(from int, kind string) frame {
		t.Helper()
		list := w.after(from, kind, event(kind))
		return list[len(list)-1]
	}

	// A run of Pilotoo in Pingerchips.
	n := w.count()
	start("p1", "hello there", "")
	begun := read(t, ends(n, "run:start"))
	end := read(t, ends(n, "run:end"))
	w.over(n, end.RunID)
	if begun.OwnerClientID != "pete" || end.RunID != begun.RunID {
		t.Errorf("PIN-250 a run of Pilotoo's is shown as %s", begun.raw)
	}
	changes := 0
	for _, f := range w.all()[n:] {
		if f.event == "change" {
			changes++
		}
	}
	if changes == 0 {
		t.Error("PIN-250 its text was not shown as it came")
	}
	same(t, "a run of Pilotoo", w, p, "t1")

	// And the other way round.
	from := p.count()
	w.talk("w1", "hello back /tool /think /plan done")
	p.until(from, "RUN_FINISHED")
	same(t, "a run of Pingerchips", w, p, "t1")
	c := newClient(t, "PIN-251")
	c.frames(w.all())
	for k, v := range c.slots {
		if strings.HasPrefix(k, "ext:") || strings.Contains(v, "toolCalls") {
			t.Errorf("PIN-251 PIN-023 slot %s is %s", k, v)
		}
	}

	// Each stops the other's.
	n = w.count()
	start("p2", "words /slow", "")
	run := read(t, ends(n, "run:start")).RunID
	from = p.count()
	w.ok("cancel", `{"runId":`+quote(run)+`}`)
	p.until(from, "RUN_CANCELLED")
	same(t, "a run of Pilotoo that Pingerchips cancelled", w, p, "t1")
	from, n = p.count(), w.count()
	w.send("w2", "words /slow")
	segment := p.until(from, "RUN_STARTED").RunID
	if a := p.call("run:cancel", `{"runId":`+quote(segment)+`}`); !a.OK {
		t.Error("PIN-250 Pilotoo cannot cancel a run of Pingerchips")
	}
	if e := read(t, ends(n, "run:end")); !strings.Contains(string(e.raw), "cancelled") {
		t.Errorf("PIN-143 %s", e.raw)
	}
	w.over(n, "r-w2")
	same(t, "a run of Pingerchips that Pilotoo cancelled", w, p, "t1")

	// Each answers the other's questions.
	n = w.count()
	start("p3", "/ask", "")
	ask := read(t, ends(n, "run:suspend"))
	w.ok("tool_approval", `{"runId":`+quote(ask.RunID)+`,"toolCallId":`+quote(ask.ToolCallID)+`,"approved":true}`)
	w.over(n, ask.RunID)
	same(t, "a question of Pilotoo's that Pingerchips answered", w, p, "t1")
	from, n = p.count(), w.count()
	w.send("w3", "/ask")
	asked := p.until(from, "INTERRUPT").Event.InterruptID
	if a := p.call("run:resume", `{"threadId":"t1","interruptId":`+quote(asked)+`,"answer":false}`); !a.OK {
		t.Error("PIN-250 Pilotoo cannot answer a question of Pingerchips'")
	}
	w.over(n, "r-w3")
	same(t, "a question of Pingerchips' that Pilotoo answered", w, p, "t1")

	// A fork here is a branch there.
	n = w.count()
	start("p1b", "hello again", `,"forkFromMessageId":"p1"`)
	w.over(n, read(t, ends(n, "run:start")).RunID)
	same(t, "a fork of Pilotoo", w, p, "t1")
	if g := w.ok("tree:siblings", `{"messageId":"p1"}`); strings.Join(g.Siblings, " ") != "p1 p1b" {
		t.Errorf("PIN-232 the fork is %s", g.raw)
	}
	from = p.count()
	w.ok("edit", `{"messageId":"p1b","newMessageId":"w1b","runId":"r-w1b","text":"hello once more"}`)
	p.until(from, "RUN_FINISHED")
	same(t, "an edit of Pingerchips", w, p, "t1")
	from = p.count()
	w.ok("regenerate", `{"messageId":`+quote(w.answerOf("w1b"))+`,"runId":"r-again"}`)
	p.until(from, "RUN_FINISHED")
	same(t, "an answer made anew", w, p, "t1")

	all := newClient(t, "whole")
	all.frames(w.all())
	for run, n := range all.ends {
		if n != 1 {
			t.Errorf("PIN-200 run %s ended %d times", run, n)
		}
	}
}
