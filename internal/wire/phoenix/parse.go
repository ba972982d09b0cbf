package phoenix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

var (
	errJSON     = errors.New("phoenix: frame is not JSON")
	errFrame    = errors.New("phoenix: not a frame of join_ref, ref, topic, event and payload")
	errBinary   = errors.New("phoenix: binary pushes are not offered")
	errTooLarge = errors.New("phoenix: frame too large")
)

// message is one frame of a client.
type message struct {
	joinRef, ref Ref
	topic, event string
	payload      json.RawMessage
	size         int
}

// parse reads a frame of valid UTF-8. It keeps parts of b.
func parse(b []byte) (message, error) {
	if !json.Valid(b) {
		return message{}, errJSON
	}
	var parts [5][]byte
	if err := split(b, &parts); err != nil {
		return message{}, err
	}
	m := message{payload: parts[4], size: len(b)}
	var err error
	if m.joinRef, err = parseRef(parts[0]); err != nil {
		return message{}, err
	}
	if m.ref, err = parseRef(parts[1]); err != nil {
		return message{}, err
	}
	if m.topic, err = parseString(parts[2], maxTopic); err != nil {
		return message{}, err
	}
	if m.event, err = parseString(parts[3], maxEvent); err != nil {
		return message{}, err
	}
	return m, nil
}

// parseRef takes a string or a number, which some clients send, or null. A ref is
// opaque and comes back as it was written.
func parseRef(b []byte) (Ref, error) {
	switch c := b[0]; {
	case len(b) > maxRef:
	case c == 'n':
		return "", nil
	case c == '"' || c == '-' || c >= '0' && c <= '9':
		return Ref(b), nil
	}
	return "", errFrame
}

func parseString(b []byte, limit int) (string, error) {
	if b[0] != '"' || len(b) > limit {
		return "", errFrame
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("%w: %w", errFrame, err)
	}
	return s, nil
}

// split finds the five elements of a JSON array that is known to be valid, as
// parts of b: decoding them would lose what Go has no word for, such as lone
// surrogates.
func split(b []byte, parts *[5][]byte) error {
	b = bytes.Trim(b, " \t\r\n")
	if b[0] != '[' {
		return errFrame
	}
	b = b[1 : len(b)-1]
	n, depth, start, quoted := 0, 0, 0, false
	for i := 0; i <= len(b); i++ {
		c := byte(',')
		if i < len(b) {
			c = b[i]
		}
		switch {
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
			e := bytes.Trim(b[start:i], " \t\r\n")
			if n == len(parts) || len(e) == 0 {
				return errFrame
			}
			parts[n] = e[:len(e):len(e)]
			n, start = n+1, i+1
		}
	}
	if n != len(parts) {
		return errFrame
	}
	return nil
}
