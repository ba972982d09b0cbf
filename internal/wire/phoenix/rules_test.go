package phoenix

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestRules has a client say frames after it has joined a room with join_ref 1,
// and then prove with a heartbeat that nothing else comes.
func TestRules(t *testing.T) {
	const unmatched = `"phx_reply",{"status":"error","response":{"reason":"unmatched topic"}}]`
	for _, c := range []struct{ name, say, want string }{
		{"PIN-002 a reply echoes join_ref and ref", `["1","7","room:a","x",{"a":1}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{"a":1}}]`},
		{"PIN-002 a refusal has status error", `["1","7","room:a","refuse",{}]`, `["1","7","room:a","phx_reply",{"status":"error","response":{"reason":"no"}}]`},
		{"a push with join_ref null is accepted", `[null,"7","room:a","x",{}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"a push with a stale join_ref is ignored", `["0","7","room:a","x",{}]`, ``},
		{"a leave with a stale join_ref is ignored", `["0","7","room:a","phx_leave",{}]`, ``},
		{"PIN-007 a topic not joined is unmatched", `["1","7","room:b","x",{}]`, `[null,"7","room:b",` + unmatched},
		{"a join of a topic nobody serves is unmatched", `["9","9","zzz","phx_join",{}]`, `[null,"9","zzz",` + unmatched},
		{"PIN-005 heartbeat", `[null,"7","phoenix","heartbeat",{}]`, `[null,"7","phoenix","phx_reply",{"status":"ok","response":{}}]`},
		{"another event on topic phoenix is unmatched", `[null,"7","phoenix","x",{}]`, `[null,"7","phoenix",` + unmatched},
		{"PIN-006 leave is answered, then phx_close", `["1","7","room:a","phx_leave",{}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{}}] ["1","1","room:a","phx_close",{}]`},
		{"a leave with join_ref null leaves", `[null,"7","room:a","phx_leave",{}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{}}] ["1","1","room:a","phx_close",{}]`},
		{"a leave of what was not joined is ok", `["4","4","room:b","phx_leave",{}]`, `["4","4","room:b","phx_reply",{"status":"ok","response":{}}]`},
		{"PIN-007 a second join replaces the first", `["2","2","room:a","phx_join",{}]`, `["2","2","room:a","phx_reply",{"status":"ok","response":{}}] ["1","1","room:a","phx_close",{}]`},
		{"a second join with the same join_ref is not closed by the first one's end", `["1","2","room:a","phx_join",{}]`, `["1","2","room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"PIN-009 a panic is phx_error on that topic", `["1","7","room:a","panic",{}]`, `["1","1","room:a","phx_error",{"reason":"channel_crash"}]`},
		{"refs are opaque", `["1","x-é-😀\u2028","room:a","x",{}]`, `["1","x-é-😀\u2028","room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"a ref may be a number", `["1",7,"room:a","x",{}]`, `["1",7,"room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"a ref may be null", `["1",null,"room:a","x",{}]`, `["1",null,"room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"a topic is known by its meaning, not its spelling", `["1","7","r\u006fom:a","x",{}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{}}]`},
		{"space is no matter", " [ \"1\" ,\n\"7\",\"room:a\",\"x\", {\"a\": [1, \"],\\\"\"] }\t]", `["1","7","room:a","phx_reply",{"status":"ok","response":{"a": [1, "],\""] }}]`},
		{"a payload passes as it was written", `["1","7","room:a","x",{"s":"\ud83d é😀\u0000"}]`, `["1","7","room:a","phx_reply",{"status":"ok","response":{"s":"\ud83d é😀\u0000"}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws := serve(t, Options{}, Accept{}, nil).join()
			ws.say(c.say)
			want := c.want
			if want != "" {
				want += " "
			}
			got := ""
			for len(got) < len(want) {
				got += ws.next() + " "
			}
			if got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			ws.alive()
		})
	}
}

// TestMalformed: PIN-009, and PIN-004 for binary frames.
func TestMalformed(t *testing.T) {
	long := strings.Repeat("r", 256)
	for frame, want := range map[string]int{
		"{oops": 1007, "": 1007, "\xff": 1007, `["1","1","room:a","x",{}`: 1007,
		"{}": 1003, `"x"`: 1003, "[1]": 1003, "[]": 1003, `["1","2","room:a","x"]`: 1003, `["1","2","room:a","x",{},1]`: 1003,
		`["1","2",3,"x",{}]`: 1003, `["1","2","room:a",null,{}]`: 1003, `[{},"2","room:a","x",{}]`: 1003, `["1",[2],"room:a","x",{}]`: 1003,
		`["1","` + long + `","room:a","x",{}]`: 1003, `["1","2","room:a","` + long + `",{}]`: 1003, `["1",true,"room:a","x",{}]`: 1003,
		"binary:\x00\x01\x01\x06\x0111room:ax{}": 1003, "binary:": 1003, "binary:\x00\xff": 1003,
	} {
		s := serve(t, Options{}, Accept{}, nil)
		ws := s.join()
		ws.say(`["1","3","room:a","x",{}]`)
		ws.expect(`["1","3","room:a","phx_reply",{"status":"ok","response":{}}]`)
		ws.say(frame)
		code, before := ws.closed()
		if int(code) != want || before != "" {
			t.Errorf("%.40q: closed with %d after %q, want %d", frame, code, before, want)
		}
		s.h.wantLeft(t, room, ReasonMalformed)
	}
}

func TestJoinRefused(t *testing.T) {
	h := newHooks()
	h.join = func(_ context.Context, c *Channel, payload json.RawMessage) ([]byte, error) {
		switch string(payload) {
		case `"shown"`:
			return nil, &JoinError{[]byte(`{"reason":"invalid token"}`)}
		case `"panic"`:
			panic("on request")
		case `"inner"`:
			return nil, errors.New("10.0.0.1 refused the connection")
		}
		return []byte(`{"socket_id":"` + c.SocketID() + `"}`), nil
	}
	s := serve(t, Options{}, Accept{}, h)
	c := s.dial()
	c.say(`["1","1","room:a","phx_join","shown"]`)
	c.expect(`["1","1","room:a","phx_reply",{"status":"error","response":{"reason":"invalid token"}}]`)
	for _, p := range []string{"panic", "inner"} {
		c.say(`["2","2","room:a","phx_join","` + p + `"]`)
		c.expect(`["2","2","room:a","phx_reply",{"status":"error","response":{"reason":"join crashed"}}]`)
	}
	c.say(`["2","3","room:a","x",{}]`)
	c.expect(`[null,"3","room:a","phx_reply",{"status":"error","response":{"reason":"unmatched topic"}}]`)
	c.say(`["3","3","room:a","phx_join",{}]`)
	if m := c.next(); len(m) != len(`["3","3","room:a","phx_reply",{"status":"ok","response":{"socket_id":""}}]`)+20 {
		t.Fatal(m)
	}
	// One that is refused has ended the older one all the same.
	c.say(`["4","4","room:a","phx_join","shown"]`)
	c.expect(`["4","4","room:a","phx_reply",{"status":"error","response":{"reason":"invalid token"}}]`,
		`["3","3","room:a","phx_close",{}]`)
	h.wantLeft(t, room, ReasonReplaced)
	c.alive()
}

// TestOrderOfAJoin: PIN-065's part of the wire, and that the older channel is told
// Left before the newer one's Join.
func TestOrderOfAJoin(t *testing.T) {
	h := newHooks()
	h.joined = func(c *Channel) { _ = c.Push("snapshot", []byte(`{"n":1}`)) }
	h.join = func(context.Context, *Channel, json.RawMessage) ([]byte, error) {
		return []byte(`{"left":` + string('0'+byte(len(h.left))) + `}`), nil
	}
	s := serve(t, Options{}, Accept{}, h)
	c := s.dial()
	c.say(joinRoom, `["2","2","room:a","phx_join",{}]`)
	c.expect(`["1","1","room:a","phx_reply",{"status":"ok","response":{"left":0}}]`,
		`["1",null,"room:a","snapshot",{"n":1}]`,
		`["2","2","room:a","phx_reply",{"status":"ok","response":{"left":1}}]`,
		`["1","1","room:a","phx_close",{}]`,
		`["2",null,"room:a","snapshot",{"n":1}]`)
}

// TestSlowJoin: a heartbeat is answered while a join is decided, what else comes
// waits, and a client that gives the join up ends it.
func TestSlowJoin(t *testing.T) {
	h := newHooks()
	started, ended := make(chan string, 10), make(chan error, 10)
	h.join = func(ctx context.Context, c *Channel, _ json.RawMessage) ([]byte, error) {
		started <- c.Topic()
		if c.Topic() != "room:slow" {
			return nil, nil
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	s := serve(t, Options{}, Accept{}, h)
	for _, giveUp := range []string{
		`["1","2","room:slow","phx_leave",{}]`, `[null,"2","room:slow","phx_leave",{}]`, `["2","2","room:slow","phx_join",{}]`, "hang up",
	} {
		c := s.dial()
		c.say(`["1","1","room:slow","phx_join",{}]`, `["8","8","room:b","phx_join",{}]`, `["8","9","room:b","x",{}]`)
		if got := receive(t, started); got != "room:slow" {
			t.Fatal(got)
		}
		c.alive()
		if giveUp == "hang up" {
			_ = c.CloseNow()
		} else {
			c.say(`["0","5","room:slow","phx_leave",{}]`, giveUp) // the first is of another join
		}
		if err := receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if giveUp == "hang up" {
			continue
		}
		c.expect(`["1","1","room:slow","phx_reply",{"status":"error","response":{"reason":"join crashed"}}]`,
			`["8","8","room:b","phx_reply",{"status":"ok","response":{}}]`,
			`["8","9","room:b","phx_reply",{"status":"ok","response":{}}]`)
		receive(t, started)
		_ = c.CloseNow()
		h.wantLeft(t, "room:b", ReasonTransport)
		for len(started) > 0 {
			<-started
		}
		for len(ended) > 0 {
			<-ended
		}
	}
}

func TestJoinThatOutlivesItsConnection(t *testing.T) {
	h := newHooks()
	started, proceed := make(chan *Channel, 1), make(chan struct{})
	h.join = func(_ context.Context, c *Channel, _ json.RawMessage) ([]byte, error) {
		started <- c
		<-proceed
		return nil, nil
	}
	h.joined = func(*Channel) { t.Error("Joined after the end") }
	s := serve(t, Options{}, Accept{}, h)
	c := s.dial()
	c.say(joinRoom)
	ch := receive(t, started)
	_ = c.CloseNow()
	s.until("the end", func() bool { return s.srv.Sockets() == 0 })
	close(proceed)
	h.wantLeft(t, room, ReasonTransport)
	if err := ch.Push("x", nil); !errors.Is(err, ErrClosed) || ch.Context().Err() == nil {
		t.Fatal(err, ch.Context().Err())
	}
}

// TestServerEndsAChannel: by Close or Error, at once or while Join runs.
func TestServerEndsAChannel(t *testing.T) {
	for _, c := range []struct {
		name, want, reason string
		end                func(*Channel)
	}{
		{"PIN-080 Error has the client join again", `["1","1","room:a","phx_error",{"reason":"epoch"}]`, ReasonServerError, func(c *Channel) { c.Error([]byte(`{"reason":"epoch"}`)) }},
		{"Close ends it for good", `["1","1","room:a","phx_close",{}]`, ReasonServerClose, func(c *Channel) { c.Close() }},
	} {
		for _, when := range []string{"in Join", "in Joined", "in In", "later"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				h := newHooks()
				var ch *Channel
				h.join = func(_ context.Context, c2 *Channel, _ json.RawMessage) ([]byte, error) {
					if ch = c2; when == "in Join" {
						c.end(ch)
					}
					return nil, nil
				}
				h.joined = func(ch *Channel) {
					if when == "in Joined" {
						c.end(ch)
					}
				}
				h.in = func(ch *Channel, p Push) {
					if when == "in In" {
						c.end(ch)
					}
				}
				s := serve(t, Options{}, Accept{}, h)
				ws := s.join()
				if when == "in In" {
					ws.say(`["1","5","room:a","x",{}]`)
				}
				if when == "later" {
					c.end(ch)
				}
				ws.expect(c.want)
				h.wantLeft(t, room, c.reason)
				if ctx := ch.Context(); ctx.Err() == nil || ch.Joined() {
					t.Fatal("still joined")
				}
				c.end(ch) // again: nothing
				ws.alive()
			})
		}
	}
}

func TestLimitsOfASocket(t *testing.T) {
	s := serve(t, Options{MaxChannels: 2, JoinRate: 1}, Accept{}, nil)
	c := s.join()
	c.say(`["2","2","room:b","phx_join",{}]`, `["3","3","room:c","phx_join",{}]`)
	c.expect(`["2","2","room:b","phx_reply",{"status":"ok","response":{}}]`,
		`["3","3","room:c","phx_reply",{"status":"error","response":{"reason":"too many channels joined"}}]`)
	// A channel that is joined again is not one more.
	c.say(`["4","4","room:b","phx_join",{}]`)
	c.expect(`["4","4","room:b","phx_reply",{"status":"ok","response":{}}]`, `["2","2","room:b","phx_close",{}]`)
	const limited = `["5","5","room:b","phx_reply",{"status":"error","response":{"reason":"rate limited"}}]`
	for range 10 {
		c.say(`["5","5","room:b","phx_join",{}]`)
		if c.next() == limited {
			c.say(`["4","6","room:b","x",{}]`)
			return
		}
		c.next() // the phx_close of the one before, or the limit's word
	}
	t.Fatal("PIN-255: joins without end")
}

func TestAFrameLimit(t *testing.T) {
	s := serve(t, Options{}, Accept{MaxPayload: 200_000}, nil)
	big := func(n int) string {
		f := `["1","7","room:a","silent","`
		return f + strings.Repeat("x", n-len(f)-2) + `"]`
	}
	c := s.join()
	c.say(big(200_000))
	c.alive()
	c.say(big(200_001))
	if code, _ := c.closed(); code != 1009 {
		t.Fatalf("closed with %d", code)
	}
	s.h.wantLeft(t, room, ReasonTooLarge)
	c = s.dial() // and has not joined
	c.say(big(maxOutside + 1))
	if code, _ := c.closed(); code != 1009 {
		t.Fatalf("closed with %d", code)
	}
	s.until("the memory to be given back", func() bool { return s.srv.large.Used() == 0 })
}
