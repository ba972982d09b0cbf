package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of an agent's state: its values, its depth, and a patch's operations.
const (
	maxNodes = 100_000
	maxDepth = 200
	maxOps   = 1_000
)

var (
	errPointer = errors.New("no such place")
	errPatch   = errors.New("the patch does not apply")
	errLarge   = errors.New("the document is larger than it may be")
)

// decode reads a document; numbers stay as they are written.
func decode(v jsontext.Value) (any, error) {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return nil, err
	}
	if nodes, deep := size(x, maxNodes, maxDepth); nodes > maxNodes || deep {
		return nil, errLarge
	}
	return x, nil
}

// encode writes a document; equal ones are written alike.
func encode(x any) (jsontext.Value, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(x); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// size counts values up to most, and says whether they nest too deep.
func size(x any, most, depth int) (nodes int, deep bool) {
	if depth == 0 {
		return 1, true
	}
	nodes = 1
	count := func(v any) bool {
		n, d := size(v, most-nodes, depth-1)
		nodes, deep = nodes+n, deep || d
		return nodes > most || deep
	}
	switch c := x.(type) {
	case []any:
		for _, v := range c {
			if count(v) {
				break
			}
		}
	case map[string]any:
		for _, v := range c {
			if count(v) {
				break
			}
		}
	}
	return nodes, deep
}

// operation is one of a JSON patch (RFC 6902 §4).
type operation struct {
	Op    string           `json:"op"`
	Path  string           `json:"path"`
	From  string           `json:"from"`
	Value *json.RawMessage `json:"value"`
}

// patch applies a JSON patch (RFC 6902) and returns the new document; all of it
// or, with an error, nothing: what was there is never changed, only shared.
func patch(doc any, delta jsontext.Value) (any, error) {
	var ops []operation
	if json.Unmarshal(delta, &ops) != nil || len(ops) > maxOps {
		return nil, errPatch
	}
	for _, op := range ops {
		var err error
		if doc, err = op.apply(doc); err != nil {
			return nil, err
		}
	}
	// Copies share what they copy, so the document is only large to one who
	// walks it: the check stops at its bound, and nobody walks it before.
	if nodes, deep := size(doc, maxNodes, maxDepth); nodes > maxNodes || deep {
		return nil, errLarge
	}
	return doc, nil
}

func (op operation) apply(doc any) (any, error) {
	path, err := pointer(op.Path)
	if err != nil {
		return nil, err
	}
	var value any
	switch op.Op {
	case "add", "replace", "test":
		// A null is a nil pointer here, so a missing value is one, too.
		if op.Value != nil {
			if value, err = decode(jsontext.Value(*op.Value)); err != nil {
				return nil, err
			}
		}
	case "move", "copy":
		from, err := pointer(op.From)
		if err != nil {
			return nil, err
		}
		if value, err = find(doc, from); err != nil {
			return nil, err
		}
		if op.Op == "move" {
			if len(path) > len(from) && slices.Equal(path[:len(from)], from) {
				return nil, errPatch
			}
			if doc, err = edit(doc, from, remove, nil); err != nil {
				return nil, err
			}
		}
	}
	switch op.Op {
	case "add", "move", "copy":
		return edit(doc, path, add, value)
	case "replace":
		return edit(doc, path, replace, value)
	case "remove":
		return edit(doc, path, remove, nil)
	case "test":
		at, err := find(doc, path)
		if err != nil || !reflect.DeepEqual(at, value) {
			return nil, errPatch
		}
		return doc, nil
	}
	return nil, errPatch
}

// pointer splits a JSON pointer (RFC 6901).
func pointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' || strings.Count(s, "/") > maxDepth {
		return nil, errPointer
	}
	path := strings.Split(s[1:], "/")
	for i, p := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return path, nil
}

func find(doc any, path []string) (any, error) {
	for _, p := range path {
		switch c := doc.(type) {
		case map[string]any:
			v, ok := c[p]
			if !ok {
				return nil, errPointer
			}
			doc = v
		case []any:
			i, ok := index(p, len(c)-1)
			if !ok {
				return nil, errPointer
			}
			doc = c[i]
		default:
			return nil, errPointer
		}
	}
	return doc, nil
}

// index reads an array index of at most last.
func index(p string, last int) (int, bool) {
	i, err := strconv.Atoi(p)
	return i, err == nil && i >= 0 && i <= last && p == strconv.Itoa(i)
}

type verb int

const (
	add verb = iota
	replace
	remove
)

// edit changes one place and returns a document that shares all the rest.
func edit(doc any, path []string, v verb, value any) (any, error) {
	if len(path) == 0 {
		if v == remove {
			return nil, nil //nolint:nilnil // a removed document is null
		}
		return value, nil
	}
	switch c := doc.(type) {
	case map[string]any:
		return editObject(c, path, v, value)
	case []any:
		return editArray(c, path, v, value)
	}
	return nil, errPointer
}

func editObject(c map[string]any, path []string, v verb, value any) (any, error) {
	at, ok := c[path[0]]
	if !ok && (len(path) > 1 || v != add) {
		return nil, errPointer
	}
	if len(path) > 1 {
		var err error
		if value, err = edit(at, path[1:], v, value); err != nil {
			return nil, err
		}
		v = replace
	}
	c = maps.Clone(c)
	if v == remove {
		delete(c, path[0])
	} else {
		c[path[0]] = value
	}
	return c, nil
}

func editArray(c []any, path []string, v verb, value any) (any, error) {
	if len(path) == 1 && v == add {
		i, ok := index(path[0], len(c))
		if path[0] == "-" {
			i, ok = len(c), true
		}
		if !ok {
			return nil, errPointer
		}
		return slices.Insert(slices.Clone(c), i, value), nil
	}
	i, ok := index(path[0], len(c)-1)
	if !ok {
		return nil, errPointer
	}
	if len(path) > 1 {
		var err error
		if value, err = edit(c[i], path[1:], v, value); err != nil {
			return nil, err
		}
		v = replace
	}
	c = slices.Clone(c)
	if v == remove {
		return slices.Delete(c, i, i+1), nil
	}
	c[i] = value
	return c, nil
}
