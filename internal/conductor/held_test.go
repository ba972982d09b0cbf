package conductor

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// TestHeld: what an owner holds of its run is what its entries one by one make.
func TestHeld(t *testing.T) {
	run := &chat.Run{ID: "r", Status: chat.RunActive, Answer: "a", Segments: []string{"s"}}
	h := held{state: &chat.State{Runs: []*chat.Run{run}}}
	want := h.state.Clip()
	add := func(k chat.Kind, b chat.Body) {
		e := chat.NewEntry(k, "r", b)
		h.add(e)
		want = want.Apply(&chat.Record{Entry: e})
	}
	for i := range 200 {
		part := "p" + strconv.Itoa(i)
		add(chat.KindTextStart, &chat.BlockBody{Part: part})
		for j := range i % 7 {
			add(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: strconv.Itoa(j)})
		}
		if i%50 == 0 {
			add(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: strings.Repeat("x", heldBytes)})
			add(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: "y"})
			if got := h.run("r"); !reflect.DeepEqual(got, want.Run("r")) {
				t.Fatalf("after %d parts it is another run", i)
			}
		}
		add(chat.KindReasoningStart, &chat.BlockBody{Part: "q" + part})
		add(chat.KindReasoningDelta, &chat.DeltaBody{Part: "q" + part, Text: "a"})
		add(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: "b"})
		add(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: ""})
		add(chat.KindTextEnd, &chat.BlockBody{Part: part})
	}
	if got := h.run("r"); !reflect.DeepEqual(got, want.Run("r")) {
		t.Error("it is another run")
	}
	if len(h.said) > 0 || len(h.text) > 0 {
		t.Error("something is left to fold")
	}
}
