package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const smoothSpec = "../../spec/smooth"

// smoothSchemas compiles every schema of the dialect, once.
var smoothSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(smoothSpec, "*.schema.json"))
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

// fits validates a message against the schema of that name.
func fits(name string, b []byte) error {
	all, err := smoothSchemas()
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

// replyTo are the schemas of the data that some actions are answered with.
var replyTo = map[string]string{
	"create_conversation_session": "data.create_conversation_session",
	"get_session":                 "data.get_session",
	"get_conversation_messages":   "data.get_conversation_messages",
}

// public are the messages that the protocol publishes as examples.
type public struct {
	// events are those of each event type, replies those of data.
	events, replies map[string][]map[string]any
}

// readPublic reads the published messages; each must fit our own schema.
func readPublic(t *testing.T, file string) *public {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	p := &public{events: map[string][]map[string]any{}, replies: map[string][]map[string]any{}}
	for name, raw := range all {
		var f struct {
			Ref      string          `json:"$schema_ref"`
			Instance json.RawMessage `json:"instance"`
		}
		if json.Unmarshal(raw, &f) != nil || f.Ref == "" {
			continue // a comment
		}
		folder, rest, _ := strings.Cut(f.Ref, "/")
		rest, part, _ := strings.Cut(rest, "#/$defs/")
		word := strings.ReplaceAll(strings.TrimSuffix(rest, ".schema.json"), "-", "_")
		schema, keep := "", map[string][]map[string]any(nil)
		switch {
		case folder == "events":
			schema, keep = "event."+word, p.events
		case folder == "actions" && part == "Request":
			schema = "action." + word
		case folder == "actions" && part == "Response" && word != "get_messages":
			schema, keep = "data."+word, p.replies
		default:
			continue // the parts of a card, which travel in others
		}
		if err := fits(schema, f.Instance); err != nil {
			t.Errorf("%s: the published message does not fit %s: %v", name, schema, err)
		}
		var m map[string]any
		if err := json.Unmarshal(f.Instance, &m); err != nil {
			t.Fatal(err)
		}
		if keep != nil {
			keep[word] = append(keep[word], m)
		}
	}
	if len(p.events) < 8 {
		t.Errorf("there are published messages of %d event types only", len(p.events))
	}
	return p
}

// mayMiss are members of the published messages that a server may leave out, and
// mayAdd those that it may have although no published message of the type has
// them. A path ends a search: what is below it is free.
var (
	mayMiss = []string{
		"data.done", "data.state.rawResponse", "data.state.structuredResponse", "data.state.pendingWriteConfirmation",
		"data.state.pendingOtpVerification", "data.data.citations", "data.data.spec", "data.data.error", "agentId",
	}
	mayAdd = []string{"data.state", "data.data.usage", "data.data.spec", "data.data.directive", "data.data.escalationReason", "data.data.response"}
)

// like says how a message differs in its members from the published ones of its
// type: a member of another type, one too many, one too few.
func like(published []map[string]any, m map[string]any) error {
	if len(published) == 0 {
		return nil
	}
	var errs []error
	for _, p := range published {
		err := alike("", p, m)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func alike(at string, p, m map[string]any) error {
	for name, v := range m {
		path := strings.TrimPrefix(at+"."+name, ".")
		other, known := p[name]
		switch {
		case !known && slices.Contains(mayAdd, path), !known && slices.ContainsFunc(mayAdd, func(a string) bool { return strings.HasPrefix(path, a+".") }):
		case !known:
			return fmt.Errorf("no published message has %s", path)
		case v == nil || other == nil:
		case jsonType(v) != jsonType(other):
			return fmt.Errorf("%s is %s, published as %s", path, jsonType(v), jsonType(other))
		case jsonType(v) == "object" && !slices.Contains(mayMiss, path):
			if err := alike(path, other.(map[string]any), v.(map[string]any)); err != nil {
				return err
			}
		case jsonType(v) == "array":
			if err := alikeEach(path, other.([]any), v.([]any)); err != nil {
				return err
			}
		}
	}
	for name := range p {
		path := strings.TrimPrefix(at+"."+name, ".")
		if _, ok := m[name]; !ok && !slices.Contains(mayMiss, path) {
			return fmt.Errorf("%s is missing", path)
		}
	}
	return nil
}

// alikeEach compares the elements of lists, each with the first published one.
func alikeEach(path string, p, m []any) error {
	for _, e := range m {
		if len(p) == 0 {
			return nil
		}
		if jsonType(e) != jsonType(p[0]) {
			return fmt.Errorf("an element of %s is %s, published as %s", path, jsonType(e), jsonType(p[0]))
		}
		want, ok := p[0].(map[string]any)
		if !ok {
			continue
		}
		got := e.(map[string]any)
		for name, v := range got {
			if other, known := want[name]; !known || jsonType(other) != jsonType(v) {
				return fmt.Errorf("an element of %s has %s as %s", path, name, jsonType(v))
			}
		}
	}
	return nil
}

func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}
