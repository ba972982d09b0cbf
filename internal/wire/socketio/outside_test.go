package socketio

import (
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestOutside(t *testing.T) {
	large := strings.Repeat("x", 2*maxOutside)
	t.Run("R2 a large message of one who has not connected", func(t *testing.T) {
		s := serve(t, Options{}, Accept{MaxPayload: 1 << 20}, &hooks{})
		c := s.dial()
		c.say(`40{"token":"` + large + `"}`)
		if code, _ := c.closed(); code != websocket.StatusMessageTooBig {
			t.Fatalf("closed with %d", code)
		}
	})
	t.Run("R2 the same once he has", func(t *testing.T) {
		got := make(chan int, 1)
		s := serve(t, Options{}, Accept{MaxPayload: 1 << 20}, &hooks{event: func(_ *Socket, e Event) { got <- len(e.Args[0]) }})
		c := s.dial()
		c.say("40")
		c.next()
		c.say(`42["m","` + large + `"]`)
		if n := receive(t, got); n != len(large)+2 {
			t.Fatalf("%d bytes", n)
		}
		c.say("41")
		c.say(`42["m","` + large + `"]`)
		if code, _ := c.closed(); code != websocket.StatusMessageTooBig {
			t.Fatalf("closed with %d after it left", code)
		}
	})
	t.Run("R2 who leaves the last namespace has no connection for ever", func(t *testing.T) {
		s := serve(t, Options{ConnectTimeout: 50 * time.Millisecond}, Accept{}, &hooks{})
		c := s.dial()
		c.say("40")
		c.next()
		c.say("41")
		if code, _ := c.closed(); code != websocket.StatusGoingAway {
			t.Fatalf("closed with %d", code)
		}
	})
	t.Run("I16 attachments that never come hold no more than their bound", func(t *testing.T) {
		s := serve(t, Options{AttachmentBytes: 1000}, Accept{MaxPayload: 1 << 20}, &hooks{})
		c := s.dial()
		c.say("40")
		c.next()
		c.say(`452-["m",{"_placeholder":true,"num":0}]`)
		if err := c.Write(t.Context(), websocket.MessageBinary, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if code, _ := c.closed(); code != websocket.StatusProtocolError {
			t.Fatalf("closed with %d", code)
		}
	})
}
