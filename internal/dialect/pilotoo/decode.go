package pilotoo

import (
	"bytes"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// object is a JSON object that was read strictly: no member that its reader did
// not name, no member twice, no broken UTF-8.
type object struct {
	what    string // for messages: "the command", "attachments[2]"
	members map[string]jsontext.Value
}

// checkCommand says whether b is one well-formed JSON text of bounded depth.
// What is inside has then been checked too, at every level.
func checkCommand(b jsontext.Value) *Error {
	if !b.IsValid() {
		return invalid("the command is not well-formed JSON: check for repeated keys and broken text encoding")
	}
	if depth(b) > MaxDepth {
		return invalid("the command nests deeper than %d levels", MaxDepth)
	}
	return nil
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

// readObject reads valid JSON as an object with the known members and no
// others (PIL-002, PIL-004).
func readObject(what string, b jsontext.Value, known ...string) (object, *Error) {
	o := object{what: what, members: make(map[string]jsontext.Value, len(known))}
	if b.Kind() != '{' {
		return o, invalid("%s must be a JSON object", what)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(b))
	if _, err := d.ReadToken(); err != nil {
		return o, invalid("%s is not well-formed JSON", what)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return o, invalid("%s is not well-formed JSON", what)
		}
		key := name.String()
		if !slices.Contains(known, key) {
			return o, invalid("%s has an unknown key %s", what, quote(key))
		}
		v, err := d.ReadValue()
		if err != nil {
			return o, invalid("%s is not well-formed JSON", what)
		}
		o.members[key] = within(b, d, v)
	}
	return o, nil
}

// within is a value that a decoder has just read, as a piece of what it reads
// from: large commands are not copied for each level that is looked at.
func within(b jsontext.Value, d *jsontext.Decoder, v jsontext.Value) jsontext.Value {
	end := d.InputOffset()
	return b[end-int64(len(v)) : end : end]
}

// quote shows a piece of what a client sent, shortened.
func quote(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

func (o object) has(name string) bool { _, ok := o.members[name]; return ok }

// text reads a string that must be there.
func (o object) text(name string) (string, *Error) {
	b, err := o.unquoted(name)
	return string(b), err
}

// unquoted is text without a copy of its own where it needs none.
func (o object) unquoted(name string) ([]byte, *Error) {
	v, ok := o.members[name]
	if !ok {
		return nil, invalid("%s needs %s", o.what, name)
	}
	if v.Kind() != '"' {
		return nil, invalid("%s must be a string", name)
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return nil, invalid("%s is not well-formed text", name)
	}
	return b, nil
}

// id reads an id that must be there (PIL-007).
func (o object) id(name string) (string, *Error) {
	s, err := o.text(name)
	if err == nil && !chat.ValidID(s) {
		err = invalid("%s must have 1 to %d characters and no control characters", name, chat.MaxID)
	}
	return s, err
}

// optionalID reads an id that may be absent, not null.
func (o object) optionalID(name string) (string, *Error) {
	if !o.has(name) {
		return "", nil
	}
	return o.id(name)
}

// list reads an array that may be absent, with at most most elements.
func (o object) list(name string, most int) ([]jsontext.Value, *Error) {
	v, ok := o.members[name]
	if !ok {
		return nil, nil
	}
	if v.Kind() != '[' {
		return nil, invalid("%s must be an array", name)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := d.ReadToken(); err != nil {
		return nil, invalid("%s is not well-formed JSON", name)
	}
	var list []jsontext.Value
	for d.PeekKind() != ']' {
		if len(list) == most {
			return nil, invalid("%s may have at most %d entries", name, most)
		}
		e, err := d.ReadValue()
		if err != nil {
			return nil, invalid("%s is not well-formed JSON", name)
		}
		list = append(list, within(v, d, e))
	}
	return list, nil
}

// units counts s as JavaScript does, in UTF-16 code units (PIL-032).
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

// blank says that s has nothing but white space, as Unicode and JavaScript
// together have it (PIL-034).
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && r != '\ufeff' {
			return false
		}
	}
	return true
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
