package pingerchips_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func TestJoinErrors(t *testing.T) {
	s := serve(t, nil)
	good := `"auth":` + quote(s.token("user-42"))
	other := s.mint(1, identity.AppClaims{Cap: []string{"chat:subscribe:*"}})
	const x = "chat:v1:app:pk_live_x:thread:t-abc"
	const badTopic = "invalid topic. Expected: chat:v1:app:{app_key}:thread:{thread_id}"
	for _, c := range []struct{ name, topic, payload, reason string }{
		{"PIN-056 another topic", "room:lobby", `{` + good + `}`, badTopic},
		{"PIN-056 another version", "chat:v2:app:pk_live_x:thread:t", `{` + good + `}`, badTopic},
		{"PIN-056 no app key", "chat:v1:app::thread:t", `{` + good + `}`, badTopic},
		{"PIN-056 no thread id", "chat:v1:app:pk_live_x:thread:", `{` + good + `}`, badTopic},
		{"PIN-056 no thread", "chat:v1:app:pk_live_x", `{` + good + `}`, badTopic},
		{"PIN-056 an id of 129 characters", "chat:v1:app:pk_live_x:thread:" + strings.Repeat("x", 129), `{` + good + `}`, badTopic},
		{"PIN-057 the topic is looked at first", "room:lobby", `{}`, badTopic},
		{"PIN-054 nothing", x, `{}`, "auth required"},
		{"PIN-054 null is nothing", x, `{"auth":null,"secret":null}`, "auth required"},
		{"PIN-054 a secret without an agent id", x, `{"secret":"sk_live_x"}`, "auth required"},
		{"PIN-051 a token that is none", x, `{"auth":"x"}`, "invalid token"},
		{"PIN-051 a token that is no string", x, `{"auth":7}`, "invalid token"},
		{"PIN-058 an app nobody knows", "chat:v1:app:pk_q:thread:t", `{"auth":"pk_q.e30.AAAA"}`, "invalid token"},
		{"PIN-053 a secret that is wrong", x, `{"secret":"guess","agent_id":"a"}`, "invalid secret"},
		{"PIN-053 a secret that is no string", x, `{"secret":{},"agent_id":"a"}`, "invalid secret"},
		{"PIN-058 another app's secret", x, `{"secret":"sk_live_y","agent_id":"a"}`, "invalid secret"},
		{"PIN-058 an unknown app's secret", "chat:v1:app:pk_q:thread:t", `{"secret":"sk_live_x","agent_id":"a"}`, "invalid secret"},
		{"PIN-059 a wrong secret beside a token", x, `{"secret":"guess","agent_id":"a",` + good + `}`, "invalid secret"},
		{"PIN-055 another app's token", x, `{"auth":` + quote(other) + `}`, "app_key mismatch"},
		{"PIN-058 a token on an unknown app's topic", "chat:v1:app:pk_q:thread:t", `{` + good + `}`, "app_key mismatch"},
		{"PIN-052 no capability", x, `{"auth":` + quote(s.token("u", "chat:publish:user_message:t-abc")) + `}`, "forbidden: missing chat:subscribe:t-abc"},
		{"PIN-052 PIN-032 a capability for another thread", x, `{"auth":` + quote(s.token("u", "chat:subscribe:t-abd")) + `}`, "forbidden: missing chat:subscribe:t-abc"},
		{"PIN-035 a star is no pattern", x, `{"auth":` + quote(s.token("u", "chat:subscribe:t-*")) + `}`, "forbidden: missing chat:subscribe:t-abc"},
		{"PIN-052 a capability for own threads", x, `{"auth":` + quote(s.token("u", "chat:subscribe")) + `}`, "forbidden: missing chat:subscribe:t-abc"},
		{"PIN-066 a negative cursor", x, `{"after_log_id":-1,` + good + `}`, "invalid after_log_id"},
		{"PIN-066 half a cursor", x, `{"after_log_id":1.5,` + good + `}`, "invalid after_log_id"},
		{"PIN-066 a cursor as text", x, `{"after_log_id":"1",` + good + `}`, "invalid after_log_id"},
		{"PIN-243 selections that are none", x, `{"selections":{"m":1},` + good + `}`, "invalid payload"},
		{"PIN-243 too many selections", x, `{"selections":{` + many(1001) + `},` + good + `}`, "invalid payload"},
		{"PIN-243 too long selections", x, `{"selections":{` + many(140, strings.Repeat("y", 120)) + `},` + good + `}`, "invalid payload"},
		{"PIN-057 PIN-243 the credential is looked at before", x, `{"selections":7,"auth":"x"}`, "invalid token"},
		{"PIN-057 PIN-066 the credential is looked at before", x, `{"after_log_id":-1,"auth":"x"}`, "invalid token"},
		{"PIN-008 a payload that is no object", x, `[]`, "invalid payload"},
		{"PIN-048 a client id that is none", x, `{"client_id":7,"auth":` + quote(s.token("")) + `}`, "invalid payload"},
	} {
		if _, _, reason := s.attempt(c.topic, c.payload); reason != c.reason {
			t.Errorf("%s: %q, want %q", c.name, reason, c.reason)
		}
	}
}

// many are n selections, as the inside of an object.
func many(n int, longer ...string) string {
	all := make([]string, n)
	for i := range all {
		id := strconv.Itoa(i) + strings.Join(longer, "")
		all[i] = quote("g"+id) + ":" + quote("m"+id)
	}
	return strings.Join(all, ",")
}

func TestJoin(t *testing.T) {
	s := serve(t, nil)
	k := s.dial()
	w, reply, reason := k.attempt(topicOf("t:1:thread:x"), `{"auth":`+quote(s.token("user-42"))+`,"x":1}`)
	if reason != "" {
		t.Fatalf("PIN-036 a thread id with colons: %s", reason)
	}
	for _, selections := range []string{many(1000), many(120, strings.Repeat("y", 120)), ""} {
		if _, _, reason := k.attempt(topicOf("t2"), `{"selections":{`+selections+`},"auth":`+quote(s.token("user-42"))+`}`); reason != "" {
			t.Errorf("PIN-243 %d bytes of selections: %s", len(selections), reason)
		}
	}
	v, second, _ := k.attempt(topicOf("t2"), `{"auth":`+quote(s.token("user-42"))+`}`)
	_, third, _ := s.attempt(topicOf("t2"), `{"auth":`+quote(s.token("user-42"))+`}`)
	if string(reply) != string(second) || string(second) == string(third) || !strings.HasPrefix(string(reply), `{"socket_id":"`) {
		t.Errorf("PIN-050 sockets are called %s, %s and %s", reply, second, third)
	}
	const empty = `{"state":{"messages":[],"runs":{},"last_message_id":null},"log_id":0,"has_older":false}`
	for _, w := range []*window{w, v} {
		w.after(0, "the snapshot", event("snapshot"))
		if all := w.all(); len(all) != 2 || all[1].event != "snapshot" || string(all[1].payload) != empty {
			t.Errorf("PIN-016 PIN-064 PIN-071 PIN-073 PIN-075 PIN-079 a new thread is shown as %s", last(all))
		}
	}
	star := s.joinAs("t3", s.token("u", "chat:subscribe:*"))
	star.refuses("PIN-033 PIN-035", "send", `{"messageId":"m","runId":"r","text":"hi"}`, "forbidden: missing publish:user_message")
	if n := star.count(); n != 3 {
		t.Errorf("PIN-034 a rejected push has an effect: %s", last(star.all()))
	}
}

// PIN-024 PIN-015: one thread id under two apps is two threads.
func TestAppsAreWalls(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "hi")
	token := s.mint(1, identity.AppClaims{Cap: []string{"chat:subscribe:*"}})
	v, _, reason := s.attempt("chat:v1:app:pk_live_y:thread:t1", `{"auth":`+quote(token)+`}`)
	if reason != "" {
		t.Fatal(reason)
	}
	v.after(0, "the snapshot", event("snapshot"))
	if r := v.all()[1]; !strings.Contains(string(r.payload), `"messages":[]`) {
		t.Errorf("PIN-024 the other app's thread shows %s", r.payload)
	}
}

// Who is it? The owner that everybody is shown says so.
func TestOwnerClientIDs(t *testing.T) {
	s := serve(t, nil)
	for name, c := range map[string]struct{ token, payload, owner string }{
		"PIN-047 the token's wins":     {s.token("user-42"), `"client_id":"mallory"`, "user-42"},
		"PIN-048 the join's else":      {s.token(""), `"client_id":"user-43"`, "user-43"},
		"PIN-049 nobody's is minted":   {s.token(""), `"x":1`, "anon-"},
		"PIN-127 PIN-217 any language": {s.token("žofie ☕"), `"x":1`, "žofie ☕"},
	} {
		w := s.joinAs("t-"+c.owner, c.token, c.payload)
		w.talk("m1", "hi")
		start := read(t, w.after(0, "run:start", event("run:start"))[len(w.after(0, "run:start", event("run:start")))-1])
		if owner := start.OwnerClientID; !strings.HasPrefix(owner, c.owner) || (c.owner != "anon-" && owner != c.owner) {
			t.Errorf("%s: the owner is %q", name, owner)
		}
		v := s.joinAs("t-"+c.owner, s.token("watcher"))
		c := newClient(t, name)
		c.frames(v.all())
		for _, m := range messagesOf(t, c) {
			if m.OwnerClientID != start.OwnerClientID {
				t.Errorf("%s: message %s is of %q", name, m.MessageID, m.OwnerClientID)
			}
		}
	}
}

// PIN-038: a token that expires does not end a join; one that is revoked does.
func TestRevokedMembers(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.ok("load_older", `{}`)
	s.configure(s.config, func(c *edge.Site) { c.Apps = nil })
	w.ask("load_older", `{}`)
	w.wait("phx_close", func() bool { return w.closed == "phx_close" })
}

func TestLimits(t *testing.T) {
	s := serve(t, nil)
	s.configure(s.config, func(c *edge.Site) {
		c.Rules = dialect.Rules{CommandsPerSecond: 0.001, CommandBurst: 3, ConnectionsPerClient: 2, RoomsPerConnection: 2}
	})
	w := s.join("t1", "ann") // counts for one
	w.ok("load_older", `{}`)
	w.ok("load_older", `{}`)
	w.refuses("PIN-255 a fourth command", "load_older", `{}`, "rate limited")
	join := func(thread string) string {
		_, _, reason := s.attempt(topicOf(thread), `{"auth":`+quote(s.token("ann"))+`}`)
		return reason
	}
	if r := join("t1"); r != "" {
		t.Errorf("a second connection: %s", r)
	}
	if r := join("t1"); r != "too many connections" {
		t.Errorf("a third connection: %q", r)
	}
	k := s.dial()
	for i, want := range []string{"", "", "too many channels joined"} {
		if _, _, r := k.attempt(topicOf("t"+strconv.Itoa(i)), `{"auth":`+quote(s.token("bob"))+`}`); r != want {
			t.Errorf("join %d of a connection: %q", i, r)
		}
	}
}
