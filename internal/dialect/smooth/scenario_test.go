package smooth_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// scenarios may name another folder of files in the same format.
var scenarios = flag.String("scenarios", "../../../spec/smooth/scenarios", "folder of scenario files")

// scenario is a conversation as a file: frames that a client sends, and what must
// come back.
type scenario struct {
	Name string `json:"name"`
	// Requirements are those that the file proves.
	Requirements []string     `json:"requirements"`
	Server       setup        `json:"server"`
	Script       []scriptItem `json:"mockLlmScript"`
	Steps        []struct {
		Send   map[string]any `json:"send"`
		Expect []matcher      `json:"expect"`
	} `json:"steps"`
}

type matcher struct {
	Type        string            `json:"type"`
	Status      *float64          `json:"status"`
	Capture     map[string]string `json:"capture"`
	Assert      map[string]any    `json:"assert"`
	Repeat      bool              `json:"repeat"`
	Accumulate  string            `json:"accumulate"`
	Accumulated *string           `json:"assertAccumulated"`
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(*scenarios, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s", *scenarios)
	}
	s := serve(t, nil)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var sc scenario
		if err := json.Unmarshal(b, &sc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(sc.Steps) == 0 {
			continue // a file of fixtures
		}
		t.Run("SMO-225 SMO-226 "+strings.Join(sc.Requirements, " ")+" "+sc.Name, func(t *testing.T) { s.play(t, sc) })
	}
}

func (s *site) play(t *testing.T, sc scenario) {
	s.agent.load(sc.Server, sc.Script)
	inner := *s
	inner.t = t
	c := inner.dial("")
	vars := map[string]any{}
	for n, step := range sc.Steps {
		b, err := json.Marshal(fill(step.Send, vars))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ws.Write(context.Background(), websocket.MessageText, b); err != nil {
			t.Fatal(err)
		}
		var held frame
		for _, m := range step.Expect {
			held = c.match(n, m, held, vars)
		}
		if held != nil {
			t.Fatalf("step %d: %s was not expected", n, held)
		}
	}
}

// match takes the frames of one matcher; what it returns is one that it does not
// take any more.
func (c *client) match(step int, m matcher, held frame, vars map[string]any) frame {
	c.t.Helper()
	sum := ""
	for n := 0; ; n++ {
		f := held
		held = nil
		for f == nil || f.kind() == "keepalive" || f.kind() == "pong" {
			f = c.next()
		}
		if f.kind() != m.Type {
			if !m.Repeat || n == 0 {
				c.t.Fatalf("step %d: expected %s, got %s", step, m.Type, f)
			}
			held = f
			break
		}
		if m.Status != nil && f.at("status") != *m.Status {
			c.t.Fatalf("step %d: status %v of %s", step, *m.Status, f)
		}
		for path, want := range m.Assert {
			if got := f.at(path); !reflect.DeepEqual(got, want) {
				c.t.Fatalf("step %d: %s is %v, not %v, in %s", step, path, got, want, f)
			}
		}
		for name, path := range m.Capture {
			if vars[name] = f.at(path); vars[name] == nil {
				c.t.Fatalf("step %d: nothing at %s of %s", step, path, f)
			}
		}
		sum += f.text(m.Accumulate)
		if !m.Repeat {
			break
		}
	}
	if m.Accumulated != nil && sum != *m.Accumulated {
		c.t.Fatalf("step %d: accumulated %q, not %q", step, sum, *m.Accumulated)
	}
	return held
}

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
