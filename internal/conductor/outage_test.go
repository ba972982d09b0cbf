package conductor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// An outage of the store is no flood in the log.
func TestAnOutageIsTwoLines(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, nil))
	o := outage{what: "nothing works"}
	o.note(l, nil)
	for range 2 {
		for range 30 {
			o.note(l, errCut)
		}
		o.note(l, nil)
		o.note(l, nil)
	}
	if n := strings.Count(b.String(), "\n"); n != 4 || strings.Count(b.String(), "failures=30") != 2 {
		t.Errorf("the log has\n%s", b.String())
	}
}
