// Package shape says whether a JSON value has the shape that a JSON Schema asks
// for. The schema comes from clients and agents, so the work is bounded: there
// is no fetching, no unbounded recursion, and a budget for every check.
//
// It knows the validating keywords of draft 2020-12 that forms and tools use
// and takes all others for annotations, as the specification lets it. A schema
// that it cannot read asks for nothing.
package shape

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrCost says that a check was given up: the schema makes too much work.
var ErrCost = errors.New("the schema is too complex to check")

const (
	maxSteps = 100_000 // schema and value pairs, and comparisons, of one check
	maxDepth = 128
	// maxWork bounds what steps do beside being taken, in bytes or members looked
	// at; a pattern costs its own length for each byte, at least.
	maxWork = 50 << 20
)

// Mismatch is a value that has not the shape; the text is for people and shows
// the place in the value, not what stands there.
type Mismatch struct {
	At   string // a JSON Pointer into the value; "" is the whole
	Want string
}

func (m *Mismatch) Error() string {
	if m.At == "" {
		return "must " + m.Want
	}
	return m.At + " must " + m.Want
}

// Check returns nil, a *Mismatch, or ErrCost. An empty schema asks for nothing.
func Check(schema, value jsontext.Value) error {
	if len(schema) == 0 {
		return nil
	}
	var s, v any
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if json.Unmarshal(value, &v) != nil {
		return &Mismatch{Want: "be well-formed JSON"}
	}
	c := &check{root: s, left: maxSteps, work: maxWork}
	if m := c.value(s, v, "", 0); m != nil && !c.spent {
		return m
	}
	if c.spent {
		return ErrCost
	}
	return nil
}

// check is one run over a value. spent says that the budget is used up; what it
// returned then means nothing.
type check struct {
	root  any
	left  int
	work  int
	spent bool
}

func (c *check) step(depth int) bool {
	if c.left--; c.left < 0 || depth > maxDepth {
		c.spent = true
	}
	return !c.spent
}

// spend says whether there is budget left for n more bytes or members.
func (c *check) spend(n int) bool {
	if c.work -= n; c.work < 0 {
		c.spent = true
	}
	return !c.spent
}

func (c *check) value(schema, v any, at string, depth int) *Mismatch {
	if !c.step(depth) {
		return nil
	}
	if b, ok := schema.(bool); ok && !b {
		return &Mismatch{at, "not be there"}
	}
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if ref, ok := s["$ref"].(string); ok {
		target, found := c.resolve(ref)
		if c.spent {
			return nil
		}
		if found {
			if m := c.value(target, v, at, depth+1); m != nil {
				return m
			}
		}
	}
	if m := c.kind(s, v, at); m != nil || c.spent {
		return m
	}
	if m := c.constant(s, v, at, depth); m != nil {
		return m
	}
	if m := c.combined(s, v, at, depth); m != nil {
		return m
	}
	switch v := v.(type) {
	case string:
		return c.text(s, v, at)
	case float64:
		return number(s, v, at)
	case []any:
		return c.array(s, v, at, depth)
	case map[string]any:
		return c.object(s, v, at, depth)
	}
	return nil
}

// resolve finds a schema within the document; others are never fetched.
func (c *check) resolve(ref string) (any, bool) {
	if ref == "#" {
		return c.root, true
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok || !c.spend(len(path)) {
		return nil, false
	}
	at := c.root
	for _, token := range strings.Split(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if at, ok = m[token]; !ok {
			return nil, false
		}
	}
	return at, true
}

func (c *check) kind(s map[string]any, v any, at string) *Mismatch {
	var names []string
	switch t := s["type"].(type) {
	case string:
		names = []string{t}
	case []any:
		if !c.spend(len(t)) {
			return nil
		}
		for _, n := range t {
			if n, ok := n.(string); ok {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if is(n, v) {
			return nil
		}
	}
	return &Mismatch{at, "be of type " + strings.Join(names, " or ")}
}

func is(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	}
	return name == "object"
}

func (c *check) constant(s map[string]any, v any, at string, depth int) *Mismatch {
	if want, ok := s["const"]; ok && !c.equal(want, v, depth) {
		return &Mismatch{at, "have the one value that is allowed"}
	}
	list, ok := s["enum"].([]any)
	if !ok {
		return nil
	}
	for _, want := range list {
		if c.equal(want, v, depth) {
			return nil
		}
	}
	return &Mismatch{at, "be one of the values that are allowed"}
}

func (c *check) equal(a, b any, depth int) bool {
	if !c.step(depth) {
		return false
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !c.equal(a[i], b[i], depth+1) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !c.equal(v, w, depth+1) {
				return false
			}
		}
		return true
	}
	switch b := b.(type) {
	case []any, map[string]any:
		return false
	case string:
		if a, ok := a.(string); ok && len(a) == len(b) && !c.spend(len(b)) {
			return false
		}
	}
	return a == b
}

func (c *check) combined(s map[string]any, v any, at string, depth int) *Mismatch {
	if all, ok := s["allOf"].([]any); ok {
		for _, sub := range all {
			if m := c.value(sub, v, at, depth+1); m != nil {
				return m
			}
		}
	}
	if any, ok := s["anyOf"].([]any); ok && c.matches(any, v, at, depth) == 0 {
		return &Mismatch{at, "match one of the alternatives"}
	}
	if one, ok := s["oneOf"].([]any); ok && c.matches(one, v, at, depth) != 1 {
		return &Mismatch{at, "match exactly one of the alternatives"}
	}
	if not, ok := s["not"]; ok && c.value(not, v, at, depth+1) == nil {
		return &Mismatch{at, "not match what is excluded"}
	}
	if cond, ok := s["if"]; ok {
		branch := "then"
		if c.value(cond, v, at, depth+1) != nil {
			branch = "else"
		}
		if sub, ok := s[branch]; ok {
			return c.value(sub, v, at, depth+1)
		}
	}
	return nil
}

func (c *check) matches(list []any, v any, at string, depth int) int {
	n := 0
	for _, sub := range list {
		if c.value(sub, v, at, depth+1) == nil {
			n++
		}
	}
	return n
}

func below(at, name string) string {
	const most = 200
	if len(at) > most {
		return at
	}
	return fmt.Sprintf("%s/%s", at, strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}
