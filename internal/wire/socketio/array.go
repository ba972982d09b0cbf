package socketio

import (
	"bytes"
	"encoding/json"
)

// splitArray returns the elements of a JSON array as parts of b, untouched:
// decoding them would lose what Go has no word for, such as lone surrogates.
func splitArray(b []byte) ([]json.RawMessage, error) {
	b = bytes.Trim(b, " \t\r\n")
	if len(b) < 2 || b[0] != '[' || !json.Valid(b) {
		return nil, errPacket
	}
	b = b[1 : len(b)-1]
	var all []json.RawMessage
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted:
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			all = append(all, element(b[start:i]))
			start = i + 1
		}
	}
	if last := element(b[start:]); len(last) > 0 {
		all = append(all, last)
	}
	return all, nil
}

func element(b []byte) json.RawMessage {
	b = bytes.Trim(b, " \t\r\n")
	return json.RawMessage(b[:len(b):len(b)])
}

// placeholders checks that each placeholder in args refers to one of n
// attachments. An attachment that nothing refers to is no fault.
func placeholders(args []json.RawMessage, n int) error {
	for _, a := range args {
		if !bytes.Contains(a, []byte("placeholder")) && bytes.IndexByte(a, '\\') < 0 {
			continue // spares decoding what has none, in whatever spelling
		}
		var v any
		if err := json.Unmarshal(a, &v); err != nil {
			return errPacket
		}
		if !inRange(v, n) {
			return errAttachment
		}
	}
	return nil
}

func inRange(v any, n int) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !inRange(e, n) {
				return false
			}
		}
	case map[string]any:
		if v["_placeholder"] == true {
			num, ok := v["num"].(float64)
			return ok && num >= 0 && num < float64(n) && num == float64(int(num))
		}
		for _, e := range v {
			if !inRange(e, n) {
				return false
			}
		}
	}
	return true
}
