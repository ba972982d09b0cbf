package pingerchips

import (
	"bytes"
	"math"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// object is a payload. Members that nobody asks for are ignored (PIN-122); a
// member of the wrong type is an invalid payload.
type object map[string]jsontext.Value

// readObject reads a payload: one JSON object, bounded in depth, without a name
// twice on any level and without broken text.
func readObject(b []byte) (object, error) {
	v := jsontext.Value(b)
	if !v.IsValid() || v.Kind() != '{' || depth(v) > MaxDepth {
		return nil, invalidPayload
	}
	var o object
	if json.Unmarshal(v, &o) != nil {
		return nil, invalidPayload
	}
	return o, nil
}

// depth is how deep valid JSON nests.
func depth(b []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// given says that a member is there and not null.
func (o object) given(name string) bool {
	v, ok := o[name]
	return ok && v.Kind() != 'n'
}

func (o object) text(name string) (string, error) {
	v := o[name]
	if v.Kind() != '"' {
		return "", invalidPayload
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", invalidPayload
	}
	return s, nil
}

// id reads an id that must be there: 1 to 128 characters of any script (PIN-122).
func (o object) id(name string) (string, error) {
	s, err := o.text(name)
	if err == nil && !chat.ValidID(s) {
		err = invalidPayload
	}
	return s, err
}

// optionalID reads an id that may be absent or null: then it is "".
func (o object) optionalID(name string) (string, error) {
	if !o.given(name) {
		return "", nil
	}
	return o.id(name)
}

// whole reads a number without a fraction, within what JavaScript holds exactly.
func (o object) whole(name string) (int64, error) {
	var f float64
	if v := o[name]; v.Kind() != '0' || json.Unmarshal(v, &f) != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, invalidPayload
	}
	return int64(f), nil
}

// choices reads selections as they are shown: ids by the roots of their groups.
// Whether there are such messages is for the view to know, which passes over what
// is not there.
func (o object) choices(name string) (c choices, err error) {
	v := o[name]
	if v.Kind() != '{' || len(v) > maxSelectionBytes {
		return c, invalidPayload
	}
	d := jsontext.NewDecoder(bytes.NewReader(v)) // in their order, which a map has not
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		root, err := d.ReadToken()
		if err != nil || !chat.ValidID(root.String()) || len(c.order) == maxSelections {
			return choices{}, invalidPayload
		}
		group := root.String() // a token holds until the next is read
		if d.PeekKind() != '"' {
			return choices{}, invalidPayload
		}
		id, err := d.ReadToken()
		if err != nil || !chat.ValidID(id.String()) {
			return choices{}, invalidPayload
		}
		c.set(group, id.String())
	}
	return c, nil
}

// limit reads a page's size, clamped (PIN-179).
func (o object) limit(name string, def, most int64) (int, error) {
	if !o.given(name) {
		return int(def), nil
	}
	n, err := o.whole(name)
	return int(min(max(n, 1), most)), err
}

func (o object) truth(name string) (bool, error) {
	switch v := o[name]; {
	case bytes.Equal(v, []byte("true")):
		return true, nil
	case bytes.Equal(v, []byte("false")):
		return false, nil
	}
	return false, invalidPayload
}

// units counts s as JavaScript does, in UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// blank says that s has nothing but white space, as JavaScript's trim has it.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && r != '\ufeff' {
			return false
		}
	}
	return true
}
