package edge

import (
	"net/http/httptest"
	"testing"
)

// Each connection has its one line in the log, whatever its client adds to the
// address, and no poll of one that is there has another.
func TestOpens(t *testing.T) {
	s := &Site{Pilotoo: &Pilotoo{Path: "/socket.io/"}, Pingerchips: &Pingerchips{Path: "/socket/"}, Smooth: &Smooth{Path: "/ws"}}
	for _, c := range []struct{ method, target, poll, want string }{
		{"GET", "/socket.io/?EIO=4&transport=websocket", "", "pilotoo"},
		{"GET", "/socket.io/?EIO=4&transport=polling&sid=x", "", ""},
		{"POST", "/socket.io/?EIO=4&transport=polling", "", ""},
		{"GET", "/socket/websocket?vsn=2.0.0", "", "pingerchips"},
		{"GET", "/socket/websocket?vsn=2.0.0&token=secret", "", "pingerchips"},
		{"GET", "/socket/websocket?vsn=2.0.0", "x", "pingerchips"},
		{"GET", "/socket/longpoll?vsn=2.0.0", "", "pingerchips"},
		{"GET", "/socket/longpoll?vsn=2.0.0&token=x", "", ""},
		{"GET", "/socket/longpoll?vsn=2.0.0", "x", ""},
		{"GET", "/ws?token=secret", "", "smooth"},
		{"GET", "/elsewhere", "", ""},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		if c.poll != "" {
			r.Header.Set("X-Phoenix-Longpoll-Token", c.poll)
		}
		if got := opens(s, r); got != c.want {
			t.Errorf("%s %s with the header %q opens %q, want %q", c.method, c.target, c.poll, got, c.want)
		}
	}
}
