package agui

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// token reads an event that continues a block: most events are such, and short,
// and reflection would cost more than all else that is done with them. It takes
// objects of a few known members that are strings; others, false, are read in
// full. Data is kept only in the delta, which lives as long as data does.
func (r *reader) token(data []byte) (ev event, ok bool) {
	if !utf8.Valid(data) {
		return event{}, false
	}
	b, ok := after(data, '{')
	for ok {
		var name, value jsontext.Value
		if name, b, ok = quoted(b); !ok {
			break
		}
		if b, ok = after(b, ':'); !ok {
			break
		}
		if string(name) == `"timestamp"` {
			b, ok = digits(b)
		} else if value, b, ok = quoted(b); !ok {
			break
		}
		switch string(name) {
		case `"type"`:
			ev.Type = kindOfToken(value)
		case `"messageId"`:
			ev.Message, ok = r.again(value)
		case `"toolCallId"`:
			ev.Call, ok = r.again(value)
		case `"delta"`:
			ev.Delta = value
		case `"timestamp"`:
		default:
			ok = false
		}
		if !ok {
			break
		}
		rest, more := after(b, ',')
		if !more {
			b, ok = after(b, '}')
			return ev, ok && len(space(b)) == 0 && ev.Type != "" && len(ev.Delta) > 0
		}
		b = rest
	}
	return event{}, false
}

// kindOfToken is the type of an event that is all delta, or "".
func kindOfToken(quoted []byte) text {
	for _, k := range [...]string{"TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK"} {
		if len(quoted) == len(k)+2 && string(quoted[1:len(k)+1]) == k {
			return text(k)
		}
	}
	return ""
}

// again is an id without escapes, most often the one of the event before.
func (r *reader) again(quoted []byte) (text, bool) {
	if id := quoted[1 : len(quoted)-1]; string(id) != r.id {
		if bytes.IndexByte(id, '\\') >= 0 {
			return "", false
		}
		r.id = string(id)
	}
	return text(r.id), true
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// after steps over space and one byte.
func after(b []byte, c byte) ([]byte, bool) {
	if b = space(b); len(b) == 0 || b[0] != c {
		return b, false
	}
	return b[1:], true
}

// quoted reads a string that says what it stands for without escapes beyond
// those of one letter. It is returned with its quotes.
func quoted(b []byte) (s, rest []byte, ok bool) {
	if b = space(b); len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[: i+1 : i+1], b[i+1:], true
		case c < 0x20:
			return nil, b, false
		case c == '\\':
			i++
			if i == len(b) {
				return nil, b, false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return nil, b, false
			}
		}
	}
	return nil, b, false
}

// digits steps over a number without sign, fraction or exponent.
func digits(b []byte) ([]byte, bool) {
	b = space(b)
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return b[n:], n > 0 && (n == 1 || b[0] != '0')
}
