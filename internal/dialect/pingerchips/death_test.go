package pingerchips_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// dying is a journal as an edge has it that dies at its nth write: before the
// store has it, or after, so that only the reply is lost. Nothing more goes
// either way then.
type dying struct {
	journal.Journal
	late bool // the last write is done

	mu   sync.Mutex
	left int
	dead chan struct{}
}

var errDead = errors.New("the edge is dead")

// write has f done unless the edge is dead.
func (d *dying) write(f func() error) error {
	d.mu.Lock()
	if d.left <= 0 {
		d.mu.Unlock()
		return errDead
	}
	d.left--
	last := d.left == 0
	d.mu.Unlock()
	if !last {
		return f()
	}
	if d.late {
		_ = f()
	}
	close(d.dead)
	return errDead
}

func (d *dying) gone() error {
	select {
	case <-d.dead:
		return errDead
	default:
		return nil
	}
}

func (d *dying) Append(ctx context.Context, q journal.Append) (out journal.Appended, err error) {
	err = d.write(func() (err error) { out, err = d.Journal.Append(ctx, q); return err })
	return out, err
}

func (d *dying) Commit(ctx context.Context, q journal.Commit) (out journal.Committed, err error) {
	err = d.write(func() (err error) { out, err = d.Journal.Commit(ctx, q); return err })
	return out, err
}

func (d *dying) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	if err := d.gone(); err != nil {
		return journal.Snapshot{}, err
	}
	return d.Journal.Load(ctx, q)
}

func (d *dying) Follow(key chat.Key, f func(journal.Notice)) func() {
	return d.Journal.Follow(key, func(n journal.Notice) {
		if d.gone() == nil {
			f(n)
		}
	})
}

func (d *dying) Beat(ctx context.Context, boot string, owned []journal.Owned) ([]journal.Owned, error) {
	if err := d.gone(); err != nil {
		return nil, err
	}
	return d.Journal.Beat(ctx, boot, owned)
}

func (d *dying) Claim(ctx context.Context, q journal.Claim) (uint64, journal.Rev, journal.Result, error) {
	if err := d.gone(); err != nil {
		return 0, journal.Rev{}, journal.OK, err
	}
	return d.Journal.Claim(ctx, q)
}

// Invariant 8, PIN-182, PIN-187: wherever an edge dies, what it had acknowledged
// is there, what it had shown is what the log says, and an end has all four slots
// or none.
func TestAnEdgeDiesAnywhere(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			journals := store.open(t)
			two := on(t, journals[1], nil)
			n := 0
			rapid.Check(t, func(r *rapid.T) {
				if n++; n > deaths {
					return
				}
				d := &dying{
					Journal: journals[0], late: rapid.Bool().Draw(r, "after the write"),
					left: rapid.IntRange(1, 40).Draw(r, "writes"), dead: make(chan struct{}),
				}
				diesIn(t, r, on(t, d, nil), two, d, fmt.Sprint("t", n))
			})
		})
	}
}

const deaths = 10

func diesIn(t *testing.T, r *rapid.T, one, two *site, d *dying, thread string) {
	caps := []string{"chat:subscribe:*", "chat:publish:user_message:*", "chat:publish:cancel_any:*", "chat:publish:tool_approval:*"}
	v := two.joinAs(thread, two.token("bob", caps...))
	w := one.joinAs(thread, one.token("ann", caps...))
	sent := map[int]string{}      // by ref: the message
	cancelled := map[int]string{} // by ref: the run
	last := ""
	for step := 0; d.gone() == nil && step < 200; step++ {
		id := fmt.Sprintf("%s-m%d", thread, step)
		switch rapid.IntRange(0, 5).Draw(r, "what") {
		case 0, 1, 2:
			text := rapid.SampledFrom([]string{"hi", "some words", "words /slow", "/ask", "/tool x /think"}).Draw(r, "text")
			sent[w.ask("send", fmt.Sprintf(`{"messageId":%q,"runId":"r-%s","text":%q}`, id, id, text))] = id
			last = "r-" + id
		case 3:
			cancelled[w.ask("cancel", `{"runId":`+quote(last)+`}`)] = last
		case 4:
			sent[w.ask("edit", fmt.Sprintf(`{"messageId":"%s-m0","newMessageId":%q,"runId":"r-%s","text":"again"}`, thread, id, id))] = id
		default: // lets something happen
			select {
			case <-d.dead:
			case <-w.bell:
			case <-time.After(20 * time.Millisecond):
			}
		}
		if step%8 == 7 { // and never runs far ahead
			select {
			case <-d.dead:
			case <-time.After(60 * time.Millisecond):
			}
			for k := range v.live(t) {
				if rapid.Bool().Draw(r, "ends") {
					v.call("cancel", `{"runId":`+quote(k)+`}`)
				}
			}
		}
	}
	<-d.dead
	// What it had still to say: the last write may be one that it acknowledges.
	for quiet := false; !quiet; {
		select {
		case <-w.bell:
		case <-time.After(50 * time.Millisecond):
			quiet = true
		}
	}
	old := newClient(t, thread+" before")
	w.conn.close() // which is when the process is gone for its clients
	old.frames(w.all())
	// On the other edge it goes on from what it had seen.
	back := newClient(t, thread+" back")
	back.resumes(old)
	b := two.joinAs(thread, two.token("ann", caps...), after(old.log))
	back.frames(b.all())
	for log, entry := range old.logs {
		if log == 0 {
			t.Fatal("an entry without a number")
		}
		back.logs[log] = entry
	}
	has := map[string]bool{}
	for _, n := range b.ok("tree:get", `{"limit":1000}`).Nodes {
		has[n.MessageID] = true
	}
	for _, f := range w.all() {
		if id := sent[f.ref]; id != "" && f.ok && !has[id] {
			t.Fatalf("PIN-187 invariant 8: %s was acknowledged and is not there", id)
		}
	}
	// What was left of its runs ends as any other.
	all := &visitor{w: v, c: newClient(t, thread+" who watched")}
	for live := b.live(t); len(live) > 0; live = b.live(t) {
		for run := range live {
			b.call("cancel", `{"runId":`+quote(run)+`}`)
		}
	}
	all.until(t, "the end of all runs", all.idle)
	for log, entry := range back.logs {
		if other, ok := all.c.logs[log]; ok && other != entry {
			t.Fatalf("invariant 8: entry %d was shown as\n%s\nand is\n%s", log, entry, other)
		}
	}
	for _, f := range w.all() {
		if run := cancelled[f.ref]; run != "" && f.ok && infoOf(t, all.c, run).Status != "cancelled" {
			t.Fatalf("PIN-137 %s was acknowledged to be cancelled and is %s", run, all.c.slots["run:"+run])
		}
	}
	for run, n := range all.c.ends {
		if n != 1 {
			t.Fatalf("PIN-200 run %s ended %d times", run, n)
		}
	}
	answered := map[string]bool{}
	for _, n := range b.ok("tree:get", `{"limit":1000}`).Nodes {
		if n.Role == "assistant" {
			answered[n.RunID] = true
		}
	}
	for _, slots := range all.c.states { // whoever was active has an answer, in the same entry
		for k, info := range slots {
			if run, ok := strings.CutPrefix(k, "run:"); ok && strings.Contains(info, `"status":"active"`) && !answered[run] {
				t.Fatalf("PIN-182 invariant 8: %s was active and has ended without an answer", run)
			}
		}
	}
	v.conn.close()
	b.conn.close()
}

// live are the runs that a window is shown to live.
func (w *window) live(t *testing.T) map[string]bool {
	t.Helper()
	w.ok("view:get", `{}`)
	c, list := newClient(t, "live"), w.all()
	for list[0].event != "snapshot" { // what was replayed
		list = list[1:]
	}
	c.frames(list)
	live := map[string]bool{}
	for k, info := range c.slots {
		if run, ok := strings.CutPrefix(k, "run:"); ok && strings.Contains(info, `"endedAt":null`) {
			live[run] = true
		}
	}
	return live
}
