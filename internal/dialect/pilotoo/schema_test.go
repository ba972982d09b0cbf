package pilotoo

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const specDir = "../../../spec/pilotoo"

// fixture is one message of spec/pilotoo/fixtures: JSON, or a text that is none.
type fixture struct {
	Name    string         `json:"name"`
	Message jsontext.Value `json:"message"`
	Text    string         `json:"text"`
}

func (f fixture) bytes() []byte {
	if f.Message != nil {
		return f.Message
	}
	return []byte(f.Text)
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
		name := filepath.Base(file)
		s, err := c.Compile(name)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(name, ".schema.json")] = s
	}
	return all, nil
})

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// validate says whether a message has the shape that its schema asks for.
func validate(t failer, name string, b []byte) error {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := all[name]
	if !ok {
		t.Fatalf("no schema %q", name)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// parsers are the decoders of what clients send.
var parsers = map[string]func([]byte) error{
	"run.start":           func(b []byte) error { _, err := ParseStart(b); return err },
	"run.resume":          func(b []byte) error { _, err := ParseResume(b); return err },
	"run.cancel":          func(b []byte) error { _, err := ParseCancel(b); return err },
	"run.detach":          func(b []byte) error { _, err := ParseDetach(b); return err },
	"thread.messages":     func(b []byte) error { _, err := ParseMessages(b); return err },
	"conversation.create": func(b []byte) error { _, err := ParseConversation(b); return err },
}

// PIL-001: the schemas are the contract; the decoders and they agree.
func TestFixturesAgainstSchemasAndDecoders(t *testing.T) {
	for name, list := range fixtures(t, "good") {
		for _, f := range list {
			if err := validate(t, name, f.bytes()); err != nil {
				t.Errorf("%s: %s: the schema refuses it: %v", name, f.Name, err)
			}
			if parse := parsers[name]; parse != nil {
				if err := parse(f.bytes()); err != nil {
					t.Errorf("%s: %s: the decoder refuses it: %v", name, f.Name, err)
				}
			}
		}
	}
	for name, list := range fixtures(t, "bad") {
		for _, f := range list {
			if name == "not-json" {
				continue
			}
			if validate(t, name, f.bytes()) == nil {
				t.Errorf("%s: %s: the schema takes it", name, f.Name)
			}
			if parse := parsers[name]; parse != nil {
				refused(t, name+": "+f.Name, parse(f.bytes()))
			}
		}
	}
	for _, f := range fixtures(t, "bad")["not-json"] {
		for name, parse := range parsers {
			if name != "conversation.create" || f.Text != "" {
				refused(t, name+": "+f.Name, parse(f.bytes()))
			}
		}
	}
}

// refused wants INVALID_COMMAND with a text (PIL-003).
func refused(t *testing.T, name string, err error) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok || e.Code != CodeInvalid || e.Message == "" {
		t.Errorf("%s: %v, want INVALID_COMMAND with a message", name, err)
	}
}

// PIL-002, PIL-005: every command refuses a key that its schema does not list,
// and every answer admits one.
func TestCommandsAreStrictAnswersAreNot(t *testing.T) {
	for name, list := range fixtures(t, "good") {
		for _, f := range list {
			more := bytes.Replace(f.bytes(), []byte("{"), []byte(`{"x-unheard-of":1,`), 1)
			if bytes.HasPrefix(f.bytes(), []byte("{}")) {
				more = []byte(`{"x-unheard-of":1}`)
			}
			err := validate(t, name, more)
			parse := parsers[name]
			switch {
			case parse == nil && err != nil:
				t.Errorf("%s: %s: an unknown key is refused: %v", name, f.Name, err)
			case parse != nil && (err == nil || parse(more) == nil):
				t.Errorf("%s: %s: an unknown key is taken", name, f.Name)
			}
		}
	}
}

// PIL-180: the codes of the schemas are those of the table, and no other.
func TestCodesOfTheSchema(t *testing.T) {
	for _, code := range []Code{CodeInvalid, CodeUnknownRun, CodeDuplicate, CodeConversation, CodeForkPoint, "NO_SUCH_CODE"} {
		err := validate(t, "protocol.error", errorObject(&Error{code, "why"}))
		known := slices.ContainsFunc(refusals, func(r refusalText) bool { return r.code == code })
		if known != (err == nil) {
			t.Errorf("%s: in the table %v, in the schema %v", code, known, err == nil)
		}
	}
}
