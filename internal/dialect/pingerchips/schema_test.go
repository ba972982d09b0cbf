package pingerchips

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

const specDir = "../../../spec/pingerchips"

type fixture struct {
	Name    string         `json:"name"`
	Message jsontext.Value `json:"message"`
}

// fixtures reads one kind ("good", "bad") by the messages' type.
func fixtures(t testing.TB, kind string) map[string][]fixture {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(specDir, "fixtures", kind, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	all := map[string][]fixture{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []fixture
		if err := json.Unmarshal(b, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = list
	}
	return all
}

// schemas compiles every schema of the specification, once.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(specDir, "*.schema.json"))
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

// Validate says whether a payload has the shape that its schema asks for; the
// tests of this folder that speak over a wire hold every frame to it.
func Validate(name string, b []byte) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	s, ok := all[strings.ReplaceAll(name, ":", ".")]
	if !ok {
		return os.ErrNotExist
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// parsers are the decoders of what clients send.
var parsers = map[string]func([]byte) error{
	"join": func(b []byte) error {
		c, err := parseJoin(b)
		if err == nil && (c.AfterBad || c.ViewBad || c.Auth == "" && (c.Secret == "" || c.AgentID == "")) {
			err = authRequired
		}
		return err
	},
	"send":          func(b []byte) error { _, err := parseSend(b); return err },
	"edit":          func(b []byte) error { _, err := parseEdit(b); return err },
	"regenerate":    func(b []byte) error { _, err := parseRegenerate(b); return err },
	"cancel":        func(b []byte) error { _, err := parseCancel(b); return err },
	"tool_approval": func(b []byte) error { _, err := parseApproval(b); return err },
	"load_older":    func(b []byte) error { _, err := parsePage(b, DefaultPage, MaxPage); return err },
	"view.get":      func(b []byte) error { _, err := parsePage(b, DefaultPage, MaxPage); return err },
	"tree.get":      func(b []byte) error { _, err := parsePage(b, DefaultNodes, MaxNodes); return err },
	"tree.siblings": func(b []byte) error { _, err := parseMessage(b); return err },
	"tree.node":     func(b []byte) error { _, err := parseMessage(b); return err },
	"branch.select": func(b []byte) error { _, err := parseSelect(b); return err },
	"branch.reset":  func(b []byte) error { _, err := readObject(b); return err },

	"agent.run.start":   agentParser(PushStart),
	"agent.run.token":   agentParser(PushToken),
	"agent.run.suspend": agentParser(PushSuspend),
	"agent.run.resume":  agentParser(PushResume),
	"agent.run.end":     agentParser(PushEnd),
	"auth":              func(b []byte) error { _, err := parseAuth(b, time.Now()); return err },
}

func agentParser(event string) func([]byte) error {
	return func(b []byte) error { _, _, err := ParseAgentPush(event, b); return err }
}

// The schemas are the contract; the decoders and they agree.
func TestFixturesAgainstSchemasAndDecoders(t *testing.T) {
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	good, bad := fixtures(t, "good"), fixtures(t, "bad")
	for name := range all {
		if name != "defs" && (len(good[name]) == 0 || len(bad[name]) == 0) {
			t.Errorf("%s: no fixtures of both kinds", name)
		}
	}
	for name, list := range good {
		for _, f := range list {
			if err := Validate(name, f.Message); err != nil {
				t.Errorf("%s: %s: the schema refuses it: %v", name, f.Name, err)
			}
			if parse := parsers[name]; parse != nil && parse(f.Message) != nil {
				t.Errorf("%s: %s: the decoder refuses it", name, f.Name)
			}
		}
	}
	for name, list := range bad {
		for _, f := range list {
			if Validate(name, f.Message) == nil {
				t.Errorf("%s: %s: the schema takes it", name, f.Name)
			}
			if parse := parsers[name]; parse != nil && parse(f.Message) == nil {
				t.Errorf("%s: %s: the decoder takes it", name, f.Name)
			}
		}
	}
}

// PIN-122: what clients send may have keys that nobody knows.
func TestCommandsAreTolerant(t *testing.T) {
	for name, parse := range parsers {
		for _, f := range fixtures(t, "good")[name] {
			more := bytes.Replace(f.Message, []byte("{"), []byte(`{"x-unheard-of":[1],`), 1)
			if bytes.HasPrefix(f.Message, []byte("{}")) {
				more = []byte(`{"x-unheard-of":[1]}`)
			}
			if Validate(name, more) != nil || parse(more) != nil {
				t.Errorf("%s: %s: an unknown key is refused", name, f.Name)
			}
		}
	}
}

func TestTopics(t *testing.T) {
	for topic, want := range map[string]string{
		"chat:v1:app:pk_live_x:thread:t-abc":     "pk_live_x t-abc",
		"chat:v1:app:k:thread:a:thread:b":        "k a:thread:b",
		"chat:v1:app:k:thread::":                 "k :",
		"chat:v1:app:a:b:thread:t":               "",
		"chat:v1:app:k:thread:\x00":              "",
		"chat:v1:app:k:threads:t":                "",
		"chat:v1:app:k:thread":                   "",
		"CHAT:v1:app:k:thread:t":                 "",
		"chat:v1:app:k:thread:t\xff":             "",
		"xchat:v1:app:k:thread:t":                "",
		"":                                       "",
		"chat:v1:app:žluť:thread:☕ with a space": "žluť ☕ with a space",
	} {
		app, thread, ok := parseTopic(topic)
		if got := app + " " + thread; (ok && got != want) || ok != (want != "") {
			t.Errorf("PIN-015 PIN-056 %q is %q %v", topic, got, ok)
		}
	}
}

// Entry is what a record is on the wire, for the tests of this folder.
func Entry(c *room.Change) (signal []byte, event string, payload []byte) {
	e := entryOf(c, false)
	event, payload = e.batch()
	return e.about, event, payload
}

// Frame is what an entry is sent as.
func (e *Encoded) Frame(topic string) *phoenix.Frame {
	_, f := e.frames(topic, nil)
	return f
}

// Snapshot and Worth are what their names say, for the tests of this folder.
func Snapshot(st *chat.State, v Variant) []byte { return snapshot(st, v) }

func Worth(was, is int) bool { return worth(was, is) }

// ViewOf is the view of a tree, and the siblings of each message.
func ViewOf(list []*chat.Message, chosen map[string]string) (view []string, groups map[string][]string) {
	t := newTree(list)
	for _, m := range t.view(chosen) {
		view = append(view, m.ID)
	}
	groups = make(map[string][]string)
	for _, m := range list {
		groups[m.ID] = t.group[t.root[m.ID]]
	}
	return view, groups
}

// Settle and Refusal are what commands use.
func Settle(i *chat.Interrupt, approved bool) (chat.InterruptStatus, jsontext.Value, error) {
	return settle(i, approved)
}

func Refusal(err error) string { r, _ := refusal(err); return string(r) }
