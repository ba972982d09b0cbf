package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const pingerchipsSpec = "../../spec/pingerchips"

// pingerchipsSchemas compiles every schema of the dialect, once.
var pingerchipsSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(pingerchipsSpec, "*.schema.json"))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		if err := c.AddResource(filepath.Base(file), doc); err != nil {
			return nil, err
		}
	}
	all := map[string]*jsonschema.Schema{}
	for _, file := range files {
		s, err := c.Compile(filepath.Base(file))
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(filepath.Base(file), ".schema.json")] = s
	}
	return all, nil
})

// frames is where a script of the Pingerchips dialect keeps what went over its
// sockets, both ways.
type frames struct {
	t    *testing.T
	file string
	seen map[string]int // by schema
}

func newFrames(t *testing.T) *frames {
	t.Helper()
	return &frames{t: t, file: filepath.Join(t.TempDir(), "frames"), seen: map[string]int{}}
}

func (f *frames) env() string { return "FRAMES=" + f.file }

// check holds every frame to its schema. What a script says on purpose that is
// wrong is known by its refusal.
func (f *frames) check() {
	f.t.Helper()
	file, err := os.Open(f.file)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	type push struct{ kind, bad string }
	agents, pushes := map[string]bool{}, map[string]push{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var l struct {
			C   string
			Out bool
			F   []json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || len(l.F) != 5 {
			f.t.Fatalf("a line is %.200s: %v", lines.Bytes(), err)
		}
		whole, _ := json.Marshal(l.F)
		f.fits("frame", whole, "")
		var topic, name string
		_ = json.Unmarshal(l.F[2], &topic)
		_ = json.Unmarshal(l.F[3], &name)
		join, ref := l.C+string(l.F[0])+topic, l.C+string(l.F[1])+topic
		payload := l.F[4]
		switch {
		case l.Out && name == "phx_join":
			agents[join] = bytes.Contains(payload, []byte(`"secret"`))
			pushes[ref] = push{"join", f.bad("join", payload)}
		case l.Out:
			kind := strings.ReplaceAll(strings.TrimPrefix(name, "phx_"), ":", ".")
			if agents[join] && strings.HasPrefix(name, "run:") {
				kind = "agent." + kind
			}
			pushes[ref] = push{kind, f.bad(kind, payload)}
		case name == "phx_reply":
			f.fits("reply", payload, "")
			var r struct {
				Status   string
				Response json.RawMessage
			}
			_ = json.Unmarshal(payload, &r)
			p := pushes[ref]
			delete(pushes, ref)
			switch {
			case r.Status == "error":
				f.fits("error", r.Response, "")
			case p.bad != "":
				f.t.Errorf("%s that is none was accepted: %s", p.kind, p.bad)
			case strings.HasPrefix(p.kind, "agent."):
				f.fits("agent.reply", r.Response, p.kind)
			case p.kind != "":
				f.fits(p.kind+".reply", r.Response, p.kind)
			}
		case name == "phx_close", name == "phx_error":
			f.fits(name, payload, "")
		case name == "tool_approval":
			f.fits("agent.tool_approval", payload, "")
		default:
			f.fits(strings.ReplaceAll(name, ":", "."), payload, "")
		}
	}
	if err := lines.Err(); err != nil {
		f.t.Fatal(err)
	}
}

// bad is why a payload is not what its schema asks for, or "".
func (f *frames) bad(kind string, payload []byte) string {
	all, err := pingerchipsSchemas()
	if err != nil {
		f.t.Fatal(err)
	}
	s := all[kind]
	if s == nil {
		return "no schema " + kind
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	f.seen[kind]++
	return ""
}

func (f *frames) fits(kind string, payload []byte, of string) {
	f.t.Helper()
	if why := f.bad(kind, payload); why != "" {
		f.t.Errorf("%s %.500s of %q: %s", kind, payload, of, why)
	}
}

// has fails the test unless frames of each kind came by.
func (f *frames) has(kinds ...string) {
	f.t.Helper()
	for _, k := range kinds {
		if f.seen[k] == 0 {
			f.t.Errorf("no frame was a %s", k)
		}
	}
}
