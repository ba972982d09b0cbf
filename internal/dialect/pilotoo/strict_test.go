package pilotoo_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// What cannot be a command is refused, to the sender alone, and harms nothing.
func TestOddMessages(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	other.history(thread)
	run := w.start(thread, "m1", "/slow")
	cases := []struct{ name, frame string }{
		{"PIL-008 a name that is no command", `["run:begin",{}]`},
		{"PIL-008 a name of the server's", `["run:event",{}]`},
		{"PIL-028 two arguments", `["run:cancel",{"runId":"r"},1]`},
		{"PIL-006 PIL-028 no argument", `["run:cancel"]`},
		{"PIL-006 null", `["run:cancel",null]`},
		{"PIL-006 an array", `["thread:messages",["t1"]]`},
		{"PIL-006 text", `["run:start","hello"]`},
		{"PIL-002 an unknown key", `["thread:messages",{"threadId":"t","after":1}]`},
		{"PIL-002 a key twice", `["thread:messages",{"threadId":"t","threadId":"u"}]`},
		{"PIL-007 an empty id", `["run:cancel",{"runId":""}]`},
		{"PIL-081 no answer", `["run:resume",{"threadId":"t","interruptId":"i"}]`},
	}
	for i, c := range cases {
		from := w.count()
		w.write("42" + c.frame)
		list := w.after(from, "protocol:error", isEvent("protocol:error"))
		if got := string(list[len(list)-1].data); !strings.HasPrefix(got, `{"code":"INVALID_COMMAND","message":"`) {
			t.Errorf("PIL-003 PIL-024 %s: %s", c.name, got)
		}
		id := 1000 + i
		w.write("42" + strconv.Itoa(id) + c.frame)
		list = w.until("the acknowledgement", isAck(id))
		if got := string(list[len(list)-1].data); !strings.Contains(got, `"ok":false,"error":{"code":"INVALID_COMMAND"`) || !strings.Contains(got, `},"code":"INVALID_COMMAND"`) {
			t.Errorf("PIL-026 PIL-159 %s: %s", c.name, got)
		}
	}
	// Beside its acknowledgement a run's command is answered by protocol:error,
	// a history by the acknowledgement alone (PIL-026, PIL-158).
	w.refuses("so that what came before has come", "thread:messages", `{}`, "INVALID_COMMAND")
	for command, want := range map[string]int{"run:cancel": 1, "thread:messages": 0} {
		from := w.count()
		w.refuses("PIL-158", command, `{}`, "INVALID_COMMAND")
		w.refuses("so that what came before has come", "thread:messages", `{}`, "INVALID_COMMAND")
		told := 0
		for _, p := range w.all()[from:] {
			if isEvent("protocol:error")(p) {
				told++
			}
		}
		if told != want {
			t.Errorf("PIL-026 PIL-158 %s was told of %d times beside its acknowledgement, want %d", command, told, want)
		}
	}
	// A binary message is no command either (PIL-028).
	from := w.count()
	w.write(`451-["run:cancel",{"_placeholder":true,"num":0}]`)
	if err := w.binary([]byte("x")); err != nil {
		t.Fatal(err)
	}
	w.after(from, "protocol:error", isEvent("protocol:error"))

	if r := w.call("run:cancel", `{"runId":`+quote(run)+`}`); !r.OK {
		t.Errorf("PIL-188 the run was harmed: %s", r.raw)
	}
	other.until("the end", of(run, "RUN_CANCELLED"))
	for _, p := range other.all() {
		if isEvent("protocol:error")(p) {
			t.Errorf("PIL-025 another window was told %s", p.data)
		}
	}
}

// PIL-026, PIL-027: without an acknowledgement success is silent, and a history
// only joins.
func TestWithoutAcknowledgements(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	other.emit("thread:messages", `{"threadId":`+quote(thread)+`}`)
	other.refuses("PIL-174 so that the one before has been done", "thread:messages", `{"threadId":"nowhere"}`, "CONVERSATION_NOT_FOUND")
	from := w.count()
	w.emit("run:start", startJSON(thread, "m1", ""))
	list := w.after(from, "the end", shows("RUN_FINISHED"))
	for _, p := range list {
		if !isEvent("run:event")(p) {
			t.Errorf("PIL-026 PIL-027 success was not silent: %v", p)
		}
	}
	other.until("PIL-027 PIL-143 the end in a room that was joined without an acknowledgement", shows("RUN_FINISHED"))
	from = w.count()
	w.emit("thread:messages", `{"threadId":"nowhere"}`)
	list = w.after(from, "PIL-027 protocol:error", isEvent("protocol:error"))
	if got := string(list[len(list)-1].data); !strings.Contains(got, "CONVERSATION_NOT_FOUND") {
		t.Errorf("PIL-027 %s", got)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	s := serve(t, nil)
	s.guests.revoke("eve")
	for _, auth := range []string{``, `{}`, `{"token":""}`, `{"token":17}`, `{"token":"eve"}`} {
		w := s.dial(t, auth)
		list := w.until("an answer", func(p packet) bool { return p.kind != "" })
		if len(list) != 1 || list[0].kind != "connect_error" || string(list[0].data) != `{"message":"unauthorized"}` {
			t.Errorf("PIL-189 CONNECT %s was answered %s %s", auth, list[0].kind, list[0].data)
		}
		w.close()
	}
	w := s.dial(t, ``)
	w.until("an answer", func(p packet) bool { return p.kind == "connect_error" })
	for _, p := range w.all() {
		if p.kind == "event" {
			t.Errorf("PIL-189 PIL-012 a stranger was told %s", p.data)
		}
	}
}

func TestRevokedPrincipalsGo(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	w.history(thread)
	s.guests.revoke("ann")
	id := w.ask("thread:messages", `{"threadId":`+quote(thread)+`}`)
	for _, p := range w.gone("a revoked principal") {
		if isAck(id)(p) {
			t.Errorf("a revoked principal was answered %s", p.data)
		}
	}
}

func TestTooManyCommands(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.CommandsPerSecond, c.Rules.CommandBurst = 1, 3 })
	w := s.open(t, "ann")
	for i := range 4 {
		r := w.call("run:cancel", `{"runId":"r"}`)
		if want := map[bool]string{true: "UNKNOWN_RUN", false: "INVALID_COMMAND"}[i < 3]; r.Code != want {
			t.Errorf("PIL-187 command %d: %s, want %s", i, r.raw, want)
		}
	}
}

func TestTooManyRooms(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.RoomsPerConnection = 2 })
	w := s.open(t, "ann")
	a, b, c := s.thread(t, "ann"), s.thread(t, "ann"), s.thread(t, "ann")
	w.history(a)
	w.refuses("PIL-144 a failed history joins nothing", "thread:messages", `{"threadId":"nowhere"}`, "CONVERSATION_NOT_FOUND")
	w.refuses("PIL-144 a failed start joins nothing", "run:start", startJSON("nowhere", "m1", ""), "CONVERSATION_NOT_FOUND")
	w.history(b)
	w.refuses("PIL-145 a third room", "thread:messages", `{"threadId":`+quote(c)+`}`, "INVALID_COMMAND")
	w.history(a) // PIL-145 PIL-175: one that is watched already is none more
}

// A run is stopped although a command before the cancel takes its time.
func TestCancelOvertakes(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	run := w.start(thread, "m1", "/slow")
	for range 20 {
		w.ask("thread:messages", `{"threadId":`+quote(thread)+`}`)
	}
	began := time.Now()
	if r := w.call("run:cancel", `{"runId":`+quote(run)+`}`); !r.OK || time.Since(began) > 2*time.Second {
		t.Errorf("PIL-101 %s after %v", r.raw, time.Since(began))
	}
}

func TestHandshakeTellsTheLimit(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Pilotoo.Frame = 3 << 20 })
	w := s.open(t, "ann")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.Contains(w.handshake, `"maxPayload":3145728`) {
		t.Errorf("PIL-055 the handshake is %s", w.handshake)
	}
}
