package edge

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

// shared is a journal that hubs close in turn; the last one does.
type shared struct{ journal.Journal }

func (shared) Close() error { return nil }

// newPair starts two hubs on one journal: two edges.
func newPair(t *testing.T) (a, b *Hub) {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	start := func(name string) *Hub {
		h := NewHub(shared{j}, Options{Name: name, Version: "v1", Shared: true})
		t.Cleanup(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
		site := &Site{
			Name: "test", Realm: "default", Pilotoo: &Pilotoo{Path: "/socket.io/", Routes: true},
			Agents: []NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond})}},
		}
		off, err := h.Activate([]*Site{site})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(off)
		return h
	}
	return start("a"), start("b")
}

// eventually asks until ok; each look is a call of its own.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s did not come", what)
		}
	}
}

func TestPresenceIsSeenFromEveryEdge(t *testing.T) {
	a, b := newPair(t)
	ctx, p := t.Context(), person("ann")
	th, err := a.Desk().Create(ctx, p, dialect.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	seat, err := a.Desk().Join(ctx, p, th.ID, pilotoo.Variant{}, newWatcher())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Desk().Join(ctx, person("bob"), th.ID, pilotoo.Variant{}, newWatcher()); err != chat.ErrNoThread {
		t.Fatal(err)
	}
	var there dialect.Presence
	eventually(t, "ann", func() bool {
		if there, err = b.Desk().Presence(ctx, p, th.ID); err != nil {
			t.Fatal(err)
		}
		return there.Count == 1
	})
	m := there.Members[0]
	if !m.Self || m.Dialect != "pilotoo" || m.Edge != "a" || m.Since == 0 {
		t.Errorf("%+v", m)
	}
	if got := a.Members()["pilotoo"]; got != 1 {
		t.Errorf("the gauge says %d", got)
	}
	for _, id := range []string{th.ID, "nobody-made-it"} {
		if _, err := b.Desk().Presence(ctx, person("bob"), id); err != chat.ErrNoThread {
			t.Errorf("PIL-045 a stranger asks for %s: %v", id, err)
		}
	}
	seat.Leave()
	eventually(t, "her leaving", func() bool {
		there, err = b.Desk().Presence(ctx, p, th.ID)
		return err == nil && there.Count == 0 && len(there.Members) == 0
	})
	if len(a.Members()) != 0 {
		t.Errorf("the gauge says %v", a.Members())
	}
}

func TestOperatorSeesEdgesThreadsAndRuns(t *testing.T) {
	a, b := newPair(t)
	ctx, p := t.Context(), person("ann")
	var edges []journal.Edge
	eventually(t, "both edges with their agents", func() bool {
		edges, _ = b.Edges(ctx)
		return len(edges) == 2 && len(edges[0].Agents["default"]) == 1 && len(edges[1].Agents["default"]) == 1
	})
	if e := edges[0]; e.Name != "a" || e.Version != "v1" || e.Schema != chat.SchemaVersion || e.Started == 0 || e.Draining {
		t.Errorf("%+v", e)
	}
	th, err := a.Desk().Create(ctx, p, dialect.NewThread{Title: "secret title"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher()
	seat, err := a.Desk().Join(ctx, p, th.ID, all{}, w)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	seat.Release()
	started, err := a.Desk().Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "/slow"), OneRun: true})
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, kind(chat.KindTextDelta))
	v, err := b.Thread(ctx, "default", "", th.ID)
	if err != nil || len(v.Runs) != 1 || v.Epoch == 0 || v.Pos == 0 {
		t.Fatalf("%+v %v", v, err)
	}
	if r := v.Runs[0]; r.Run != started.Run || r.Edge != "a" || r.Fence != 1 || r.Status != chat.RunActive {
		t.Errorf("%+v", r)
	}
	if r, err := b.Run(ctx, started.Segment); err != nil || r.Run != started.Run || r.Thread != th.ID {
		t.Errorf("by its segment: %+v %v", r, err)
	}
	if r, err := a.Run(ctx, started.Run); err != nil || r.Run != started.Run {
		t.Errorf("by its id on its edge: %+v %v", r, err)
	}
	if err := b.CancelRun(ctx, started.Segment); err != nil {
		t.Fatal(err)
	}
	recs := w.until(t, kind(chat.KindRunEnd))
	if end := recs[len(recs)-1].Body.(*chat.RunEndBody); end.Status != chat.RunCancelled {
		t.Errorf("ended as %+v", end)
	}
	if err := b.CancelRun(ctx, started.Segment); !errors.Is(err, chat.ErrUnknownRun) {
		t.Errorf("once more: %v", err)
	}
	for _, id := range []string{"", "nobody-made-it"} {
		if _, err := b.Thread(ctx, "default", "", id); !errors.Is(err, chat.ErrNoThread) {
			t.Errorf("thread %q: %v", id, err)
		}
		if _, err := b.Run(ctx, id); !errors.Is(err, chat.ErrUnknownRun) {
			t.Errorf("run %q: %v", id, err)
		}
	}
}

// poll sends one request of a polling client.
func poll(t *testing.T, h *Hub, target string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if !h.Serve(h.current.Load().sites["test"], w, r, identity.FromRequest(r)) {
		t.Fatal("the path is not served")
	}
	return w.Result()
}

func TestPollsFindTheirEdge(t *testing.T) {
	a, b := newPair(t)
	const base = "http://chat.example/socket.io/?EIO=4&transport=polling"
	values := map[string]bool{}
	var sid string
	for _, h := range []*Hub{a, b, a} {
		res := poll(t, h, base)
		body := make([]byte, 256)
		n, _ := res.Body.Read(body)
		_, sid, _ = strings.Cut(string(body[:n]), `"sid":"`)
		sid, _, _ = strings.Cut(sid, `"`)
		var c *http.Cookie
		for _, k := range res.Cookies() {
			if k.Name == affinityCookie {
				c = k
			}
		}
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/socket.io/" || c.Secure || strings.Contains(c.Value, h.boot[:8]) {
			t.Fatalf("the cookie is %v", c)
		}
		values[c.Value] = true
	}
	if len(values) != 2 {
		t.Errorf("two edges have %d cookies", len(values))
	}
	res := poll(t, b, base+"&sid="+sid)
	body := make([]byte, 256)
	n, _ := res.Body.Read(body)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body[:n]), `"code":1`) {
		t.Errorf("a poll that strays is answered %d %s", res.StatusCode, body[:n])
	}
	for _, k := range poll(t, a, strings.Replace(base, "http:", "https:", 1)).Cookies() {
		if k.Name == affinityCookie && !k.Secure {
			t.Error("the cookie of a TLS connection is not Secure")
		}
	}
}

func TestDrainCanBeBegunByHand(t *testing.T) {
	a, b := newPair(t)
	ctx := t.Context()
	if s := a.DrainState(); s.Draining || a.Ready(ctx) != nil || a.Alive() != nil {
		t.Fatalf("%+v", s)
	}
	if !a.BeginDrain(time.Minute, 0) || a.BeginDrain(time.Minute, 0) {
		t.Error("a drain begins once")
	}
	if a.Ready(ctx) == nil || a.Alive() != nil {
		t.Error("F43 an edge that drains is not ready, and alive")
	}
	eventually(t, "the end of the drain", func() bool { return a.DrainState().Done })
	res := poll(t, a, "http://chat.example/socket.io/?EIO=4&transport=polling")
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("F43 a handshake is answered %d", res.StatusCode)
	}
	eventually(t, "the news at the other edge", func() bool {
		edges, err := b.Edges(ctx)
		return err == nil && len(edges) == 2 && edges[0].Name == "a" && edges[0].Draining && !edges[1].Draining
	})
	done, cancel := context.WithCancel(ctx)
	cancel()
	a.Drain(done, 0) // as at the exit: it joins the one that was begun
	if s := a.DrainState(); !s.Draining || s.Since == 0 {
		t.Errorf("%+v", s)
	}
}

// counted counts the subscriptions of a journal.
type counted struct {
	journal.Journal
	open chan int
}

func (c counted) Follow(key chat.Key, f func(journal.Notice)) func() {
	c.add(1)
	stop := c.Journal.Follow(key, f)
	return func() { stop(); c.add(-1) }
}

func (c counted) add(n int) { c.open <- <-c.open + n }

func TestThreadThatNobodyWatchesCostsNothing(t *testing.T) {
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := counted{j, make(chan int, 1)}
	c.open <- 0
	h := NewHub(c, Options{})
	defer h.Close()
	site := &Site{Name: "test", Realm: "default", Agents: []NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: -1})}}}
	off, err := h.Activate([]*Site{site})
	if err != nil {
		t.Fatal(err)
	}
	defer off()
	ctx, p := t.Context(), person("ann")
	for _, id := range []string{"t1", "t2", "t3"} {
		if _, err := h.Desk().Create(ctx, p, dialect.NewThread{ID: id}); err != nil {
			t.Fatal(err)
		}
		w := newWatcher()
		seat, err := h.Desk().Join(ctx, p, id, all{}, w)
		if err != nil {
			t.Fatal(err)
		}
		seat.Release()
		if _, err := h.Desk().Start(ctx, p, dialect.Start{Thread: id, Message: say("m", "hi")}); err != nil {
			t.Fatal(err)
		}
		w.until(t, kind(chat.KindRunEnd))
		seat.Leave()
	}
	eventually(t, "the end of the last room", func() bool {
		n := <-c.open
		c.open <- n
		return h.Stats() == (Stats{}) && n == 0
	})
}
