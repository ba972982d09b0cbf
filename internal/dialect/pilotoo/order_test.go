package pilotoo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

// late is a desk whose replies come when what they cause has long happened:
// the worst order that a client could be exposed to.
type late struct {
	dialect.Desk
	t *testing.T
	// during happens while a history is read.
	during func()
}

// ended waits for the end of the thread's next segment after do.
func (d *late) ended(thread string, do func() error) error {
	m := newMember()
	seat, err := d.Desk.Join(context.Background(), person("ann"), thread, records{}, m)
	if err != nil {
		return err
	}
	defer seat.Leave()
	seat.Release()
	if err := do(); err != nil {
		return err
	}
	for deadline := time.After(patience); ; {
		select {
		case e := <-m.got:
			if k := e.(*chat.Record).Kind; k == chat.KindRunEnd || k == chat.KindRunSuspended {
				return nil
			}
		case <-deadline:
			d.t.Error("the segment did not end")
			return nil
		}
	}
}

func (d *late) Start(ctx context.Context, p identity.Principal, c dialect.Start) (out dialect.Started, err error) {
	err = d.ended(c.Thread, func() (err error) { out, err = d.Desk.Start(ctx, p, c); return err })
	return out, err
}

func (d *late) Answer(ctx context.Context, p identity.Principal, c dialect.Answer) (out dialect.Answered, err error) {
	err = d.ended(c.Thread, func() (err error) { out, err = d.Desk.Answer(ctx, p, c); return err })
	return out, err
}

func (d *late) History(ctx context.Context, p identity.Principal, thread string, st *chat.State, limit int) ([]*chat.Message, error) {
	if d.during != nil {
		d.during()
	}
	return d.Desk.History(ctx, p, thread, st, limit)
}

// serveLate puts a late desk before a whole edge.
func serveLate(t *testing.T) (base, s *site, desk *late) {
	base = serve(t, nil)
	desk = &late{Desk: base.hub.Desk(), t: t}
	server := pilotoo.NewServer(pilotoo.Options{Desk: desk})
	wire := socketio.NewServer(socketio.Options{}, server)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Accept(w, r, socketio.Accept{MaxPayload: 1 << 20, Value: &dialect.Visit{Site: guestSite{base.guests}, Creds: identity.FromRequest(r)}})
	}))
	t.Cleanup(func() {
		wire.Close()
		server.Close()
		h.Close()
	})
	return base, &site{url: h.URL, client: base.client, guests: base.guests}, desk
}

// PIL-159, PIL-168: the answer is first, however late it comes.
func TestAnswersComeBeforeWhatTheyCause(t *testing.T) {
	base, s, desk := serveLate(t)
	thread := base.thread(t, "ann")
	w := s.open(t, "ann")
	first := func(name string, from int, run string) []envelope {
		t.Helper()
		list := w.after(from, "the end", of(run, "RUN_FINISHED"))
		if list[0].kind != "ack" {
			t.Errorf("%s: before the answer came %s", name, list[0].data)
		}
		all := envelopesOf(list, run)
		for i, e := range all {
			if e.Sequence != i+1 {
				t.Fatalf("PIL-144 PIL-140 %s: %s is envelope %d", name, e.raw, i+1)
			}
		}
		return all
	}

	from := w.count()
	run := w.start(thread, "m1", "one two /ask")
	list := first("PIL-159 the start of one who had not joined", from, run)
	asked := list[len(list)-3].Event.InterruptID

	from = w.count()
	r := w.call("run:resume", w.resume(thread, asked, `true`))
	first("PIL-159 an answer", from, r.RunID)

	from = w.count()
	run = w.start(thread, "m2", "one two")
	first("PIL-159 the start of one who had joined", from, run)

	for _, name := range []string{"one that had joined", "one that comes anew"} {
		if name != "one that had joined" {
			w = s.open(t, "ann")
		}
		var segment string
		desk.during = func() {
			desk.during = nil
			m := &chat.Message{Role: chat.User, ID: "during " + name, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("x")}}}
			out, err := desk.Start(t.Context(), person("ann"), dialect.Start{Thread: thread, Message: m})
			if err != nil {
				t.Error(err)
			}
			segment = out.Segment
		}
		from = w.count()
		h := w.history(thread)
		for _, m := range h.Messages {
			if m.ID == "during "+name {
				t.Errorf("PIL-156 the history of %s is of another moment than its room", name)
			}
		}
		first("PIL-168 PIL-156 the history of "+name, from, segment)
	}
}

// Commands that wait are bounded in bytes: each may be as large as eight
// pictures.
func TestWaitingCommandsAreBounded(t *testing.T) {
	base, s, desk := serveLate(t)
	thread := base.thread(t, "ann")
	w := s.open(t, "ann")
	begun, over := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	t.Cleanup(end)
	desk.during = func() {
		desk.during = nil
		close(begun)
		<-over
	}
	first := w.ask("thread:messages", `{"threadId":`+quote(thread)+`}`)
	<-begun
	large := w.resume(thread, "i", `"`+strings.Repeat("x", 200<<10)+`"`)
	for range 8 {
		last := w.ask("run:resume", large)
		if last > first+5 {
			w.until("a refusal", isAck(last))
		}
	}
	end()
	refused := 0
	for id := first + 1; id <= first+8; id++ {
		list := w.until("an answer", isAck(id))
		if strings.Contains(string(list[len(list)-1].data), "are waiting") {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("PIL-187 %d of 8 commands of 200 KiB were refused, want 3", refused)
	}
	w.history(thread) // PIL-188
}
