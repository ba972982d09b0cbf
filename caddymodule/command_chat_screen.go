package caddymodule

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// chatScreen is what a person, or a script, sees of a conversation. What models
// and other people write can neither steer the terminal nor hide on it.
type chatScreen struct {
	out, notes  io.Writer
	interactive bool
	colours     bool
	open        bool // the last line of out is not ended
	err         error
}

func newChatScreen(out, notes io.Writer, interactive bool) *chatScreen {
	return &chatScreen{out: out, notes: notes, interactive: interactive, colours: interactive && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// text shows a piece of an answer.
func (s *chatScreen) text(text string) {
	text = plain(text)
	if text == "" {
		return
	}
	s.write(s.out, text)
	s.open = !strings.HasSuffix(text, "\n")
}

// rest ends the line that is open.
func (s *chatScreen) rest() {
	if s.open {
		s.write(s.out, "\n")
		s.open = false
	}
}

// note says something about the conversation, on a line of its own.
func (s *chatScreen) note(text string) {
	if s.interactive { // both are on one terminal then
		s.rest()
	}
	text = field(text)
	if s.colours {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	s.write(s.notes, text+"\n")
}

// said shows a message of a person's.
func (s *chatScreen) said(text string) {
	if !s.interactive {
		return
	}
	s.rest()
	text = "> " + strings.ReplaceAll(plain(text), "\n", "\n  ")
	if s.colours {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.write(s.out, text+"\n")
}

// prompt asks for a line, where somebody types.
func (s *chatScreen) prompt(text string) {
	if s.interactive {
		s.rest()
		s.write(s.notes, plain(text))
	}
}

func (s *chatScreen) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil && s.err == nil && w == s.out {
		s.err = err
	}
}

// steers says that a character could steer a terminal, or turn the order of what
// is written around it: control characters of both sets, and those of
// bidirectional text (UAX #9).
func steers(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r):
		return true
	case r == 0x61C, r == 0x200E, r == 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// plain is text without the characters that steer.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexFunc(text, steers) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return -1
		}
		return r
	}, text)
}

// field is plain text that stays in its row and its column.
func field(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(plain(text))
}

// plainJSON is a line of JSON with such characters escaped: they can only stand
// in its strings.
func plainJSON(line string) string {
	if strings.IndexFunc(line, steers) < 0 {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		if steers(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
