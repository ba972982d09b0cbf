package caddymodule

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// TestNothingSteersATerminal: no control character of either set, and none that
// turns the order of text, comes out of what a command prints.
func TestNothingSteersATerminal(t *testing.T) {
	var all []rune
	for r := rune(0); r < 0x2100; r++ {
		all = append(all, r)
	}
	text := string(all) + "\xff\x9b31m" // not UTF-8, and a raw CSI
	var out, notes bytes.Buffer
	s := newChatScreen(&out, &notes, true)
	s.colours = false
	s.text(text)
	s.said(text)
	s.note(text)
	for _, b := range []string{plain(text), plainJSON(text), out.String(), notes.String()} {
		for _, r := range b {
			switch {
			case r == '\n' || r == '\t':
			case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x61C:
				t.Fatalf("%U comes through", r)
			}
		}
	}
	if notes.String() == "" || bytes.Count(notes.Bytes(), []byte("\n")) != 1 {
		t.Errorf("a note has %d lines", bytes.Count(notes.Bytes(), []byte("\n")))
	}

	value := map[string]string{"a": string(all)}
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(plainJSON(string(b))), &back); err != nil || back["a"] != value["a"] {
		t.Errorf("a line of JSON is another one: %v", err)
	}
}

// TestChatAnswers: what is typed becomes the value that is meant.
func TestChatAnswers(t *testing.T) {
	for typed, want := range map[string]string{
		"y": "true", "Yes": "true", "n": "false", "deny": "false", "true": "true",
		`{"approved":false}`: `{"approved":false}`, "12": "12", `"12"`: `"12"`, "tomorrow": `"tomorrow"`,
	} {
		if got := string(chatAnswer(typed)); got != want {
			t.Errorf("%q is %s, want %s", typed, got, want)
		}
	}
}

// TestChatPackets: what is no packet of ours is none.
func TestChatPackets(t *testing.T) {
	for b, want := range map[string]bool{
		`2["run:event",{}]`: true, `37[{"ok":true}]`: true, `2["x"]`: false, `3[1]`: false,
		`2[`: false, `2`: false, `399999999999999999999[1]`: false, `51-["x",{}]`: false, `2{}`: false, `3[]`: false,
	} {
		if _, ok := parsePacket([]byte(b)); ok != want {
			t.Errorf("%s is %v", b, ok)
		}
	}
}

// TestNobodyForgesARow: what somebody chose stays in its row and its column, and
// an error is one line, also where it has the gateway's words.
func TestNobodyForgesARow(t *testing.T) {
	const evil = "a\tb\nc\x1b[1m"
	if got := cells(evil, 7, "d"); got != "a b c[1m\t7\td" {
		t.Errorf("a row: %q", got)
	}
	if got := (chatThread{ID: evil, Title: evil}).line(); strings.ContainsAny(got, "\t\n\x1b") {
		t.Errorf("a conversation: %q", got)
	}
	var notes bytes.Buffer
	newChatScreen(io.Discard, &notes, false).note(evil)
	if got := notes.String(); got != "a b c[1m\n" {
		t.Errorf("a note: %q", got)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 500 a\tb\x1b[1m\r\nContent-Length: 0\r\n\r\n")
	}))
	defer server.Close()
	cmd := new(cobra.Command)
	chatCommand(cmd)
	cmd.SetArgs([]string{server.URL, "--list"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "with 500 a b[1m") {
		t.Errorf("an error: %q", err)
	}
}
