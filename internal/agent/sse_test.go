package agent

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEventStream(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"LF", "data: a\n\ndata: b\n\n", "[:a][:b]"},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", "[:a][:b]"},
		{"comments, id and retry", ": hi\n\nid: 1\nretry: 5\ndata: a\n\n:\n\n", "[:a]"},
		{"data over several lines", "data: a\ndata:b\ndata:\ndata:  c\n\n", "[:a\nb\n\n c]"},
		{"an event's name", "event: error\ndata: a\n\ndata: b\n\n", "[error:a][:b]"},
		{"a name without data is forgotten", "event: x\n\ndata: b\n\n", "[:b]"},
		{"no blank line at the end", "data: a", "[:a]"},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n", "[:a]"},
		{"a field without a colon", "data\n\ndata: a\n\n", "[:][:a]"},
		{"empty", "", ""},
		{"a long line", "data: " + strings.Repeat("x", 900) + "\n\n", "[:" + strings.Repeat("x", 900) + "]"},
		{"a line that is too long", "data: " + strings.Repeat("x", 2000) + "\n\ndata: a\n\n", "too long"},
		{"an event that is too long", strings.Repeat("data: "+strings.Repeat("x", 300)+"\n", 4) + "\n", "too long"},
		{"a line without an end that is too long", strings.Repeat("x", 70_000), "too long"},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			s := NewEventStream(r, 1000)
			got := ""
			for {
				name, data, err := s.Next()
				if errors.Is(err, ErrEventTooLong) {
					got += "too long"
					if _, _, again := s.Next(); !errors.Is(again, ErrEventTooLong) {
						t.Errorf("%s: after the error came %v", c.name, again)
					}
				}
				if err != nil {
					break
				}
				got += "[" + name + ":" + string(data) + "]"
			}
			if got != c.want {
				t.Errorf("%s, %s: got %.80q, want %.80q", c.name, how, got, c.want)
			}
		}
	}
}
