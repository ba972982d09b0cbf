package agui

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/agent"
)

// BenchmarkReaderDelta is the token path: one event of text.
func BenchmarkReaderDelta(b *testing.B) {
	b.ReportAllocs()
	a, err := New(Config{URL: "http://localhost"})
	if err != nil {
		b.Fatal(err)
	}
	r := newReader(a, &agent.Call{}, func(agent.Event) error { return nil })
	data := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"token "}`)
	for b.Loop() {
		if _, err := r.event(data); err != nil {
			b.Fatal(err)
		}
	}
}
