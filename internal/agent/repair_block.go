package agent

import (
	"slices"
	"strconv"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// lane holds the blocks of one kind, of which one is open at a time: a second
// one waits until the first has ended (PIL-114).
type lane struct {
	start, delta, end chat.Kind
	mark              string
	next              int // index of the next part of this kind in the run

	open    *block
	adopted *block // open since an earlier attempt at the segment, until the agent goes on with it
	last    string // the part that began last in this segment
	waiters []*block
	waiting int // bytes of text in waiters
	byKey   map[string]*block
	foreign map[string]bool // blocks of subagents, which the answer leaves out
}

// block is a text or reasoning block of the agent.
type block struct {
	part      string
	held      string // half a character, waiting for its other half
	text      []byte // of a block that waits
	encrypted string
	ended     bool
}

func newLane(start, delta, end chat.Kind, mark string) lane {
	return lane{
		start: start, delta: delta, end: end, mark: mark,
		byKey: make(map[string]*block), foreign: make(map[string]bool),
	}
}

// adopt takes over the block that an earlier attempt at the segment left open.
// What the agent calls it is not known: the first block that it speaks of is this.
func (l *lane) adopt(p *chat.Part, segment int) {
	if p.Open && p.Segment == segment {
		l.adopted = &block{part: p.ID}
		l.open, l.last = l.adopted, p.ID
	}
}

func (r *Repair) block(l *lane, ev Event) []chat.Entry {
	k := key(ev.ID)
	if ev.Subagent != "" {
		if ev.Kind == l.start && len(l.foreign) < maxForeign {
			l.foreign[k] = true
		}
		if ev.Kind == l.end {
			delete(l.foreign, k)
		}
		r.counts.Dropped++
		return nil
	}
	if ev.Kind == l.start {
		delete(l.foreign, k)
	} else if l.foreign[k] {
		if ev.Kind == l.end {
			delete(l.foreign, k)
		}
		r.counts.Dropped++
		return nil
	}
	if l.adopted != nil && l.byKey[k] == nil {
		l.byKey[k], l.adopted = l.adopted, nil
	}
	b := l.byKey[k]
	live := b != nil && !b.ended
	switch ev.Kind {
	case l.start:
		if live {
			r.counts.Dropped++
			return nil
		}
		out, _ := r.openBlock(l, k)
		if ev.Rewrite && l == &r.text && len(out) == 1 {
			out[0].Body.(*chat.BlockBody).Replaces = lastText(r.run)
		}
		return out
	case l.delta:
		if ev.Text == "" {
			r.counts.Dropped++
			return nil
		}
		var out []chat.Entry
		if !live {
			r.counts.Mended++
			if out, b = r.openBlock(l, k); b == nil {
				return out
			}
		}
		if ev.Rewrite && live && l == &r.text {
			out = r.rewrite(l, b)
		}
		return append(out, r.write(l, b, ev.Text)...)
	}
	if !live {
		r.counts.Dropped++
		return nil
	}
	if b != l.open {
		b.ended = true
		return nil
	}
	return r.advance(l)
}

// openBlock begins a block or lets it wait; nil when the run is full.
func (r *Repair) openBlock(l *lane, k string) ([]chat.Entry, *block) {
	if !r.part() {
		return nil, nil
	}
	b := &block{part: r.run.Answer}
	if l.next > 0 || l.mark != "-" {
		b.part += l.mark + strconv.Itoa(l.next)
	}
	l.next++
	r.used[b.part] = true
	l.byKey[k] = b
	if l.open == nil {
		l.open, l.last = b, b.part
		return []chat.Entry{r.entry(l.start, &chat.BlockBody{Part: b.part})}, b
	}
	l.waiters = append(l.waiters, b)
	return r.relieve(l), b
}

// rewrite takes back what a block has said. What was shown cannot be told
// otherwise in deltas: its part ends, and another takes its place (PIL-222).
func (r *Repair) rewrite(l *lane, b *block) []chat.Entry {
	b.held = ""
	if b != l.open {
		l.waiting -= len(b.text)
		b.text = nil
		return nil
	}
	if !r.part() {
		return nil
	}
	old := b.part
	b.part = r.run.Answer + l.mark + strconv.Itoa(l.next)
	l.next++
	r.used[b.part] = true
	l.last = b.part
	return []chat.Entry{
		r.entry(l.end, &chat.BlockBody{Part: old}),
		r.entry(l.start, &chat.BlockBody{Part: b.part, Replaces: old}),
	}
}

// lastText is the part of an earlier segment that said something last, or "".
func lastText(run *chat.Run) string {
	for i := len(run.Parts) - 1; i >= 0; i-- {
		if p := run.Parts[i]; p.Type == chat.PartText && len(p.Text) > 0 {
			return p.ID
		}
	}
	return ""
}

// relieve ends the open block for the sake of those that wait, once they are
// too many: an agent that forgot an END must not silence what follows.
func (r *Repair) relieve(l *lane) []chat.Entry {
	var out []chat.Entry
	for l.open != nil && (len(l.waiters) > maxWaiters || l.waiting > maxWaiting) {
		r.counts.Mended++
		out = append(out, r.advance(l)...)
	}
	return out
}

func (l *lane) waits(b *block) bool { return slices.Contains(l.waiters, b) }

func (r *Repair) write(l *lane, b *block, text string) []chat.Entry {
	text, b.held = whole(b.held + text)
	text = r.take(text)
	if text == "" {
		return nil
	}
	if b == l.open {
		return r.deltas(l.delta, b.part, text)
	}
	b.text = append(b.text, text...)
	l.waiting += len(text)
	return r.relieve(l)
}

// deltas makes one record, or more where the text is long.
func (r *Repair) deltas(k chat.Kind, part, text string) []chat.Entry {
	var out []chat.Entry
	for text != "" {
		piece := cut(text, MaxDelta)
		text = text[len(piece):]
		out = append(out, r.entry(k, &chat.DeltaBody{Part: part, Text: piece}))
	}
	return out
}

// advance ends the open block and begins the next one that waits, and so on
// while those have ended too.
func (r *Repair) advance(l *lane) []chat.Entry {
	var out []chat.Entry
	for {
		b := l.open
		b.ended = true
		if tail := r.take(flush(b.held)); tail != "" {
			out = append(out, r.deltas(l.delta, b.part, tail)...)
		}
		b.held = ""
		out = append(out, r.entry(l.end, &chat.BlockBody{Part: b.part}))
		if l.open = nil; len(l.waiters) == 0 {
			return out
		}
		b, l.waiters = l.waiters[0], l.waiters[1:]
		l.open, l.last, l.waiting = b, b.part, l.waiting-len(b.text)
		out = append(out, r.entry(l.start, &chat.BlockBody{Part: b.part}))
		out = append(out, r.deltas(l.delta, b.part, string(b.text))...)
		b.text = nil
		if b.encrypted != "" {
			out = append(out, r.entry(chat.KindReasoningEncrypted, &chat.EncryptedBody{Part: b.part, Value: b.encrypted}))
		}
		if !b.ended {
			return out
		}
	}
}

func (r *Repair) endLane(l *lane) []chat.Entry {
	var out []chat.Entry
	for l.open != nil {
		r.counts.Mended++
		out = append(out, r.advance(l)...)
	}
	return out
}

// encrypted keeps an agent's opaque value with the part that it belongs to; a
// value without a part gets an empty reasoning part, since the agent needs it
// back.
func (r *Repair) encrypted(ev Event) []chat.Entry {
	if ev.Subagent != "" || ev.Text == "" || len(ev.Text) > maxEncrypted || r.size+len(ev.Text) > MaxAnswer {
		r.counts.Dropped++
		return nil
	}
	k, value := key(ev.ID), cleanText(ev.Text, maxEncrypted)
	r.size += len(value)
	entry := func(part string) chat.Entry {
		return r.entry(chat.KindReasoningEncrypted, &chat.EncryptedBody{Part: part, Value: value})
	}
	if c := r.calls.byKey[k]; c != nil && ev.Name == EncryptedCall {
		return []chat.Entry{entry(c.id)}
	}
	b, l := r.reasoning.byKey[k], &r.reasoning
	if b == nil {
		if t := r.text.byKey[k]; t != nil {
			b, l = t, &r.text
		}
	}
	if b == nil {
		out, b := r.openBlock(l, k)
		if b == nil {
			return out
		}
		b.encrypted = value
		if b != l.open {
			b.ended = true
			return out
		}
		return append(append(out, entry(b.part)), r.advance(l)...)
	}
	if l.waits(b) {
		b.encrypted = value
		return nil
	}
	return []chat.Entry{entry(b.part)}
}
