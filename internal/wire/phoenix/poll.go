package phoenix

import (
	"net/http"
	"strconv"
	"time"
)

// The statuses of long-polling. They stand in the body: of HTTP each answer is
// 200, but for those that are no answer of this protocol.
const (
	pollMessages  = 200
	pollNothing   = 204
	pollForbidden = 403
	// pollGone answers who has no connection here: a GET without a token with a
	// new one, any other request so that its client starts again.
	pollGone = 410
)

// maxPollBytes is how much one answer carries, a single frame aside.
const maxPollBytes = 1 << 20

// waiter is a GET that waits for frames.
type waiter struct {
	c    chan struct{} // capacity 1
	done bool          // superseded by another GET; guarded by socket.mu
}

func (p *waiter) wake() {
	select {
	case p.c <- struct{}{}:
	default:
	}
}

// acceptPoll serves the endpoint of long-polling.
func (e *Server) acceptPoll(w http.ResponseWriter, r *http.Request, a *Accept) {
	if r.Method == http.MethodOptions {
		a.preflight(w, r)
		return
	}
	if !a.allowed(w, r) {
		status(w, pollForbidden)
		return
	}
	q := r.URL.Query()
	token := r.Header.Get(headerPoll)
	if token == "" {
		token = q.Get("token")
	}
	s := e.poll(token)
	switch {
	case r.Method == http.MethodPost && s != nil:
		s.post(w, r)
	case r.Method == http.MethodGet && s != nil:
		s.serve(w, r, token)
	case r.Method == http.MethodGet && token == "" && !version2.MatchString(q.Get("vsn")):
		status(w, pollForbidden)
	case r.Method == http.MethodGet && token == "":
		e.openPoll(w, r, a)
	case r.Method == http.MethodGet || r.Method == http.MethodPost:
		status(w, pollGone)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// openPoll makes a connection.
func (e *Server) openPoll(w http.ResponseWriter, r *http.Request, a *Accept) {
	if !e.reserve(w) {
		return
	}
	s := &socket{srv: e, polls: true, key: newPollKey()}
	s.init(a)
	e.begin(s)
	if a.Cookie != "" {
		value := a.CookieValue
		if value == "" {
			value = s.id
		}
		http.SetCookie(w, &http.Cookie{
			Name: a.Cookie, Value: value, Path: "/", HttpOnly: true,
			Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode,
		})
	}
	s.reply(w, envelope(pollGone, e.token(s.key), nil))
}

// serve answers a GET with what is queued, waiting for it if need be.
func (s *socket) serve(w http.ResponseWriter, r *http.Request, token string) {
	me, ok := s.beginPoll()
	if !ok {
		status(w, pollGone)
		return
	}
	// A server's read timeout is meant for slow requests, not for this wait.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	window := time.NewTimer(s.srv.o.PollWindow)
	defer window.Stop()
	over := false
	for {
		frames, code := s.collect(me, over)
		switch {
		case code == pollGone:
			status(w, pollGone)
			return
		case code != 0:
			s.reply(w, envelope(code, token, frames))
			return
		}
		select {
		case <-me.c:
		case <-window.C:
			over = true
		case <-r.Context().Done():
			// Published clients never go on after a GET that failed.
			if s.endPoll(me) {
				s.end(ReasonTransport, 0)
			}
			return
		}
	}
}

// beginPoll makes the request the one that waits. One that waited before is let
// go: its client has given it up, even if the line has not said so yet.
func (s *socket) beginPoll() (*waiter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == closed {
		return nil, false
	}
	if p := s.poller; p != nil {
		p.done = true
		p.wake()
	}
	s.poller = &waiter{c: make(chan struct{}, 1)}
	return s.poller, true
}

// endPoll says whether the request was still the one that waits.
func (s *socket) endPoll(me *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poller != me {
		return false
	}
	s.poller, s.seen = nil, s.srv.clock.Now()
	return true
}

// collect takes the answer of the waiting GET, if there is one by now: a code
// that is not 0.
func (s *socket) collect(me *waiter, over bool) (frames []byte, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case me.done:
		return nil, pollNothing
	case s.queue.Len() > 0:
		frames, code = s.pack(), pollMessages
		if s.state == ending && s.queue.Len() == 0 {
			s.state = closed // the next GET hears of it
			s.srv.drop(s)
		}
	case s.state != open:
		code = pollGone
	case over:
		code = pollNothing
	default:
		return nil, 0
	}
	s.poller, s.seen = nil, s.srv.clock.Now()
	return frames, code
}

// pack takes as many frames as one answer may hold, as JSON strings. Holds s.mu.
func (s *socket) pack() []byte {
	var b []byte
	n := 0
	for n < s.queue.Len() && (n == 0 || len(b)+s.queue.At(n).size() < maxPollBytes) {
		if n > 0 {
			b = append(b, ',')
		}
		e := s.queue.At(n)
		b = quote(b, e.head+string(e.tail))
		n++
	}
	s.drop(n)
	return b
}

// envelope is an answer with a token.
func envelope(code int, token string, frames []byte) []byte {
	b := strconv.AppendInt([]byte(`{"status":`), int64(code), 10)
	b = append(b, `,"token":`...)
	b = quote(b, token)
	b = append(append(b, `,"messages":[`...), frames...)
	return append(b, ']', '}')
}

// status is an answer without one.
func status(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(strconv.AppendInt([]byte(`{"status":`), int64(code), 10), '}'))
}

// reply writes an answer and bounds the time that takes. A client that did not
// get it is gone: what it should have had cannot be sent again.
func (s *socket) reply(w http.ResponseWriter, body []byte) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(s.srv.o.WriteTimeout))
	// The next request of the connection must not inherit the deadline.
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	n, err := w.Write(body)
	s.srv.o.Counts.Out.Add(int64(n))
	if err != nil {
		s.end(ReasonTransport, 0)
		return
	}
	_ = rc.Flush()
}
