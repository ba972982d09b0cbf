package smooth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const specDir = "../../../spec/smooth"

// schemas compiles every schema of the specification, once.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(specDir, "*.schema.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]*jsonschema.Schema{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource(filepath.Base(file), doc); err != nil {
			return nil, err
		}
		s, err := c.Compile(filepath.Base(file))
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(filepath.Base(file), ".schema.json")] = s
	}
	return all, nil
})

func valid(name string, b []byte) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	s := all[name]
	if s == nil {
		return fmt.Errorf("no schema %q", name)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// dataOf are the schemas of what some actions are answered with.
var dataOf = map[string]string{
	"Session created":      "data.create_conversation_session",
	"Session":              "data.get_session",
	"ConversationMessages": "data.get_conversation_messages",
}

// validEvent checks a frame of the server against the schema of its type.
func validEvent(b []byte) error {
	var f struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if name := dataOf[f.Message]; name != "" {
		if err := valid(name, f.Data); err != nil {
			return err
		}
	}
	return valid("event."+f.Type, b)
}

func TestSchemasAndFixtures(t *testing.T) {
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for name := range all {
		kind, _, _ := strings.Cut(name, ".")
		count[kind]++
	}
	if count["action"] != 9 || count["event"] != 17 || count["domain"] != 6 {
		t.Errorf("SMO-003 SMO-004 SMO-215 to SMO-219 9 actions, 17 events and 6 domain types have a schema: %v", count)
	}
	for _, name := range []string{"action.cancel", "event.cancelled", "event.stream_preamble", "event.stream_reasoning"} {
		if all[name] == nil {
			t.Errorf("SMO-007 what the envelope leaves out has a schema of its own: %s", name)
		}
	}
	for _, kind := range []string{"good", "bad"} {
		for name := range all {
			b, err := os.ReadFile(filepath.Join(specDir, "fixtures", kind, name+".json"))
			if err != nil {
				t.Error(err)
				continue
			}
			var list []struct {
				Name    string          `json:"name"`
				Message json.RawMessage `json:"message"`
			}
			if err := json.Unmarshal(b, &list); err != nil || len(list) == 0 {
				t.Errorf("%s %s: no fixtures: %v", kind, name, err)
			}
			for _, f := range list {
				if err := valid(name, f.Message); (err == nil) != (kind == "good") {
					t.Errorf("%s %s, %s: %v", kind, name, f.Name, err)
				}
			}
		}
	}
}
