package socketio

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// describe says what a handler was given.
func describe(e Event) string {
	b, _ := json.Marshal(e.Args)
	s := fmt.Sprintf("%s %s", e.Name, b)
	if e.AckID != NoAck {
		s += fmt.Sprintf(" ack %d", e.AckID)
	}
	for _, a := range e.Attachments {
		s += fmt.Sprintf(" <%d>", len(a))
	}
	return s
}

// TestFrames sends odd frames and states the whole reaction: what comes back,
// what the handler sees, and whether the connection lives. Where the reference
// server accepts what no client of it sends, ours closes; those rows say so.
func TestFrames(t *testing.T) {
	const closes = true
	for _, c := range []struct {
		name    string
		first   string // "40" unless given; "-" for none
		send    []string
		back    string // frames that come back, an id as ID
		closed  bool
		handler string // what the handler was told
	}{
		{"no CONNECT", "-", nil, "", closes, ""},
		{"EVENT before CONNECT", "-", []string{`42["m"]`}, "", closes, ""},
		{"ACK before CONNECT", "-", []string{`431[]`}, "", closes, ""},
		{"DISCONNECT before CONNECT", "-", []string{`41`}, "", closes, ""},
		{"CONNECT refused stays until the time-out", "-", []string{`40{"deny":1}`}, `44{"message":"not authorized","data":{"code":"E1"}}`, closes, ""},
		{"CONNECT refused, then accepted", "-", []string{`40{"deny":1}`, `40{}`}, `44{"message":"not authorized","data":{"code":"E1"}} 40{"sid":"ID"}`, false, ""},
		{"EVENT after a refusal is dropped", "-", []string{`40{"deny":1}`, `42["m"]`, `40{}`}, `44{"message":"not authorized","data":{"code":"E1"}} 40{"sid":"ID"}`, false, ""},
		{"CONNECT fails inside", "-", []string{`40{"fail":1}`}, `44{"message":"internal error"}`, closes, ""},
		{"CONNECT null", "-", []string{`40null`}, "", closes, ""},
		{"CONNECT array", "-", []string{`40[]`}, "", closes, ""},
		{"CONNECT string", "-", []string{`40"x"`}, "", closes, ""},
		{"CONNECT bad JSON", "-", []string{`40{bad`}, "", closes, ""},
		{"CONNECT with an ack id (the reference takes it)", "-", []string{`401{}`}, "", closes, ""},
		{"CONNECT unknown namespace", "-", []string{`40/zz,`}, `44/zz,{"message":"Invalid namespace"}`, closes, ""},
		{"CONNECT unknown namespace, then a known one", "-", []string{`40/zz,`, `40`}, `44/zz,{"message":"Invalid namespace"} 40{"sid":"ID"}`, false, ""},
		{"CONNECT namespace without comma", "-", []string{`40/custom`}, `40/custom,{"sid":"ID"}`, false, ""},
		{"CONNECT namespace with a query", "-", []string{`40`, `40/custom?a=1,`}, `40{"sid":"ID"} 44/custom?a=1,{"message":"Invalid namespace"}`, false, ""},
		{"CONNECT namespace of 256 bytes", "40", []string{`40/` + strings.Repeat("x", 255)}, "", closes, "gone forced close"},
		{"CONNECT to two namespaces", "40", []string{`40/custom,{}`, `42/custom,["m"]`, `42["n"]`}, `40/custom,{"sid":"ID"}`, false, "m []; n []"},
		{"second CONNECT", "40", []string{`40`}, "", closes, "gone forced close"},
		{"CONNECT_ERROR from a client", "40", []string{`44{"message":"x"}`}, "", closes, "gone forced close"},
		{"EVENT no payload (the reference takes it)", "40", []string{`42`}, "", closes, "gone forced close"},
		{"EVENT empty array", "40", []string{`42[]`}, "", closes, "gone forced close"},
		{"EVENT object", "40", []string{`42{}`}, "", closes, "gone forced close"},
		{"EVENT reserved connect", "40", []string{`42["connect"]`}, "", closes, "gone forced close"},
		{"EVENT reserved connect_error", "40", []string{`42["connect_error"]`}, "", closes, "gone forced close"},
		{"EVENT reserved disconnect", "40", []string{`42["disconnect"]`}, "", closes, "gone forced close"},
		{"EVENT reserved disconnecting", "40", []string{`42["disconnecting"]`}, "", closes, "gone forced close"},
		{"EVENT reserved newListener", "40", []string{`42["newListener"]`}, "", closes, "gone forced close"},
		{"EVENT reserved removeListener, escaped", "40", []string{`42["remove\u004cistener"]`}, "", closes, "gone forced close"},
		{"EVENT number as a name", "40", []string{`42[7,1]`}, "", false, "7 [1]"},
		{"EVENT null as a name", "40", []string{`42[null]`}, "", closes, "gone forced close"},
		{"EVENT array as a name", "40", []string{`42[["m"]]`}, "", closes, "gone forced close"},
		{"EVENT name with escapes", "40", []string{`42["\u006d\"\\"]`}, "", false, `m"\ []`},
		{"EVENT empty name", "40", []string{`42[""]`}, "", false, " []"},
		{"EVENT ack 0", "40", []string{`420["m"]`}, `430["r"]`, false, "m [] ack 0"},
		{"EVENT ack 007 is 7", "40", []string{`42007["m"]`}, `437["r"]`, false, "m [] ack 7"},
		{"EVENT ack id twice", "40", []string{`421["m"]`, `421["m"]`}, `431["r"] 431["r"]`, false, "m [] ack 1; m [] ack 1"},
		{"EVENT ack of 15 digits", "40", []string{`42999999999999999["m"]`}, `43999999999999999["r"]`, false, "m [] ack 999999999999999"},
		{"EVENT ack of 16 digits (the reference loses precision)", "40", []string{`429007199254740993["m"]`}, "", closes, "gone forced close"},
		{"EVENT ack of 40 digits", "40", []string{`42` + strings.Repeat("9", 40) + `["m"]`}, "", closes, "gone forced close"},
		{"EVENT ack with a space (the reference takes it)", "40", []string{`42 1["m"]`}, "", closes, "gone forced close"},
		{"EVENT negative ack", "40", []string{`42-1["m"]`}, "", closes, "gone forced close"},
		{"EVENT letters as ack", "40", []string{`42abc["m"]`}, "", closes, "gone forced close"},
		{"EVENT trailing garbage", "40", []string{`42["m"]x`}, "", closes, "gone forced close"},
		{"EVENT namespace not joined", "40", []string{`42/custom,["m"]`}, "", closes, "gone forced close"},
		{"ACK unknown id", "40", []string{`4399[]`}, "", false, ""},
		{"ACK without id", "40", []string{`43[]`}, "", false, ""},
		{"ACK without payload", "40", []string{`431`}, "", false, ""},
		{"ACK object", "40", []string{`431{}`}, "", closes, "gone forced close"},
		{"DISCONNECT", "40", []string{`41`}, "", false, "gone client namespace disconnect"},
		{"DISCONNECT named", "40/custom,", []string{`41/custom`}, "", false, "gone client namespace disconnect"},
		{"DISCONNECT with payload", "40", []string{`41{}`}, "", closes, "gone forced close"},
		{"DISCONNECT twice", "40", []string{`41`, `41`}, "", false, "gone client namespace disconnect"},
		{"DISCONNECT then EVENT, which is dropped", "40", []string{`41`, `42["m"]`}, "", false, "gone client namespace disconnect"},
		{"DISCONNECT then CONNECT at once", "40", []string{`41`, `40`}, `40{"sid":"ID"}`, false, "gone client namespace disconnect"},
		{"type 7", "40", []string{`47`}, "", closes, "gone forced close"},
		{"type 8", "40", []string{`48["m"]`}, "", closes, "gone forced close"},
		{"no type", "40", []string{`4`}, "", closes, "gone forced close"},
		{"letter as type", "40", []string{`4abc`}, "", closes, "gone forced close"},
		{"BINARY_EVENT", "40", []string{`451-["m",{"_placeholder":true,"num":0}]`, "binary:abc"}, "", false, `m [{"_placeholder":true,"num":0}] <3>`},
		{"BINARY_EVENT with ack and namespace", "40/custom,", []string{`451-/custom,12["m",{"num":0,"_placeholder":true}]`, "binary:abc"}, `43/custom,12["r"]`, false, `m [{"num":0,"_placeholder":true}] ack 12 <3>`},
		{"BINARY_EVENT nested beside null", "40", []string{`452-["m",{"a":[null,{"_placeholder":true,"num":1}],"b":null}]`, "binary:abc", "binary:"}, "", false, `m [{"a":[null,{"_placeholder":true,"num":1}],"b":null}] <3> <0>`},
		{"BINARY_EVENT of 10", "40", append([]string{`4510-["m"]`}, many("binary:x", 10)...), "", false, "m []" + strings.Repeat(" <1>", 10)},
		{"BINARY_EVENT of 0", "40", []string{`450-["m"]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT of 11", "40", []string{`4511-["m"]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT of 01", "40", []string{`4501-["m"]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT without a dash", "40", []string{`451["m"]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT placeholder out of range", "40", []string{`451-["m",{"_placeholder":true,"num":5}]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT placeholder negative", "40", []string{`451-["m",{"_placeholder":true,"num":-1}]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT placeholder of a string", "40", []string{`451-["m",{"_placeholder":true,"num":"0"}]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT placeholder of a half", "40", []string{`451-["m",{"_placeholder":true,"num":0.5}]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT placeholder spelt with an escape", "40", []string{`451-["m",{"\u005fplaceholder":true,"num":5}]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT interrupted by text", "40", []string{`452-["m"]`, "binary:abc", `42["m"]`}, "", closes, "gone forced close"},
		{"BINARY_EVENT interrupted by a pong", "40", []string{`451-["m",{"_placeholder":true,"num":0}]`, "3", "binary:abc"}, "", false, `m [{"_placeholder":true,"num":0}] <3>`},
		{"BINARY_ACK", "40", []string{`461-1[{"_placeholder":true,"num":0}]`, "binary:abc"}, "", false, ""},
		{"BINARY_ACK without payload", "40", []string{`461-1`}, "", closes, "gone forced close"},
		{"binary without a header", "40", []string{"binary:abc"}, "", closes, "gone forced close"},
		{"one attachment too many", "40", []string{`451-["m"]`, "binary:a", "binary:b"}, "", closes, "m [] <1>; gone forced close"},
		{"attachment nothing refers to", "40", []string{`451-["m"]`, "binary:a"}, "", false, "m [] <1>"},
		{"attachment as base64", "40", []string{`451-["m",{"_placeholder":true,"num":0}]`, "bAQID"}, "", false, `m [{"_placeholder":true,"num":0}] <3>`},
		{"attachments beyond the limit of a message", "40", []string{`452-["m"]`, "binary:" + strings.Repeat("x", 6000), "binary:" + strings.Repeat("x", 6000)}, "", closes, "gone forced close"},
		{"placeholder in a text event is data", "40", []string{`42["m",{"_placeholder":true,"num":9}]`}, "", false, `m [{"_placeholder":true,"num":9}]`},
		{"ping", "40", []string{"2"}, "", closes, "gone transport error"},
		{"unknown engine packet", "40", []string{"7"}, "", closes, "gone parse error"},
		{"engine close", "40", []string{"1"}, "", closes, "gone transport close"},
		{"message beyond the limit", "40", []string{`42["m","` + strings.Repeat("x", 10_000) + `"]`}, "", closes, "gone transport error"},
		{"raw control characters", "40", []string{"42[\"m\",\"\x1e\x00\"]"}, "", closes, "gone forced close"},
		{"escaped control characters, emoji, U+2028", "40", []string{"42[\"m\",\"\\u001e\\u0000😀\u2028\"]"}, "", false, "m [\"\\u001e\\u0000😀\\u2028\"]"},
		{"lone surrogate stays as it is", "40", []string{`42["m","\ud83d"]`}, "", false, `m ["\ud83d"]`},
		{"prototype key", "40", []string{`42["m",{"__proto__":{"a":1}}]`}, "", false, `m [{"__proto__":{"a":1}}]`},
		{"arguments of all kinds", "40", []string{`42[ "m" , 1.5 , "a,b]\"" , [1,[2]] , {"a":","} , null , true ]`}, "", false, `m [1.5,"a,b]\"",[1,[2]],{"a":","},null,true]`},
		{"nesting beyond reason", "40", []string{`42["m",` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `]`}, "", false, `m [` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := make(chan string, 100)
			timeout := 30 * time.Second
			if c.first == "-" && c.closed {
				timeout = 50 * time.Millisecond
			}
			s := serve(t, Options{ConnectTimeout: timeout, Namespaces: []string{"/", "/custom"}}, Accept{MaxPayload: 9000}, &hooks{
				connect: func(_ context.Context, _ *Socket, auth json.RawMessage) error {
					switch {
					case strings.Contains(string(auth), "deny"):
						return &ConnectError{Message: "not authorized", Data: json.RawMessage(`{"code":"E1"}`)}
					case strings.Contains(string(auth), "fail"):
						return context.DeadlineExceeded
					}
					return nil
				},
				event: func(s *Socket, e Event) {
					if e.Name == "end" {
						_ = s.Emit("end", nil)
						return
					}
					log <- describe(e)
					if e.AckID != NoAck {
						_ = s.Ack(e.AckID, json.RawMessage(`"r"`))
					}
				},
				disconnect: func(_ *Socket, reason string) { log <- "gone " + reason },
			})
			ws := s.dial()
			namespace := "/"
			if c.first != "-" {
				ws.say(c.first)
				ws.next()
				if strings.HasPrefix(c.first, "40/") {
					namespace = "/custom"
				}
			}
			var got []string
			if before, _, ok := strings.Cut(c.handler, "; gone"); ok {
				// The last frame ends the socket, and what is about to be handled with it.
				n := len(c.send) - 1
				ws.say(c.send[:n]...)
				if got = append(got, receive(t, log)); got[0] != before {
					t.Fatalf("handler: %.300q, want %.300q", got, before)
				}
				c.send = c.send[n:]
			}
			ws.say(c.send...)
			var back string
			if c.closed {
				_, back = ws.closed()
			} else {
				back = ws.untilEnd(namespace, c.name)
			}
			if got := anonymous(back); got != c.back {
				t.Errorf("came back %q, want %q", got, c.back)
			}
			for c.closed && strings.Contains(c.handler, "gone") {
				got = append(got, receive(t, log))
				if strings.HasPrefix(got[len(got)-1], "gone") {
					break
				}
			}
			s.sio.Close() // now all callbacks have been made
			if got := strings.Join(append(got, drained(log, c.closed)...), "; "); got != c.handler {
				t.Errorf("handler: %.300q, want %.300q", got, c.handler)
			}
		})
	}
}

func many(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// untilEnd makes the server answer once more and returns what came before that.
// A connection that has left its namespace joins again for it.
func (c *client) untilEnd(namespace, name string) string {
	c.t.Helper()
	rejoin := strings.Contains(name, "DISCONNECT") && !strings.HasSuffix(name, "CONNECT at once")
	prefix := ""
	if namespace != "/" || strings.Contains(name, "without comma") {
		prefix = "/custom,"
	}
	if rejoin {
		c.say("40" + prefix)
	}
	c.say("42" + prefix + `["end"]`)
	var all []string
	for {
		m := c.next()
		if m == "42"+prefix+`["end"]` {
			break
		}
		all = append(all, m)
	}
	if rejoin { // its answer is the last
		if len(all) == 0 || !strings.HasPrefix(all[len(all)-1], "40") {
			c.t.Fatalf("not joined again: %q", all)
		}
		all = all[:len(all)-1]
	}
	return strings.Join(all, " ")
}

// anonymous replaces ids.
func anonymous(s string) string {
	for rest := s; ; {
		_, after, ok := strings.Cut(rest, `{"sid":"`)
		if !ok || len(after) < 20 {
			return s
		}
		s = strings.Replace(s, after[:20], "ID", 1)
		rest = after[20:]
	}
}

// drained is what was logged, without the end that the test itself caused.
func drained(log chan string, closed bool) (all []string) {
	for len(log) > 0 {
		if m := <-log; closed || m != "gone server shutting down" {
			all = append(all, m)
		}
	}
	return all
}
