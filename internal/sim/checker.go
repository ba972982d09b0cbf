package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// checker holds the history to what must always hold.
type checker struct {
	w        *world
	commits  map[journal.CommandID]*commitment
	acks     []ack
	accepts  []acceptance
	calls    map[string]bool
	spoken   map[string]string // by part: all that an agent said
	orphaned map[string]uint64
}

// commitment is a commit that the store has carried out.
type commitment struct {
	t     *thread
	epoch uint64
	lost  bool
	what  string
}

// ack is an acknowledgement that an edge has seen; room is the thread's, if it
// was open there, so that the edge can know what it was told.
type ack struct {
	p    *proc
	c    *commitment
	room *openRoom
	// behind is how often the room had fallen behind the floor, where nothing
	// can be proved but everybody comes back for a snapshot.
	behind int
}

type acceptance struct {
	t   *thread
	run string
	by  *commitment
	// holder is who owned the run when a failover lost its acceptance.
	holder *proc
	born   uint64
}

func newChecker(w *world) *checker {
	return &checker{
		w: w, commits: map[journal.CommandID]*commitment{}, calls: map[string]bool{},
		spoken: map[string]string{}, orphaned: map[string]uint64{},
	}
}

// committed: a command is carried out once.
func (k *checker) committed(c journal.Commit, t *thread) {
	if old := k.commits[c.Command]; old != nil && !old.lost {
		k.w.fail("own success: a command was carried out twice on %s", t.key.Thread)
	}
	if old := k.commits[c.Command]; old != nil {
		old.lost, old.epoch = false, t.l.Meta.Epoch // a late copy brought it back
		return
	}
	k.commits[c.Command] = &commitment{t: t, epoch: t.l.Meta.Epoch, what: c.Entries[0].Kind.String() + " " + c.Entries[0].Run}
	for _, e := range c.Entries {
		if e.Kind == chat.KindRunPending {
			k.accepts = append(k.accepts, acceptance{t: t, run: e.Run, by: k.commits[c.Command]})
		}
	}
}

func (k *checker) lostCommand(id journal.CommandID) {
	if c := k.commits[id]; c != nil {
		c.lost = true
	}
}

// acknowledged: what is acknowledged is in the store.
func (k *checker) acknowledged(p *proc, c *conductor.Command, res journal.Result) {
	info := k.commits[c.ID]
	if info == nil {
		k.w.fail("durable: an acknowledged command was never stored")
		return
	}
	// An answer that says "done before" has no positions: if the store then
	// loses the commit and newer ones overtake its revision before the room has
	// looked, this edge cannot know. Those that were shown it can.
	if r := p.room(c.Key); r != nil && r.seq.Ready && res == journal.Done {
		k.acks = append(k.acks, ack{p, info, r, r.behind})
	}
}

// holders notes who owns which run, before a failover.
func (k *checker) holders() {
	for i := range k.accepts {
		a := &k.accepts[i]
		if a.by.lost && !a.t.hasEnded(a.run) {
			continue // being restored
		}
		a.holder = nil
		if a.t.truth.Run(a.run) == nil {
			continue
		}
		for _, e := range k.w.edges {
			if e.p != nil && slices.ContainsFunc(e.p.owners, func(x *attempt) bool { return x.o.Run == a.run }) {
				a.holder, a.born = e.p, a.t.truth.Born
			}
		}
	}
}

// settled: an owner that was told that its run ended or waits is not its owner
// any more, also where a failover lost that while the answer was under way: it
// holds nothing that it could restore.
func (k *checker) settled(x *attempt) {
	for i := range k.accepts {
		if a := &k.accepts[i]; a.run == x.o.Run && a.holder == x.p {
			a.holder = nil
		}
	}
}

// vanished: a thread of which all was lost has no runs to restore.
func (k *checker) vanished() {
	for i := range k.accepts {
		if a := &k.accepts[i]; !a.t.l.Exists {
			a.holder = nil
		}
	}
}

// refused: one's own success is success, however often its reply was lost.
func (k *checker) refused(_ *proc, c *conductor.Command, err error) {
	k.w.count("refused: " + err.Error())
	if info := k.commits[c.ID]; info != nil && !info.lost && !info.t.dead {
		k.w.fail("own success: a command that was carried out was told %q", err)
	}
}

// cancelled: who is told that a run was stopped finds it ended.
func (k *checker) cancelled(t *thread, run string, r result) {
	if t.truth.Run(run) != nil && r.falls == k.w.store.falls && !t.dead {
		k.w.fail("one winner: %s was said to be stopped and is live", run)
	}
}

// called: an agent is called once an attempt, and never again for a segment in
// which it has spoken.
func (k *checker) called(a *attempt) {
	t := k.w.store.thread(a.o.Key)
	k.w.count("call")
	key := a.o.Run + "/" + a.p.boot + "/" + strconv.FormatUint(a.o.Fence, 10) + "/" + a.begun.Segment() + "/" + strconv.Itoa(k.w.store.falls)
	if k.calls[key] {
		k.w.fail("one call: %s is called twice in one attempt", a.o.Run)
	}
	k.calls[key] = true
	m := t.l.Meta.Runs[a.o.Run]
	if r := t.truth.Run(a.o.Run); r != nil && r.Streamed && m.Fence == a.o.Fence && m.Owner == a.p.boot {
		k.w.fail("one call: %s is called again after its agent spoke", a.o.Run)
	}
}

func (k *checker) said(a *attempt, entries []chat.Entry) {
	for _, e := range entries {
		if b, ok := e.Body.(*chat.DeltaBody); ok {
			k.spoken[b.Part] += b.Text
		}
	}
	t := k.w.store.thread(a.o.Key)
	m, live := t.l.Meta.Runs[a.o.Run]
	if live && m.Fence == a.o.Fence {
		a.orphan = 0
		return
	}
	// The run is another's or has ended: the owner hears of it by its next
	// append or beat, while its link is well.
	e := a.p.e
	if e.cut || k.w.store.down {
		return
	}
	if a.orphan == 0 {
		a.orphan = k.w.now
	} else if k.w.now-max(a.orphan, e.whole, k.w.store.upSince) > 4000 {
		k.w.fail("fence: the agent of %s still speaks 4 s after its edge lost the run", a.o.Run)
	}
}

// claimed: an outage of the store ends nobody's run.
func (k *checker) claimed(t *thread, q journal.Claim, before journal.RunMeta) {
	for _, e := range k.w.edges {
		if e.p == nil || e.p.boot != before.Owner || e.cut {
			continue
		}
		// Well for so long that only an outage of the store can have kept it
		// from renewing.
		down := k.w.store.downAt
		if k.w.now-e.whole < 16_000 && (down < k.w.now-20_000 || e.whole > down-3000) {
			continue
		}
		for _, a := range e.p.owners {
			if a.o.Run == q.Run && a.o.Fence == before.Fence {
				k.w.fail("patience: %s was taken from an edge that lives and is connected", q.Run)
			}
		}
	}
}

// shown: each member gets each record once and in order, stored before.
func (k *checker) shown(c *client, r *chat.Record, epoch uint64) {
	t := k.w.store.thread(c.key)
	switch {
	case t.states[place{r.Pos, r.Tag}] == nil:
		k.w.fail("stored: %s was shown record %d of %s that was never stored", c.name, r.Pos, c.key.Thread)
	case epoch != c.epoch || t.epochs[r.Tag] != epoch:
		k.w.fail("epoch: %s in epoch %x was shown record %d of another", c.name, c.epoch>>48, r.Pos)
	case r.Pos != c.st.Pos+1:
		k.w.fail("order: %s at %d was shown %d", c.name, c.st.Pos, r.Pos)
	case r.Prev != c.st.Tag:
		k.w.fail("loss: %s was shown record %d, which follows one that it was not shown", c.name, r.Pos)
	case r.N > 0 && r.Seq != nextSeq(c.st, r):
		k.w.fail("seq: %s was shown envelope %d of %s, expected %d", c.name, r.Seq, r.Run, nextSeq(c.st, r))
	}
}

// nextSeq is the number that the record's first envelope must have.
func nextSeq(st *chat.State, r *chat.Record) uint64 {
	run := st.Run(r.Run)
	if r.Opens || run == nil {
		return 1
	}
	return run.LastSeq + 1
}

// whole: a member's fold is the store's at that record, wherever it came in.
func (k *checker) whole(c *client) {
	t := k.w.store.thread(c.key)
	want := t.states[place{c.st.Pos, c.st.Tag}]
	if want == nil {
		k.w.fail("stored: %s is shown %s at %d with a tag that was never stored", c.name, c.key.Thread, c.st.Pos)
	} else if diff := differ(c.st, want); diff != "" {
		k.w.fail("fold: %s sees %s at %d otherwise than one who watched from the start: %s", c.name, c.key.Thread, c.st.Pos, diff)
	}
}

// recovered: some time after the last fault no run is without a living owner.
func (k *checker) recovered() {
	for key, fence := range k.ownerless() {
		k.orphaned[key] = fence
	}
	k.w.after(1000, func() {
		for key, fence := range k.ownerless() {
			if was, ok := k.orphaned[key]; ok && was == fence {
				k.w.fail("one terminal: %s has no owner and has not ended %d ms after the last fault", key, recovery)
			}
		}
	})
}

func (k *checker) ownerless() map[string]uint64 {
	runs := map[string]uint64{}
	for _, t := range k.w.store.threads {
		for id, m := range t.l.Meta.Runs {
			r := t.truth.Run(id)
			paused := m.Owner == "" && r != nil && r.Status == chat.RunSuspended
			if !paused && !k.owned(id, m) {
				runs[id] = m.Fence
			}
		}
	}
	return runs
}

func (k *checker) owned(run string, m journal.RunMeta) bool {
	for _, e := range k.w.edges {
		if e.p == nil || e.p.boot != m.Owner {
			continue
		}
		for _, a := range e.p.owners {
			if a.o.Run == run && a.o.Fence == m.Fence {
				return true
			}
		}
	}
	return false
}

// final holds at the end, when all has been quiet for long.
func (k *checker) final() {
	w := k.w
	for _, t := range w.store.threads {
		k.thread(t)
		for _, r := range t.truth.Runs {
			w.fail("one terminal: %s of %s never ended (%s, %+v)", r.ID, t.key.Thread, r.Status, t.l.Meta.Runs[r.ID])
		}
	}
	for _, a := range k.accepts {
		switch {
		case a.t.dead || a.t.hasEnded(a.run):
		case !a.by.lost:
			w.fail("one terminal: accepted run %s never ended", a.run)
		case a.holder != nil && !a.holder.dead && a.t.truth.Born == a.born:
			w.fail("one terminal: %s was lost while %s held it, and was not restored", a.run, a.holder.boot)
		}
	}
	for _, a := range k.acks {
		if t := a.c.t; a.c.lost && !a.p.dead && a.p.room(t.key) == a.room && a.behind == a.room.behind && t.l.Exists && !t.dead && t.l.Meta.Epoch == a.c.epoch {
			w.fail("announced: %s has lost a commit (%s) that %s saw acknowledged, and no new epoch says so", t.key.Thread, a.c.what, a.p.boot)
		}
	}
	for _, c := range w.clients {
		t := w.store.thread(c.key)
		switch {
		case !t.l.Exists:
			if c.member {
				w.fail("loss: %s still watches %s, which is gone", c.name, c.key.Thread)
			}
		case !c.member:
			w.fail("attach: %s cannot watch %s", c.name, c.key.Thread)
		case c.epoch != t.l.Meta.Epoch:
			w.fail("epoch: %s was not told of the epoch of %s", c.name, c.key.Thread)
		default:
			if diff := differ(c.st, t.truth); diff != "" {
				w.fail("loss: in the end %s sees %s otherwise than the store: %s", c.name, c.key.Thread, diff)
			}
		}
	}
	for _, e := range w.edges {
		for _, a := range e.p.owners {
			w.fail("bounds: %s still holds %s, fence %d, phase %d", e.p.boot, a.o.Run, a.o.Fence, a.o.Phase)
		}
	}
}

// differ says where two states of a thread differ, or "".
func differ(a, b *chat.State) string {
	switch {
	case a.Pos != b.Pos || a.Tag != b.Tag || a.Log != b.Log:
		return "numbers"
	}
	return differInContent(a, b)
}

func differInContent(a, b *chat.State) string {
	if a.Exists != b.Exists || a.Head != b.Head || a.Upstream != b.Upstream || a.Chunks != b.Chunks || string(a.AgentState) != string(b.AgentState) {
		return "thread"
	}
	if len(a.Tail) != len(b.Tail) || len(a.Runs) != len(b.Runs) || len(a.Todos) != len(b.Todos) {
		return "lengths"
	}
	for i, m := range a.Tail {
		n := b.Tail[i]
		if m == n {
			continue
		}
		if m.ID != n.ID || m.Status != n.Status || m.Parent != n.Parent || differInParts(m.Parts, n.Parts) {
			return "message " + m.ID
		}
	}
	for i, r := range a.Runs {
		s := b.Runs[i]
		if r.ID != s.ID || r.Status != s.Status || r.LastSeq != s.LastSeq || (r.Stop == nil) != (s.Stop == nil) ||
			strings.Join(r.Segments, " ") != strings.Join(s.Segments, " ") || differInParts(r.Parts, s.Parts) ||
			len(r.Interrupts) != len(s.Interrupts) || len(r.Subagents) != len(s.Subagents) || string(r.State) != string(s.State) {
			return "run " + r.ID
		}
		for j, q := range r.Interrupts {
			if q.ID != s.Interrupts[j].ID || q.Status != s.Interrupts[j].Status {
				return "interrupt " + q.ID
			}
		}
	}
	return ""
}

func differInParts(a, b []*chat.Part) bool {
	if len(a) != len(b) {
		return true
	}
	for i, p := range a {
		q := b[i]
		if p != q && (p.ID != q.ID || string(p.Text) != string(q.Text) || p.Open != q.Open || p.Result != q.Result) {
			return true
		}
	}
	return false
}
