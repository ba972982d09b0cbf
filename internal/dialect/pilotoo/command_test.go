package pilotoo

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// start is a start command with further members.
func start(members string) []byte {
	return []byte(`{"threadId":"t1","messageId":"m1"` + members + `}`)
}

// image is base64 of a gif of n bytes.
func image(n int) string {
	b := make([]byte, n)
	copy(b, "GIF89a")
	return base64.StdEncoding.EncodeToString(b)
}

func TestLimitsOfCommands(t *testing.T) {
	tool := func(name, extra string) string {
		return fmt.Sprintf(`{"name":%q,"description":"d","arguments":{},"kind":"blocking"%s}`, name, extra)
	}
	inline := func(data, mediaType string) string {
		return fmt.Sprintf(`,"input":"x","attachments":[{"mediaType":%q,"data":%q}]`, mediaType, data)
	}
	cases := []struct {
		name string
		text string
		ok   bool
	}{
		{"PIL-031 input of 16,000 units is taken", `,"input":"` + strings.Repeat("x", 16_000) + `"`, true},
		{"PIL-031 input of 16,001 units is refused", `,"input":"` + strings.Repeat("x", 16_001) + `"`, false},
		{"PIL-032 8,000 characters beyond the basic plane are taken", `,"input":"` + strings.Repeat("💬", 8_000) + `"`, true},
		{"PIL-032 8,000 of them and a letter are refused", `,"input":"` + strings.Repeat("💬", 8_000) + `x"`, false},
		{"PIL-032 escapes count as what they stand for", `,"input":"` + strings.Repeat(`\u00e4`, 16_000) + `"`, true},
		{"PIL-052 an attachment of 5,242,880 bytes is taken", inline(image(5_242_880), "image/gif"), true},
		{"PIL-052 an attachment of 5,242,881 bytes is refused", inline(image(5_242_881), "image/gif"), false},
		{"PIL-052 and one of 8 MiB", inline(image(8<<20), "image/gif"), false},
		{"PIL-054 a gif that says it is a png is refused", inline(image(100), "image/png"), false},
		{"PIL-054 text that says it is a gif is refused", inline("aGVsbG8gd29ybGQh", "image/gif"), false},
		{"PIL-051 a type in capitals is refused", inline(image(100), "image/GIF"), false},
		{"PIL-050 eight attachments are taken", `,"input":"x","attachments":[` + strings.Repeat(`{"id":"a"},`, 7) + `{"id":"a"}]`, true},
		{"PIL-050 nine attachments are refused", `,"input":"x","attachments":[` + strings.Repeat(`{"id":"a"},`, 8) + `{"id":"a"}]`, false},
		{"PIL-055 eight inline attachments fit", `,"input":"","attachments":[` + strings.TrimSuffix(strings.Repeat(`{"mediaType":"image/gif","data":"`+image(5<<20)+`"},`, 8), ",") + `]`, true},
		{"PIL-033 neither text nor attachment is refused", `,"input":""`, false},
		{"PIL-034 no input beside an attachment is refused", `,"attachments":[{"id":"a"}]`, false},
		{"PIL-034 empty input beside an attachment is taken", `,"input":"","attachments":[{"id":"a"}]`, true},
		{"PIL-075 two tools of one name are refused", `,"input":"x","clientTools":[` + tool("a", "") + `,` + tool("a", "") + `]`, false},
		{"PIL-075 two tools of two names are taken", `,"input":"x","clientTools":[` + tool("a", "") + `,` + tool("A", "") + `]`, true},
		{"PIL-065 a schema of more than 65,536 bytes is refused", `,"input":"x","clientTools":[` + tool("a", `,"result":{"$comment":"`+strings.Repeat("x", 65_536)+`"}`) + `]`, false},
		{"PIL-004 a key twice in a tool is refused", `,"input":"x","clientTools":[` + tool("a", `,"kind":"one-way"`) + `]`, false},
		{"PIL-002 a key twice is refused", `,"input":"x","input":"y"`, false},
		{"PIL-006 text in another encoding is refused", ",\"input\":\"\xff\"", false},
		{"PIL-006 128 levels are taken", `,"input":"x","clientTools":[` + tool("a", `,"result":{"x":`+strings.Repeat("[", 124)+strings.Repeat("]", 124)+`}`) + `]`, true},
		{"PIL-006 129 levels are refused", `,"input":"x","clientTools":[` + tool("a", `,"result":{"x":`+strings.Repeat("[", 125)+strings.Repeat("]", 125)+`}`) + `]`, false},
	}
	for _, c := range cases {
		b := start(c.text)
		if len(b) > MaxPayload {
			t.Errorf("%s: %d bytes do not fit into a message", c.name, len(b))
		}
		_, err := ParseStart(b)
		if c.ok && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.ok {
			refused(t, c.name, err)
		}
	}
}

func TestAnswerLimits(t *testing.T) {
	answer := func(n int) []byte {
		return []byte(`{"threadId":"t1","interruptId":"i1","answer": "` + strings.Repeat("x", n-2) + `" }`)
	}
	if c, err := ParseResume(answer(262_144)); err != nil || len(c.Answer) != 262_144 {
		t.Errorf("PIL-074 an answer of 262,144 bytes: %d, %v", len(c.Answer), err)
	}
	_, err := ParseResume(answer(262_145))
	refused(t, "PIL-074 an answer of 262,145 bytes", err)
}

func TestCommandsAreReadWhole(t *testing.T) {
	c, err := ParseStart([]byte(`{"threadId":"t\u0031","messageId":"m1","input":"a\nb","forkFromMessageId":"m0",
		"attachments":[{"id":"up1"},{"mediaType":"image/gif","data":"` + image(9) + `","name":"x.gif"}],
		"clientTools":[{"name":"f","description":"d","arguments":{ "type" : "object" },"kind":"blocking","result":{}},
			{"name":"g","description":"d","arguments":{},"kind":"one-way"}]}`))
	if err != nil {
		t.Fatal("PIL-030", err)
	}
	a, f := c.Attachments, c.ClientTools
	switch {
	case c.ThreadID != "t1" || c.MessageID != "m1" || c.Input != "a\nb" || c.ForkFrom != "m0":
		t.Error("PIL-030", c)
	case len(a) != 2 || a[0].ID != "up1" || len(a[1].Data) != 9 || a[1].Name != "x.gif" || a[1].MediaType != "image/gif":
		t.Error("PIL-053", a)
	case len(f) != 2 || string(f[0].Arguments) != `{"type":"object"}` || string(f[0].Result) != "{}" || f[0].Kind != "blocking":
		t.Error("PIL-062", f)
	case f[1].Result != nil || f[1].Kind != "one-way":
		t.Error("PIL-069", f[1])
	}
	r, err := ParseResume([]byte(`{"threadId":"t1","interruptId":"i1","answer": null }`))
	if err != nil || r.ThreadID != "t1" || r.InterruptID != "i1" || string(r.Answer) != "null" {
		t.Error("PIL-080 PIL-082", r, err)
	}
	d, err := ParseDetach([]byte(`{"runId":"r1","toolCallId":"c1"}`))
	if err != nil || d != (DetachCommand{"r1", "c1"}) {
		t.Error("PIL-102", d, err)
	}
	k, err := ParseCancel([]byte(`{"runId":"r1"}`))
	if err != nil || k != (CancelCommand{"r1"}) {
		t.Error("PIL-095", k, err)
	}
	m, err := ParseMessages([]byte(`{"threadId":"t1"}`))
	if err != nil || m != (MessagesCommand{"t1"}) {
		t.Error("PIL-155", m, err)
	}
}

// What a client sent is shown back to it short, and as text that cannot be
// mistaken for more than it is.
func TestRefusalsAreShort(t *testing.T) {
	_, err := ParseCancel([]byte(`{"runId":"r1","` + strings.Repeat("k", 100_000) + `":1}`))
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Message) > 200 {
		t.Errorf("a message of %d bytes", len(e.Message))
	}
	if !jsontext.Value(errorObject(e)).IsValid() {
		t.Error("the error is no JSON")
	}
}

// BenchmarkLargestCommand reads a start command with all that it may hold.
func BenchmarkLargestCommand(b *testing.B) {
	one := `{"mediaType":"image/gif","data":"` + image(5<<20) + `"}`
	text := start(`,"input":"","attachments":[` + strings.Repeat(one+",", 7) + one + `]`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseStart(text); err != nil {
			b.Fatal(err)
		}
	}
}
