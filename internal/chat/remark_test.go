package chat

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestRemarks: lists add up within a bound, of anything else the last counts, and
// states that were returned stay as they are.
func TestRemarks(t *testing.T) {
	run := &Run{}
	say := func(name, value string) {
		next := *run
		next.remark(&CustomBody{Name: name, Value: jsontext.Value(value)})
		run = &next
	}
	got := func(name string) string {
		var b strings.Builder
		for _, v := range run.Remarked(name) {
			b.Write(v)
		}
		return b.String()
	}
	say("citations", `[1]`)
	say("directive", `{"a":1}`)
	was := run
	say("citations", `[2]`)
	say("directive", `null`)
	say("other", `{}`)
	if got("citations") != `[1][2]` || got("directive") != "null" || len(run.Remarks) != 2 {
		t.Errorf("SMO-121 SMO-122 %s", run.Remarks)
	}
	say("citations", `["`+strings.Repeat("x", maxRemark)+`"]`)
	say("citations", `[3]`)
	if got("citations") != `[1][2][3]` {
		t.Errorf("SMO-121 a list beyond the bound: %.40s", got("citations"))
	}
	for range 2 * maxRemarks {
		say("citations", `[]`)
	}
	if n := len(run.Remarked("citations")); n != maxRemarks {
		t.Errorf("SMO-121 %d lists", n)
	}
	if run = was; got("citations") != `[1]` || got("directive") != `{"a":1}` {
		t.Error("a state that was returned has changed")
	}
}
