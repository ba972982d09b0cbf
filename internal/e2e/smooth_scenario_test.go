package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// scenario is a conversation as a file: frames that clients send, and what must
// come back.
type scenario struct {
	Name string `json:"name"`
	// Requirements are those that the file proves.
	Requirements []string `json:"requirements"`
	Server       stage    `json:"server"`
	Script       []line   `json:"mockLlmScript"`
	Steps        []step   `json:"steps"`
}

// step is a frame and what it brings, and what spec/smooth adds to that.
type step struct {
	Send   map[string]any `json:"send"`
	Expect []matcher      `json:"expect"`
	// On names the connection; it is opened at Edge when it is named first.
	On   string `json:"on"`
	Edge int    `json:"edge"`
	// Skip are types of frames that may come at any place.
	Skip []string `json:"skip"`
	// Drop cuts the connection, Silent says that nothing more has come over it,
	// Closed that it ends with that code.
	Drop   bool `json:"drop"`
	Silent bool `json:"silent"`
	Closed int  `json:"closed"`
	// Again repeats the step until what comes matches.
	Again bool `json:"again"`
	// Do ends the process of the edge: kill or drain. It is started again when
	// somebody comes to it.
	Do string `json:"do"`
	// Given is what the agent must have been given last.
	Given map[string]any `json:"given"`
}

type matcher struct {
	Type        string            `json:"type"`
	Status      *float64          `json:"status"`
	StatusGte   *float64          `json:"statusGte"`
	Capture     map[string]string `json:"capture"`
	Assert      map[string]any    `json:"assert"`
	Repeat      bool              `json:"repeat"`
	Accumulate  string            `json:"accumulate"`
	Accumulated *string           `json:"assertAccumulated"`
}

// readScenarios reads the scenarios of a folder.
func readScenarios(t testing.TB, dir string) []scenario {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []scenario
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s scenario
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(s.Steps) > 0 { // else a file of fixtures
			list = append(list, s)
		}
	}
	return list
}

// theatre is where scenarios are played: some edges with one actor.
type theatre struct {
	*fleet
	actor  *actor
	codes  *codes
	public *public
	met    map[string]bool       // the actions and events that came up
	ends   map[int]chan struct{} // of edges that were asked to end
	dead   map[int]bool
}

// up waits until an edge is there, and starts it if it was ended.
func (h *theatre) up(t *testing.T, n int) *edge {
	t.Helper()
	e := h.edges[n]
	if c := h.ends[n]; c != nil {
		<-c
		delete(h.ends, n)
	}
	if h.dead[n] {
		delete(h.dead, n)
		if err := e.boot(); err != nil {
			t.Fatal(err)
		}
		h.serving()
	}
	return e
}

// do ends an edge.
func (h *theatre) do(n int, what string) error {
	e := h.edges[n]
	h.dead[n] = true
	switch what {
	case "kill":
		e.kill()
	case "drain":
		gone := make(chan struct{})
		h.ends[n] = gone
		if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		go func() {
			defer close(gone)
			e.stop()
		}()
	default:
		return fmt.Errorf("nobody can %q an edge", what)
	}
	return nil
}

// play is one scenario on its way.
type play struct {
	*theatre
	t    *testing.T
	part *part
	home int // the edge that edge 0 stands for
	open map[string]*operator
	all  []*operator
	vars map[string]any
}

func (h *theatre) play(t *testing.T, s scenario, home int) {
	p := &play{theatre: h, t: t, part: h.actor.load(s.Server, s.Script), home: home, open: map[string]*operator{}, vars: map[string]any{}}
	for n, st := range s.Steps {
		if err := p.step(st); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
	}
	for name, o := range p.open {
		if o.why() == nil && !o.working() {
			if err := o.silent(); err != nil {
				t.Errorf("after all steps, on %q: %v", name, err)
			}
		}
		o.hangUp()
	}
	for _, o := range p.all {
		o.meet(h.met)
	}
	for n := range h.edges {
		h.up(t, n)
	}
}

func (p *play) step(s step) error {
	n := (p.home + s.Edge) % len(p.edges)
	if s.Do != "" {
		return p.do(n, s.Do)
	}
	o := p.open[s.On]
	if o == nil {
		o = operate(p.t, p.up(p.t, n).base, p.public)
		p.open[s.On] = o
		p.all = append(p.all, o)
	}
	if s.Drop {
		o.hangUp()
		delete(p.open, s.On)
		return nil
	}
	for end := time.Now().Add(patience); ; {
		if s.Send != nil {
			o.send(fill(s.Send, p.vars).(map[string]any))
		}
		err := p.expect(o, s)
		if err == nil {
			break
		}
		if !s.Again || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
	if s.Silent {
		if err := o.silent(); err != nil {
			return err
		}
	}
	if s.Closed != 0 {
		select {
		case <-o.done:
		case <-time.After(patience):
		}
		if code := websocket.CloseStatus(o.why()); int(code) != s.Closed {
			return fmt.Errorf("it ended with %v, not %d", o.why(), s.Closed)
		}
	}
	return p.given(s.Given)
}

// given holds the agent's last input against what it must be.
func (p *play) given(want map[string]any) error {
	if want == nil {
		return nil
	}
	all := p.part.inputs()
	if len(all) == 0 {
		return fmt.Errorf("the agent was given nothing")
	}
	b, err := json.Marshal(all[len(all)-1])
	if err != nil {
		return err
	}
	var in card
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for path, v := range want {
		if got := in.at(path); !reflect.DeepEqual(got, fill(v, p.vars)) {
			return fmt.Errorf("the agent was given %v at %s, not %v", got, path, v)
		}
	}
	return nil
}

func (p *play) expect(o *operator, s step) error {
	var held card
	for _, m := range s.Expect {
		var err error
		if held, err = p.match(o, m, held, s.Skip); err != nil {
			return err
		}
	}
	if held != nil {
		return fmt.Errorf("it was not expected: %s", held)
	}
	return nil
}

// match takes the frames of one matcher; what it returns is one that it does not
// take any more.
func (p *play) match(o *operator, m matcher, held card, skip []string) (card, error) {
	sum := ""
	for n := 0; ; n++ {
		f := held
		held = nil
		for f == nil || f.kind() == "keepalive" || f.kind() == "pong" && m.Type != "pong" || slices.Contains(skip, f.kind()) {
			if f = o.next(); f == nil {
				return nil, fmt.Errorf("waiting for %s: the connection: %w", m.Type, o.why())
			}
		}
		if f.kind() != m.Type {
			if !m.Repeat || n == 0 {
				return nil, fmt.Errorf("expected %s, got %s", m.Type, f)
			}
			held = f
			break
		}
		status, _ := f.at("status").(float64)
		if m.Status != nil && status != *m.Status || m.StatusGte != nil && status < *m.StatusGte {
			return nil, fmt.Errorf("another status: %s", f)
		}
		for path, want := range m.Assert {
			if got := f.at(path); !reflect.DeepEqual(got, fill(want, p.vars)) {
				return nil, fmt.Errorf("%s is %v, not %v, in %s", path, got, fill(want, p.vars), f)
			}
		}
		for name, path := range m.Capture {
			if p.vars[name] = f.at(path); p.vars[name] == nil {
				return nil, fmt.Errorf("nothing at %s of %s", path, f)
			}
		}
		sum += f.text(m.Accumulate)
		if !m.Repeat {
			break
		}
	}
	if m.Accumulated != nil && sum != *m.Accumulated {
		return nil, fmt.Errorf("accumulated %q, not %q", sum, *m.Accumulated)
	}
	return held, nil
}

// fill puts what was captured where {{name}} stands.
func fill(v any, vars map[string]any) any {
	switch x := v.(type) {
	case string:
		if name, ok := strings.CutPrefix(x, "{{"); ok {
			return vars[strings.TrimSpace(strings.TrimSuffix(name, "}}"))]
		}
	case map[string]any:
		o := make(map[string]any, len(x))
		for k, e := range x {
			o[k] = fill(e, vars)
		}
		return o
	case []any:
		a := make([]any, len(x))
		for i, e := range x {
			a[i] = fill(e, vars)
		}
		return a
	}
	return v
}
