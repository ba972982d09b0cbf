package smooth

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// object is a frame of a client, read no deeper than its members. The getters
// refuse a wrong type and remember the first refusal.
type object struct {
	members map[string]jsontext.Value
	err     *Error
}

// read reads one JSON object; a value that is none is nil.
func read(b []byte) *object {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(false))
	v, err := d.ReadValue()
	if err != nil || v.Kind() != '{' || depth(v) > maxDepth {
		return nil
	}
	if rest := bytes.TrimLeft(b[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil
	}
	return members(v)
}

func members(v jsontext.Value) *object {
	o := &object{members: make(map[string]jsontext.Value)}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		o.members[key] = value.Clone()
	}
	return o
}

// depth is how deep a well-formed value nests.
func depth(v jsontext.Value) int {
	deepest, now, text, escaped := 0, 0, false, false
	for _, c := range v {
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = invalid(format, args...)
	}
}

// has says that a member is there and not null.
func (o *object) has(name string) bool {
	v, ok := o.members[name]
	return ok && v.Kind() != 'n'
}

// text is an optional string of at most limit bytes.
func (o *object) text(name string, limit int) string {
	if !o.has(name) {
		return ""
	}
	s, ok := unquote(o.members[name])
	if !ok {
		o.fail("'%s' must be a string", name)
		return ""
	}
	if len(s) > limit {
		o.fail("'%s' is too long", name)
		return ""
	}
	return s
}

func (o *object) required(name string, limit int) string {
	if !o.has(name) {
		o.fail("'%s' is required", name)
		return ""
	}
	return o.text(name, limit)
}

// boolean is an optional boolean; present says that it was given.
func (o *object) boolean(name string, otherwise bool) (value, present bool) {
	if !o.has(name) {
		return otherwise, false
	}
	switch o.members[name].Kind() {
	case 't':
		return true, true
	case 'f':
		return false, true
	}
	o.fail("'%s' must be true or false", name)
	return otherwise, true
}

// object is an optional object, or nil.
func (o *object) object(name string, limit int) jsontext.Value {
	if !o.has(name) {
		return nil
	}
	v := o.members[name]
	switch {
	case v.Kind() != '{':
		o.fail("'%s' must be an object", name)
	case len(v) > limit:
		o.fail("'%s' is too large", name)
	default:
		return v
	}
	return nil
}

// list is an optional list, or nil; ok says that it was given.
func (o *object) list(name string) (values []jsontext.Value, ok bool) {
	if !o.has(name) {
		return nil, false
	}
	if o.members[name].Kind() != '[' {
		o.fail("'%s' must be a list", name)
		return nil, false
	}
	return elements(o.members[name]), true
}

func elements(v jsontext.Value) (values []jsontext.Value) {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() != ']' {
		e, err := d.ReadValue()
		if err != nil {
			return nil
		}
		values = append(values, e.Clone())
	}
	return values
}

// session is a required session id. One that is no UUID is nobody's.
func (o *object) session() string { return o.required("sessionId", maxText) }

func unquote(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", false
	}
	return string(b), true
}

// requestID reads a frame's requestId; ok is false for one that cannot be echoed
// (SMO-014).
func (o *object) requestID() (id string, ok bool) {
	if !o.has("requestId") {
		return "", true
	}
	id, ok = unquote(o.members["requestId"])
	if !ok || utf8.RuneCountInString(id) > MaxRequestID {
		return "", false
	}
	return id, true
}

// only refuses members that an action does not have, for Config.Strict.
func (o *object) only(names ...string) {
	for name := range o.members {
		if name != "action" && name != "requestId" && !slices.Contains(names, name) {
			o.fail("'%s' is not a field of this action", name)
		}
	}
}

// canonical says that s is a UUID in its usual form, of a version that is shown
// as it is (SMO-220).
func canonical(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s && u.Variant() == uuid.RFC4122 && (u.Version() == 4 || u.Version() == 7)
}

func isUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil && len(s) == 36
}
