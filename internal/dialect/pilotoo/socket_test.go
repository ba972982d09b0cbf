package pilotoo_test

import (
	"testing"
	"time"
)

func TestAnnouncementComesFirstAndOnce(t *testing.T) {
	s := serve(t, nil)
	began := time.Now()
	for range 2 { // PIL-015: a connection that comes back is announced to anew
		w := s.dial(t, `{"token":"ann"}`)
		list := w.until("protocol:hello", isEvent("protocol:hello"))
		if len(list) != 2 || list[0].kind != "connect" {
			t.Fatalf("PIL-012 PIL-014 before the announcement came %v", list)
		}
		if string(list[1].data) != `{"protocol":{"major":1,"minor":17},"minClientMajor":1}` {
			t.Errorf("PIL-010 PIL-013 the announcement is %s", list[1].data)
		}
		if time.Since(began) > 2*time.Second {
			t.Error("PIL-016 the announcement took longer than a client waits")
		}
		w.call("thread:messages", `{"threadId":"nowhere"}`)
		hellos := 0
		for _, p := range w.all() {
			if isEvent("protocol:hello")(p) {
				hellos++
			}
		}
		if hellos != 1 {
			t.Errorf("PIL-011 %d announcements", hellos)
		}
		w.close()
	}
}

func TestOneWindowSeesItsRunWhole(t *testing.T) {
	s := serve(t, nil)
	w := s.open(t, "ann")
	for i := range 30 {
		thread := s.thread(t, "ann")
		from := w.count()
		r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":"m1","input":"one two"}`)
		if !r.OK || r.RunID == "" {
			t.Fatalf("PIL-017 PIL-026 %s", r.raw)
		}
		list := w.after(from, "RUN_FINISHED", of(r.RunID, "RUN_FINISHED"))
		if list[0].kind != "ack" {
			t.Fatalf("PIL-159 before the answer came %s %s", list[0].name, list[0].data)
		}
		for n, e := range envelopesOf(list, r.RunID) {
			if e.Sequence != n+1 || e.ThreadID != thread {
				t.Fatalf("PIL-138 PIL-140 PIL-144 turn %d: envelope %d has number %d", i, n+1, e.Sequence)
			}
		}
	}
}
