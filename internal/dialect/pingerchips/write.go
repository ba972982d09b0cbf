package pingerchips

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// What is sent is appended by hand: a change that goes to a thousand members is
// encoded once, and without reflection.

// quoted appends s as a JSON string.
func quoted[S ~string | ~[]byte](b []byte, s S) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// field appends ,"name":"s".
func field[S ~string | ~[]byte](b []byte, name string, s S) []byte {
	return quoted(key(b, name), s)
}

// key appends ,"name":
func key(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// orNull is field, with null for an empty s.
func orNull(b []byte, name, s string) []byte {
	if s == "" {
		return append(key(b, name), "null"...)
	}
	return field(b, name, s)
}

func number(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(key(b, name), n, 10)
}

func logID(b []byte, log uint64) []byte {
	return strconv.AppendUint(key(b, "log_id"), log, 10)
}

func truth(b []byte, name string, v bool) []byte {
	return strconv.AppendBool(key(b, name), v)
}

// list appends the elements, separated by commas, in brackets.
func list[E any](b []byte, all []E, one func([]byte, E) []byte) []byte {
	b = append(b, '[')
	for i, e := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, e)
	}
	return append(b, ']')
}

func ids(b []byte, all []string) []byte { return list(b, all, quoted[string]) }

// text appends what a stream slot shows: the text parts, joined.
func text(b []byte, parts []chat.Text) []byte {
	switch len(parts) {
	case 0:
		return append(b, '"', '"')
	case 1:
		return quoted(b, parts[0])
	}
	whole := make([][]byte, len(parts))
	for i, p := range parts {
		whole[i] = p
	}
	return quoted(b, bytes.Join(whole, []byte(chat.PartBreak)))
}

// textSize is about how long text makes it.
func textSize(parts []chat.Text) int {
	n := 0
	for _, p := range parts {
		n += len(p) + len(chat.PartBreak)
	}
	return n
}

func isObject(v jsontext.Value) bool { return len(v) > 0 && v.Kind() == '{' && v.IsValid() }
