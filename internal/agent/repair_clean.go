package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Unquote reads a JSON string. Unlike a strict decoder it keeps half of a
// surrogate pair, as the three bytes that UTF-8 would have for it: the other
// half may come with the next delta, and Repair joins them. False for what is
// no JSON string.
func Unquote(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' && bytes.IndexByte(v, '\\') < 0 &&
		bytes.IndexByte(v[1:n-1], '"') < 0 && utf8.Valid(v) && !slices.ContainsFunc(v, func(c byte) bool { return c < 0x20 }) {
		return string(v[1 : n-1]), true // most are plain
	}
	s := strings.TrimSpace(string(v))
	if !strings.Contains(s, `\u`) {
		b, err := jsontext.AppendUnquote(nil, s)
		return string(b), err == nil || !utf8.ValidString(s)
	}
	var out []byte
	for body := s[1 : len(s)-1]; body != ""; {
		i := strings.Index(body, `\`)
		if i < 0 || i+1 >= len(body) {
			out = append(out, body...)
			break
		}
		out = append(out, body[:i]...)
		n := 2
		if body[i+1] == 'u' {
			n = 6
		}
		if len(body) < i+n {
			return "", false
		}
		unit, rest := body[i:i+n], body[i+n:]
		if u, ok := surrogate(unit); ok {
			out = join(out, u)
		} else {
			b, err := jsontext.AppendUnquote(nil, `"`+unit+`"`)
			if err != nil {
				return "", false
			}
			out = append(out, b...)
		}
		body = rest
	}
	return string(out), true
}

// surrogate reads an escape that is half of a pair.
func surrogate(escape string) (rune, bool) {
	if len(escape) != 6 {
		return 0, false
	}
	b, err := hex.DecodeString(escape[2:])
	if err != nil || b[0] < 0xd8 || b[0] > 0xdf {
		return 0, false
	}
	return rune(b[0])<<8 | rune(b[1]), true
}

// join appends half of a pair; with its other half it becomes a character.
func join(out []byte, u rune) []byte {
	b := string([]byte{0xe0 | byte(u>>12), 0x80 | byte(u>>6)&0x3f, 0x80 | byte(u)&0x3f})
	if n := len(out); n >= 3 {
		before := string(out[n-3:])
		high, _ := half(before)
		if _, low := half(b); high && low {
			return utf8.AppendRune(out[:n-3], pair(before, b))
		}
	}
	return append(out, b...)
}

// half says whether s begins with half of a surrogate pair, and which.
func half(s string) (high, low bool) {
	if len(s) < 3 || s[0] != 0xed || s[2]&0xc0 != 0x80 {
		return false, false
	}
	return s[1]&0xf0 == 0xa0, s[1]&0xf0 == 0xb0
}

// whole splits off what the next delta may complete: the first bytes of a
// character, or the first half of a surrogate pair. The rest is made valid.
func whole(s string) (text, held string) {
	at := len(s)
	for i := len(s) - 1; i >= 0 && i >= len(s)-3; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		high, _ := half(s[i:])
		if high || incomplete(s[i:]) {
			at = i
		}
		break
	}
	return valid(s[:at]), s[at:]
}

// incomplete says that s is a proper beginning of a character, or of half a
// surrogate pair.
func incomplete(s string) bool {
	n := 0
	switch c := s[0]; {
	case c >= 0xc2 && c < 0xe0:
		n = 2
	case c >= 0xe0 && c < 0xf0:
		n = 3
	case c >= 0xf0 && c < 0xf5:
		n = 4
	}
	return len(s) < n
}

// flush makes text of what was held and never completed.
func flush(held string) string { return valid(held) }

// valid joins the halves of surrogate pairs and replaces what is no character.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || n > 1 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		high, low := half(s[i:])
		next := false
		if high {
			_, next = half(s[i+3:])
		}
		switch {
		case next:
			b.WriteRune(pair(s[i:], s[i+3:]))
			i += 6
		case high || low:
			b.WriteRune(utf8.RuneError)
			i += 3
		default:
			b.WriteRune(utf8.RuneError)
			i++
		}
	}
	return b.String()
}

// pair is the character of which two halves stand at the start of high and low.
func pair(high, low string) rune {
	bits := func(s string) rune { return rune(s[1]&0x0f)<<6 | rune(s[2]&0x3f) }
	return 0x10000 + bits(high)<<10 + bits(low)
}

// cut shortens s to at most n bytes without breaking a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

func cleanText(s string, n int) string { return cut(valid(s), n) }

// cleanName makes a name or id that fits on a line.
func cleanName(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, valid(cut(s, 4*n)))
	return cut(strings.TrimSpace(s), n)
}

// key is an agent's id as the key of a map: bounded, whatever the agent sends.
func key(id string) string {
	if len(id) <= maxKey {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// cleanValue makes a JSON value that can be stored: whole, strict, at most max
// bytes. Blank stays blank; false where nothing can be made of v.
func cleanValue(v jsontext.Value, n int) (jsontext.Value, bool) {
	if len(v) == 0 {
		return nil, true
	}
	if len(v) > n {
		return nil, false
	}
	if v.IsValid() {
		c := v.Clone()
		return c, c.Compact() == nil
	}
	// The lenient decoder of the standard library mends doubled names (the last
	// wins) and broken characters, and leaves numbers as they are written.
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var x any
	if d.Decode(&x) != nil || d.More() {
		return nil, false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(x) != nil {
		return nil, false
	}
	v = bytes.TrimSpace(b.Bytes())
	return v, len(v) <= n && v.IsValid()
}
