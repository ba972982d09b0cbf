package smooth

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// intake asks who the person is (SMO-188 to SMO-190).
var intake = kind{
	name: "identity_intake", capability: "identity_form",
	description: "Ask the user for contact details with a form. Use it when you need a name, an email address or a phone number.",
	arguments: jsontext.Value(`{"type":"object","properties":{"fields":{"type":"array","minItems":1,"items":{"type":"object",` +
		`"properties":{"key":{"type":"string","enum":["name","email","phone"]},"required":{"type":"boolean"},"label":{"type":"string"}},` +
		`"required":["key","required"]}},"reason":{"type":"string","description":"Why you ask, as a phrase such as: to send you the quote"}},"required":["fields"]}`),
	spec:   intakeSpec,
	values: intakeValues,
}

var intakeKeys = []string{"name", "email", "phone"}

// intakeSpec reads the fields; a bare key is short for a required field.
func intakeSpec(args jsontext.Value) (jsontext.Value, error) {
	list, ok := entry(args).list("fields")
	if !ok || len(list) == 0 {
		return nil, invalid("'fields' must be a list with at least one field")
	}
	b := []byte(`{"fields":[`)
	var seen []string
	for _, v := range list {
		key, required, label := "", true, ""
		if v.Kind() == '"' {
			key, _ = unquote(v)
		} else {
			o := entry(v)
			key, label = o.required("key", maxName), o.text("label", maxText)
			required, _ = o.boolean("required", false)
			if o.err != nil {
				return nil, o.err
			}
		}
		switch {
		case !slices.Contains(intakeKeys, key):
			return nil, invalid("a field's key must be name, email or phone")
		case slices.Contains(seen, key):
			return nil, invalid("the field %s is there twice", key)
		}
		if len(seen) > 0 {
			b = append(b, ',')
		}
		seen = append(seen, key)
		b = quoted(append(b, `{"key":`...), key)
		b = append(append(b, `,"required":`...), boolean(required)...)
		b = append(optional(b, "label", label), '}')
	}
	return append(b, ']', '}'), nil
}

// intakeValues checks all fields in one pass; what was not asked for is checked
// and kept too (SMO-189).
func intakeValues(spec, values jsontext.Value) (jsontext.Value, []fieldError) {
	o := entry(values)
	given := make(map[string]string)
	var errs []fieldError
	for _, key := range intakeKeys {
		if !o.has(key) {
			continue
		}
		s, ok := unquote(o.members[key])
		if !ok || len(s) > maxName {
			errs = append(errs, fieldError{key, "must be a short text"})
			continue
		}
		if s = strings.TrimSpace(s); s != "" {
			given[key] = s
		}
	}
	list, _ := entry(spec).list("fields")
	for _, v := range list {
		f := entry(v)
		key := f.text("key", maxName)
		if required, _ := f.boolean("required", false); required && given[key] == "" && !slices.ContainsFunc(errs, func(e fieldError) bool { return e.field == key }) {
			errs = append(errs, fieldError{key, "this field is required"})
		}
	}
	if email, ok := given["email"]; ok {
		if given["email"], ok = normalEmail(email); !ok {
			errs = append(errs, fieldError{"email", "must be a valid email address"})
		}
	}
	if phone, ok := given["phone"]; ok {
		if given["phone"], ok = normalPhone(phone); !ok {
			errs = append(errs, fieldError{"phone", "must be a valid phone number"})
		}
	}
	if len(errs) == 0 && len(given) == 0 {
		errs = append(errs, fieldError{"values", "at least one field must be filled in"})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	b := []byte{'{'}
	for _, key := range intakeKeys {
		if given[key] != "" {
			b = member(b, key, given[key])
		}
	}
	if len(b) > 1 {
		b = append(b[:1], b[2:]...) // the first member has no comma
	}
	return append(b, '}'), nil
}

// normalEmail wants one @, no blanks, and a dotted domain, which is lower-cased.
func normalEmail(s string) (string, bool) {
	local, domain, ok := strings.Cut(s, "@")
	parts := strings.Split(domain, ".")
	if !ok || local == "" || strings.ContainsRune(domain, '@') || strings.ContainsFunc(s, unicode.IsSpace) || len(parts) < 2 || slices.Contains(parts, "") {
		return "", false
	}
	return local + "@" + strings.ToLower(domain), true
}

// normalPhone is E.164: + and 8 to 15 digits; ten bare digits, or eleven that
// begin with 1, are of North America.
func normalPhone(s string) (string, bool) {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -.()", r) {
			return -1
		}
		return r
	}, s)
	digits, plus := strings.CutPrefix(s, "+")
	if digits == "" || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return "", false
	}
	switch n := len(digits); {
	case plus && n >= 8 && n <= 15 && digits[0] != '0':
		return "+" + digits, true
	case !plus && n == 10:
		return "+1" + digits, true
	case !plus && n == 11 && digits[0] == '1':
		return "+" + digits, true
	}
	return "", false
}
