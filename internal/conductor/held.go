package conductor

import "github.com/parlance-gateway/parlance/internal/chat"

// Bounds of what is said and not folded yet.
const (
	heldEntries = 64
	heldBytes   = 64 << 10
)

// held is a run as its owner wrote it, for the case that the store loses some of
// it. Tokens are put together and folded in one go, since they are many and it is
// seldom asked for.
type held struct {
	state *chat.State
	said  []chat.Entry
	text  []byte // of the last of said, if that is a delta
}

// add takes what the owner wrote.
func (h *held) add(e chat.Entry) {
	d, delta := e.Body.(*chat.DeltaBody)
	if n := len(h.said); n > 0 && delta {
		last, ok := h.said[n-1].Body.(*chat.DeltaBody)
		if ok && last.Part == d.Part && h.said[n-1].Kind == e.Kind && len(h.text) < heldBytes {
			h.text = append(h.text, d.Text...)
			return
		}
	}
	h.seal()
	if len(h.said) >= heldEntries {
		h.fold()
	}
	if h.said = append(h.said, e); delta {
		h.text = append(h.text, d.Text...)
	}
}

// seal gives the last delta all of its text.
func (h *held) seal() {
	if len(h.text) == 0 {
		return
	}
	last := &h.said[len(h.said)-1]
	last.Body = &chat.DeltaBody{Part: last.Body.(*chat.DeltaBody).Part, Text: string(h.text)}
	h.text = h.text[:0]
}

func (h *held) fold() {
	h.seal()
	for _, e := range h.said {
		h.state = h.state.Apply(&chat.Record{Entry: e})
	}
	clear(h.said)
	h.said = h.said[:0]
}

// active says that the run's segment was opened.
func (h *held) active(run string, at int64) {
	h.fold()
	h.state = h.state.Apply(&chat.Record{At: at, Entry: chat.NewEntry(chat.KindRunActive, run, &chat.RunActiveBody{})})
}

// run returns the run as it was written, or nil.
func (h *held) run(id string) *chat.Run {
	h.fold()
	return h.state.Run(id)
}
