package engineio

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// local serves without a network, so that a bubble's clock rules it.
type local struct {
	t   *testing.T
	eio *Server
	h   *echo
	sid string
}

// inBubble runs f on a polling session of a server with the default heartbeat,
// 25 s and 20 s.
func inBubble(t *testing.T, f func(l *local)) {
	synctest.Test(t, func(t *testing.T) {
		l := &local{t: t, h: newEcho()}
		l.eio = NewServer(Options{}, l.h)
		defer l.eio.Close()
		_, body := l.do("GET", "")
		l.sid = strings.Split(body, `"`)[3]
		f(l)
	})
}

func (l *local) do(method, body string) (int, string) {
	q := "/?" + polling
	if l.sid != "" {
		q += "&sid=" + l.sid
	}
	w := httptest.NewRecorder()
	l.eio.Accept(w, httptest.NewRequest(method, q, strings.NewReader(body)), Accept{})
	return w.Code, w.Body.String()
}

func (l *local) want(method, body string, code int, answer string) {
	l.t.Helper()
	if c, b := l.do(method, body); c != code || b != answer {
		l.t.Fatalf("%s %q: got %d %q, want %d %q", method, body, c, b, code, answer)
	}
}

func TestPingComesAfterTheInterval(t *testing.T) {
	inBubble(t, func(l *local) {
		for range 5 {
			start := time.Now()
			l.want("GET", "", 200, "2")
			if d := time.Since(start); d != DefaultPingInterval {
				t.Fatalf("ping after %v", d)
			}
			// From the pong, not on a grid.
			time.Sleep(7 * time.Second)
			l.want("POST", "3", 200, "ok")
		}
	})
}

func TestPingTimeout(t *testing.T) {
	inBubble(t, func(l *local) {
		l.want("GET", "", 200, "2")
		time.Sleep(DefaultPingTimeout - time.Millisecond)
		synctest.Wait()
		if n := l.eio.Sessions(); n != 1 {
			t.Fatal("closed too early")
		}
		time.Sleep(time.Millisecond)
		l.want("GET", "", 400, badSession) // at once, whatever the clock's goroutine does
		l.h.wantClose(t, ReasonPingTimeout)
	})
}

func TestPingTimeoutReleasesTheGET(t *testing.T) {
	inBubble(t, func(l *local) {
		l.want("GET", "", 200, "2")
		l.want("GET", "", 200, "1")
		l.want("GET", "", 400, badSession)
	})
}

func TestOnlyPongsCount(t *testing.T) {
	inBubble(t, func(l *local) {
		l.want("GET", "", 200, "2")
		for range 19 {
			time.Sleep(time.Second)
			l.want("POST", "4x", 200, "ok")
		}
		time.Sleep(time.Second)
		l.want("POST", "4x", 400, badSession)
	})
}

func TestUnaskedPongPostponesThePing(t *testing.T) {
	inBubble(t, func(l *local) {
		time.Sleep(20 * time.Second)
		l.want("POST", "3", 200, "ok")
		start := time.Now()
		l.want("GET", "", 200, "2")
		if d := time.Since(start); d != DefaultPingInterval {
			t.Fatalf("ping after %v", d)
		}
	})
}

func TestPingLeadsThePayload(t *testing.T) {
	inBubble(t, func(l *local) {
		l.want("POST", "4x", 200, "ok")
		time.Sleep(DefaultPingInterval)
		synctest.Wait()
		l.want("GET", "", 200, "2\x1e4x")
	})
}

// TestSlowHandlerIsNotTheClientsFault: while a message is handled nothing is
// read, so a pong may be there unseen.
func TestSlowHandlerIsNotTheClientsFault(t *testing.T) {
	inBubble(t, func(l *local) {
		l.h.message = func(*Session, Message) error { time.Sleep(5 * time.Minute); return nil }
		l.want("POST", "4x\x1e3", 200, "ok")
		l.want("GET", "", 200, "2")
		l.h.message = nil
		// What was taken from the pong's time is given back, and no more.
		time.Sleep(DefaultPingTimeout)
		synctest.Wait()
		l.want("GET", "", 400, badSession)
	})
}

// TestPongTimeStandsStill while a message is handled: what is left of it when
// the handler takes over is left when it returns.
func TestPongTimeStandsStill(t *testing.T) {
	inBubble(t, func(l *local) {
		l.h.message = func(*Session, Message) error { time.Sleep(5 * time.Minute); return nil }
		l.want("POST", "4x", 200, "ok")
		time.Sleep(DefaultPingTimeout - 1)
		l.want("POST", "3", 200, "ok")
		l.want("GET", "", 200, "2")
	})
}

func TestDeadline(t *testing.T) {
	inBubble(t, func(l *local) {
		e := l.eio.find(l.sid)
		e.SetDeadline(10*time.Second, "too late")
		e.SetDeadline(0, "")
		e.SetDeadline(5*time.Second, "too late")
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if l.eio.Sessions() != 1 {
			t.Fatal("closed too early")
		}
		time.Sleep(time.Nanosecond)
		l.want("GET", "", 200, "6\x1e1")
		l.h.wantClose(t, "too late")
	})
}

func TestEndedSessionsAreForgotten(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(l *local)
		linger time.Duration
	}{
		{"server", func(l *local) { l.eio.find(l.sid).Close("x", closeNormal) }, lingerServer},
		{"client", func(l *local) { l.want("POST", "1", 200, "ok") }, lingerClient},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(l *local) {
				c.end(l)
				if l.eio.Sessions() != 0 {
					t.Fatal("still counted as live")
				}
				time.Sleep(c.linger - 1)
				synctest.Wait()
				if l.eio.find(l.sid) == nil {
					t.Fatal("forgotten too early")
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if l.eio.find(l.sid) != nil || l.eio.taken != 0 || l.eio.clock.Len() != 0 {
					t.Fatal("not forgotten")
				}
				l.want("GET", "", 400, badSession)
			})
		})
	}
}

// TestClockWithOtherProportions: the timeout may be longer than the interval.
func TestClockWithOtherProportions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &local{t: t, h: newEcho()}
		l.eio = NewServer(Options{PingInterval: time.Second, PingTimeout: 20 * time.Second}, l.h)
		defer l.eio.Close()
		_, body := l.do("GET", "")
		l.sid = strings.Split(body, `"`)[3]
		for range 10 {
			start := time.Now()
			l.want("GET", "", 200, "2")
			if d := time.Since(start); d != time.Second {
				t.Fatalf("ping after %v", d)
			}
			l.want("POST", "3", 200, "ok")
		}
	})
}
