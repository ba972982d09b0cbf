package pingerchips_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"

	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// What each principal may do, push by push (PIN-030 to PIN-034, PIN-039): one
// capability at a time, each on the thread, on another one, and on all.
func TestCapabilities(t *testing.T) {
	s := serve(t, nil)
	owner := s.join("t1", "owner")
	pushes := []struct{ event, payload, verb string }{
		{"send", `{"messageId":"%[1]s","runId":"r-%[1]s","text":"hi"}`, "publish:user_message"},
		{"edit", `{"messageId":"m0","newMessageId":"%[1]s","runId":"r-%[1]s","text":"hi"}`, "publish:user_message"},
		{"regenerate", `{"messageId":"nobody","runId":"r-%[1]s"}`, "publish:user_message"},
		{"cancel", `{"runId":"r-foreign"}`, "publish:cancel_own"},
		{"tool_approval", `{"runId":"r-none","toolCallId":"c","approved":true}`, "publish:tool_approval"},
		{"load_older", `{}`, "subscribe"},
		{"branch:select", `{"messageId":"m0","selectedId":null}`, "subscribe"},
		{"branch:reset", `{}`, "subscribe"},
		{"tree:get", `{}`, "subscribe"},
		{"view:get", `{}`, "subscribe"},
		{"tree:siblings", `{"messageId":"m0"}`, "subscribe"},
		{"tree:node", `{"messageId":"m0"}`, "subscribe"},
		{"run:start", `{"runId":"x"}`, "publish:run_lifecycle"},
		{"run:end", `{"runId":"x"}`, "publish:run_lifecycle"},
		{"run:suspend", `{"runId":"x"}`, "publish:run_lifecycle"},
		{"run:resume", `{"runId":"x"}`, "publish:run_lifecycle"},
		{"run:token", `{"runId":"x","content":""}`, "publish:token"},
	}
	owner.talk("m0", "hi")
	verbs := []string{"publish:user_message", "publish:cancel_own", "publish:cancel_any", "publish:tool_approval", "publish:run_lifecycle", "publish:token"}
	n := 0
	try := func(name string, w *window, has func(verb string) bool) {
		t.Helper()
		for _, p := range pushes {
			n++
			payload := p.payload
			if strings.Contains(payload, "%") {
				payload = fmt.Sprintf(payload, fmt.Sprint("x", n))
			}
			f := w.call(p.event, payload)
			denied := !f.ok && read(t, f).Reason == "forbidden: missing "+p.verb
			if denied == has(p.verb) {
				t.Errorf("PIN-030 PIN-033 PIN-120 %s: %s is answered %s", name, p.event, f.payload)
			}
		}
	}
	for _, verb := range verbs {
		for thread, here := range map[string]bool{"t1": true, "*": true, "t2": false, "t1:x": false} {
			w := s.joinAs("t1", s.token("u-"+verb, "chat:subscribe:t1", "chat:"+verb+":"+thread))
			try(fmt.Sprintf("PIN-031 PIN-032 PIN-035 %s on %s", verb, thread), w, func(v string) bool {
				if v == "publish:run_lifecycle" || v == "publish:token" {
					return false // PIN-190
				}
				return v == "subscribe" || here && (v == verb || v == "publish:cancel_own" && verb == "publish:cancel_any")
			})
		}
	}
	agent, _, reason := s.attempt(topicOf("t1"), `{"secret":"sk_live_x","agent_id":"assistant"}`)
	if reason != "" {
		t.Fatalf("PIN-046 %s", reason)
	}
	try("PIN-039 an agent", agent, func(v string) bool {
		return slices.Contains([]string{"subscribe", "publish:run_lifecycle", "publish:token", "publish:cancel_own"}, v)
	})
}

// Who may stop whose run (PIN-135, PIN-140).
func TestWhoMayCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	own, any := "chat:publish:cancel_own:t1", "chat:publish:cancel_any:t1"
	for i, c := range []struct {
		name   string
		client string
		caps   []string
		reason string
	}{
		{"own run, cancel_own", "ann", []string{own}, ""},
		{"own run, cancel_any", "ann", []string{any}, ""},
		{"own run, both", "ann", []string{own, any}, ""},
		{"own run, neither", "ann", nil, "forbidden: missing publish:cancel_own"},
		{"other's run, cancel_own", "bob", []string{own}, "forbidden"},
		{"other's run, cancel_any", "bob", []string{any}, ""},
		{"other's run, both", "bob", []string{own, any}, ""},
		{"other's run, neither", "bob", nil, "forbidden: missing publish:cancel_own"},
		{"an agent", "", nil, ""},
	} {
		m := fmt.Sprint("m", i)
		ann := s.join("t1", "ann")
		ann.send(m, "/slow")
		w, _, _ := s.attempt(topicOf("t1"), `{"secret":"sk_live_x","agent_id":"assistant"}`)
		if c.client != "" {
			w = s.joinAs("t1", s.token(c.client, append(c.caps, "chat:subscribe:t1")...))
		}
		f := w.call("cancel", `{"runId":"r-`+m+`"}`)
		if r := read(t, f).Reason; r != c.reason || f.ok != (r == "") {
			t.Errorf("PIN-135 PIN-140 PIN-141 %s: %s, want %q", c.name, f.payload, c.reason)
		}
		if !f.ok {
			ann.ok("cancel", `{"runId":"r-`+m+`"}`)
		}
	}
}

// broken is a desk on which some calls fail.
type broken struct {
	dialect.Desk
	mu  sync.Mutex
	err error
}

func (b *broken) fails() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *broken) Messages(ctx context.Context, p identity.Principal, thread string, st *chat.State, from, to int) ([]*chat.Message, error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	return b.Desk.Messages(ctx, p, thread, st, from, to)
}

func (b *broken) Send(ctx context.Context, p identity.Principal, c dialect.Send) (conductor.Begun, error) {
	if err := b.fails(); err != nil {
		return conductor.Begun{}, err
	}
	return b.Desk.Send(ctx, p, c)
}

// apart is the dialect on a wire of its own, with a desk and agents of the test's.
func apart(t *testing.T, o func(*pingerchips.Options)) *site {
	t.Helper()
	s := serve(t, nil)
	po := pingerchips.Options{Desk: s.hub.Desk()}
	o(&po)
	server := pingerchips.NewServer(po)
	wire := phoenix.NewServer(phoenix.Options{}, server)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Accept(w, r, phoenix.Accept{Path: "/socket/", MaxPayload: pingerchips.MaxPayload, Value: server.Open(&dialect.Visit{Site: handler{s}})})
	}))
	t.Cleanup(func() { wire.Close(); server.Close(); h.Close() })
	s.url = h.URL
	return s
}

// handler is a site as the dialect sees it.
type handler struct{ s *site }

func (handler) Name() string { return "site" }
func (handler) Admit(context.Context, identity.Credentials) (identity.Principal, error) {
	return identity.Principal{}, identity.ErrUnauthenticated
}
func (handler) Recheck(identity.Principal, time.Time) error { return identity.ErrUnauthenticated }
func (h handler) Rules() dialect.Rules                      { return h.s.config.Rules }
func (h handler) App(key string) *identity.App {
	for _, a := range h.s.config.Apps {
		if a.Key == key {
			a.Realm = "default"
			return &a
		}
	}
	return nil
}

func TestFaults(t *testing.T) {
	b := &broken{}
	s := apart(t, func(o *pingerchips.Options) { b.Desk = o.Desk; o.Desk = b })
	w := s.join("t1", "ann")
	w.talk("m1", "hi")
	set := func(err error) { b.mu.Lock(); b.err = err; b.mu.Unlock() }
	for _, c := range []struct {
		name           string
		err            error
		event, payload string
		reason         string
	}{
		{"PIN-178 the archive cannot be read", fmt.Errorf("%w: secret detail", conductor.ErrPages), "load_older", `{}`, "archive_unavailable"},
		{"PIN-178 nor for the tree", fmt.Errorf("%w: secret detail", conductor.ErrPages), "tree:get", `{}`, "archive_unavailable"},
		{"a fault tells nothing", errors.New("secret detail"), "send", `{"messageId":"m","runId":"r","text":"x"}`, "internal"},
		{"a busy thread", conductor.ErrBusy, "send", `{"messageId":"m","runId":"r","text":"x"}`, "busy"},
	} {
		set(c.err)
		w.refuses(c.name, c.event, c.payload, c.reason)
	}
	set(nil)
	w.ok("load_older", `{}`)
}

// dialled is who serves agents in a test.
type dialled struct {
	mu   sync.Mutex
	seen []string
	out  func(string, []byte) error
	left chan struct{}
}

func (d *dialled) Join(p identity.Principal, thread string, out func(string, []byte) error) pingerchips.Agent {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.out = append(d.seen, "join "+p.Subject.ID+" "+thread), out
	return d
}

func (d *dialled) Push(_ context.Context, event string, payload []byte) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, event+" "+string(payload))
	if event == "run:end" {
		return true, pingerchips.Reason("already_ended")
	}
	return true, nil
}

func (d *dialled) Leave() { close(d.left) }

// An agent joins as a client does, and what it pushes goes to who serves agents.
func TestAgentsRole(t *testing.T) {
	d := &dialled{left: make(chan struct{})}
	s := apart(t, func(o *pingerchips.Options) { o.Agents = d })
	s.join("t1", "ann").talk("m1", "hi")
	w, reply, reason := s.attempt(topicOf("t1"), `{"secret":"sk_live_x","agent_id":"assistant","after_log_id":0}`)
	if reason != "" || !strings.Contains(string(reply), "socket_id") {
		t.Fatalf("PIN-046 %s", reason)
	}
	w.after(0, "PIN-064 the snapshot", event("snapshot"))
	if f := w.all()[1]; f.event != "batch" || !strings.HasSuffix(string(f.payload), `"log_id":1}`) {
		t.Errorf("PIN-046 PIN-060 first it is sent %s", f.payload)
	}
	if f := w.call("run:start", `{"runId":"r"}`); !f.ok || string(f.payload) != "{}" {
		t.Errorf("PIN-191 %s", f.payload)
	}
	w.refuses("PIN-191", "run:end", `{"runId":"r"}`, "already_ended")
	w.refuses("PIN-039", "send", `{"messageId":"m","runId":"r","text":"x"}`, "forbidden: missing publish:user_message")
	if err := d.out("tool_approval", []byte(`{"runId":"r","toolCallId":"c","approved":true}`)); err != nil {
		t.Error(err)
	}
	w.after(0, "what the agent is told", event("tool_approval"))
	s.joinAs("t1", s.token("x", "chat:subscribe:t1", "chat:publish:token:t1")).refuses("PIN-190", "run:token", `{}`, "forbidden: missing publish:token")
	w.ask("phx_leave", `{}`)
	<-d.left
	want := []string{"join assistant t1", `run:start {"runId":"r"}`, `run:end {"runId":"r"}`}
	if !slices.Equal(d.seen, want) {
		t.Errorf("PIN-190 who serves agents has seen %q", d.seen)
	}
}
