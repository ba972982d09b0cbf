package pingerchips_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Whatever is wrong with a token, the wire says the same, to the byte: nobody
// learns how far he came (PIN-051, PIN-057, PIN-058).
func TestBadTokensLookAlike(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Apps[0].Secrets = []string{secret, "sk_old"} })
	caps := []string{"chat:subscribe:t1", "chat:publish:user_message:t1"}
	claims := identity.AppClaims{ClientID: "ann", Cap: caps, IssuedAt: time.Now().Unix(), Expires: time.Now().Unix() + 600}
	good := s.mint(0, claims)
	part := strings.Split(good, ".")
	with := func(change func(c *identity.AppClaims)) string {
		c := claims
		change(&c)
		return s.mint(0, c)
	}
	by := func(key, secret string) string {
		token, err := (&identity.App{Key: key, Secrets: []string{secret}}).Mint(claims)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	flipped := func(at int) string {
		b := []byte(good)
		if b[at] == 'A' {
			b[at] = 'B'
		} else {
			b[at] = 'A'
		}
		return string(b)
	}
	stronger := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"client_id":"root","cap":["chat:subscribe:*"],"exp":%d}`, claims.Expires)))
	bad := map[string]string{
		"forged with a guess":                  by("pk_live_x", "guess"),
		"forged with no secret":                by("pk_live_x", " "),
		"signed by another app":                by("pk_live_x", "sk_live_y"),
		"of an app nobody knows":               by("pk_live_q", secret),
		"of a key with another case":           by("PK_LIVE_X", secret),
		"another body under the signature":     part[0] + "." + stronger + "." + part[2],
		"another key before the body":          "pk_live_y." + part[1] + "." + part[2],
		"a signature of another token":         part[0] + "." + part[1] + "." + strings.Split(with(func(c *identity.AppClaims) { c.Expires++ }), ".")[2],
		"the first character of the body":      flipped(len(part[0]) + 1),
		"the last character of the body":       flipped(len(part[0]) + len(part[1])),
		"the first character of the signature": flipped(len(part[0]) + len(part[1]) + 2),
		"expired":                              with(func(c *identity.AppClaims) { c.Expires = time.Now().Unix() - 1 }),
		"expired long ago":                     with(func(c *identity.AppClaims) { c.Expires = 1 }),
		"issued in the future":                 with(func(c *identity.AppClaims) { c.IssuedAt += 86_400 }),
		"cut to nothing":                       ".",
		"the key alone":                        part[0],
		"without its signature":                part[0] + "." + part[1],
		"with an empty signature":              part[0] + "." + part[1] + ".",
		"with something behind it":             good + ".x",
		"of the older form":                    "pk_live_x:" + strings.Repeat("0", 64),
	}
	for n := 1; n < len(good); n += 7 {
		bad[fmt.Sprint("cut to ", n)] = good[:n]
	}
	answer := func(topic, payload string) []byte {
		t.Helper()
		_, reply, reason := s.attempt(topic, payload)
		if reason == "" {
			t.Fatalf("PIN-051 %s was admitted", payload)
		}
		return reply
	}
	const want = `{"reason":"invalid token"}`
	for name, token := range bad {
		if got := answer(topicOf("t1"), `{"auth":`+quote(token)+`}`); string(got) != want {
			t.Errorf("PIN-051 %s: %s", name, got)
		}
		// Nor does it matter which thread or app it is tried on, if there is any.
		if got := answer("chat:v1:app:pk_live_q:thread:t1", `{"auth":`+quote(token)+`,"after_log_id":-1}`); string(got) != want {
			t.Errorf("PIN-051 PIN-057 PIN-058 %s on an unknown app: %s", name, got)
		}
	}
	// Foreign: valid, and not here. What it would have given is not told.
	foreign := s.mint(1, identity.AppClaims{Cap: caps})
	one, two := answer(topicOf("t1"), `{"auth":`+quote(foreign)+`}`), answer("chat:v1:app:pk_live_q:thread:t1", `{"auth":`+quote(foreign)+`}`)
	if string(one) != `{"reason":"app_key mismatch"}` || !bytes.Equal(one, two) {
		t.Errorf("PIN-055 PIN-058 another app's token: %s, on an unknown app %s", one, two)
	}
	// A thread that is there and one that is not look alike to who may watch neither.
	s.joinAs("t1", good).talk("m1", "hi")
	elsewhere := s.token("eve", "chat:subscribe:t9")
	there := answer(topicOf("t1"), `{"auth":`+quote(elsewhere)+`}`)
	not := answer(topicOf("t2"), `{"auth":`+quote(elsewhere)+`}`)
	if string(there) != `{"reason":"forbidden: missing chat:subscribe:t1"}` || string(bytes.ReplaceAll(there, []byte("t1"), []byte("t2"))) != string(not) {
		t.Errorf("PIN-052 a thread that is there: %s, one that is not: %s", there, not)
	}
	// Secrets of agents the same: a wrong one, another app's, an unknown app's.
	for topic, payload := range map[string]string{
		topicOf("t1"):                     `{"secret":"guess","agent_id":"a"}`,
		topicOf("t2"):                     `{"secret":"sk_live_y","agent_id":"a"}`,
		"chat:v1:app:pk_live_q:thread:t1": `{"secret":"sk_live_x","agent_id":"a"}`,
		topicOf("t3"):                     `{"secret":"sk_live_x ","agent_id":"a"}`,
	} {
		if got := answer(topic, payload); string(got) != `{"reason":"invalid secret"}` {
			t.Errorf("PIN-053 PIN-058 %s: %s", payload, got)
		}
	}
	// Replayed: a token holds on any socket until it ends, but an older one only on
	// the socket that it was made for.
	for range 3 {
		s.joinAs("t1", good)
	}
	if _, _, reason := s.attempt(topicOf("t1"), `{"auth":`+quote(by("pk_live_x", "sk_old"))+`}`); reason != "" {
		t.Errorf("PIN-036 signed with the secret that goes: %q", reason)
	}
}

// PIN-037: a token of the older form is good for one socket, thread and client.
func TestOlderTokensAreNotReplayed(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Apps[0].Legacy = true })
	k := s.dial()
	w, reply, _ := k.attempt(topicOf("t0"), `{"auth":`+quote(s.token("ann"))+`}`)
	if w == nil {
		t.Fatal("no socket")
	}
	id := strings.TrimSuffix(strings.TrimPrefix(string(reply), `{"socket_id":"`), `"}`)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(id + ":" + topicOf("t1") + ":ann"))
	token := "pk_live_x:" + hex.EncodeToString(mac.Sum(nil))
	join := func(k *conn, thread, client string) string {
		_, _, reason := k.attempt(topicOf(thread), `{"auth":`+quote(token)+`,"client_id":`+quote(client)+`}`)
		return reason
	}
	if r := join(k, "t1", "ann"); r != "" {
		t.Fatalf("PIN-037 on its socket: %q", r)
	}
	if r := join(s.dial(), "t1", "ann"); r != "invalid token" {
		t.Errorf("PIN-037 replayed on another socket: %q", r)
	}
	if r := join(k, "t2", "ann"); r != "invalid token" {
		t.Errorf("PIN-037 on another thread: %q", r)
	}
	if r := join(k, "t1", "bob"); r != "invalid token" {
		t.Errorf("PIN-037 by another client: %q", r)
	}
}

// What each principal may do to his own run and to another's, push by push: the
// whole matrix, with what is told and that a refusal changes nothing (PIN-033,
// PIN-034, PIN-039, PIN-135, PIN-140, PIN-165, PIN-190).
func TestMatrix(t *testing.T) {
	t.Parallel()
	s := serve(t, inboundSite(0))
	const u, own, any, ok = "publish:user_message", "publish:cancel_own", "publish:cancel_any", "publish:tool_approval"
	missing := func(v string) string { return "forbidden: missing " + v }
	principals := []struct {
		name  string
		verbs []string
		agent bool
	}{
		{"nothing more than to watch", nil, false},
		{"a writer", []string{u}, false},
		{"one who may cancel his own", []string{own}, false},
		{"one who may cancel any", []string{any}, false},
		{"one who may decide", []string{ok}, false},
		{"a user", []string{u, own, ok}, false},
		{"an operator", []string{u, own, any, ok}, false},
		{"a client with an agent's words", []string{"publish:run_lifecycle", "publish:token"}, false},
		{"an agent", nil, true},
	}
	n := 0
	for _, p := range principals {
		has := func(v string) bool { return strings.Contains(" "+strings.Join(p.verbs, " ")+" ", " "+v+" ") }
		for _, mine := range []bool{true, false} {
			n++
			thread := fmt.Sprint("t", n)
			owner := "ann"
			if !mine {
				owner = "bob"
			}
			boss := s.joinAs(thread, s.token(owner, "chat:subscribe:*", "chat:publish:user_message:*"))
			boss.send("m", "hello")
			worker := s.worker(thread)
			worker.does("run:start", `{"runId":"r-m"}`)
			worker.does("run:token", `{"runId":"r-m","content":"May I?"}`)
			worker.does("run:suspend", `{"runId":"r-m","toolCallId":"c","toolName":"mail"}`)
			var w *window
			if p.agent {
				w = s.worker(thread)
			} else {
				caps := []string{"chat:subscribe:" + thread}
				for _, v := range p.verbs {
					caps = append(caps, "chat:"+v+":"+thread)
				}
				w = s.joinAs(thread, s.token("ann", caps...))
			}
			want := func(event, payload, reason string) {
				t.Helper()
				before := *boss.ok("view:get", `{}`).LogID
				f := w.call(event, payload)
				got := ""
				if !f.ok {
					got = read(t, f).Reason
				}
				if got != reason {
					t.Errorf("PIN-033 PIN-039 PIN-140 PIN-190 %s, own run %v: %s is answered %q, want %q", p.name, mine, event, got, reason)
				}
				if now := *boss.ok("view:get", `{}`).LogID; got != "" && now != before {
					t.Errorf("PIN-034 %s: a refused %s had an effect", p.name, event)
				}
			}
			unless := func(may bool, v string) string {
				if may {
					return ""
				}
				return missing(v)
			}
			for _, event := range []string{"load_older", "view:get", "tree:get", "branch:reset"} {
				want(event, `{}`, "")
			}
			want("tree:node", `{"messageId":"m"}`, "")
			want("send", `{"messageId":"m2","runId":"r-m2","text":"x"}`, unless(has(u), u))
			want("edit", `{"messageId":"m","newMessageId":"m3","runId":"r-m3","text":"x"}`, unless(has(u), u)) // PIN-165: anybody's
			decided := "already_decided"
			if !has(ok) {
				decided = missing(ok)
			}
			want("tool_approval", `{"runId":"r-m","toolCallId":"c","approved":true}`, unless(has(ok), ok))
			want("tool_approval", `{"runId":"r-m","toolCallId":"c","approved":false}`, decided)
			const life, words = "publish:run_lifecycle", "publish:token"
			want("run:resume", `{"runId":"r-m"}`, unless(p.agent, life))
			if !p.agent {
				worker.does("run:resume", `{"runId":"r-m"}`)
			}
			want("run:token", `{"runId":"r-m","content":"May I? x"}`, unless(p.agent, words))
			want("run:start", `{"runId":"r-m"}`, unless(p.agent, life))
			want("run:suspend", `{"runId":"r-m","toolCallId":"c2","toolName":"mail"}`, unless(p.agent, life))
			want("cancel", `{"runId":"r-m"}`, map[bool]string{true: "", false: map[bool]string{true: "forbidden", false: missing(own)}[has(own)]}[p.agent || has(any) || mine && has(own)])
			if !p.agent && !has(any) && (!mine || !has(own)) { // it lives
				want("run:end", `{"runId":"r-m"}`, missing(life))
				worker.does("run:end", `{"runId":"r-m"}`)
			}
		}
	}
}
