package phoenix

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

var errFrames = errors.New("phoenix: too many frames in one request")

// post handles the frames of a POST, in order. It answers when all are handled or
// wait for a join, which holds back a client that sends more than that.
func (s *socket) post(w http.ResponseWriter, r *http.Request) {
	s.began()
	defer s.done()
	room := ws.Meter{Memory: &s.srv.large}
	defer room.Give()
	body, err := s.body(w, r, &room)
	switch {
	case errors.Is(err, ErrClosed):
		status(w, pollGone)
		return
	case err != nil:
		s.end(ReasonTransport, 0)
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		if errors.Is(err, ws.ErrMemory) {
			code = http.StatusServiceUnavailable
		}
		w.Header().Set("Connection", "close") // the rest of the body is not read
		w.WriteHeader(code)
		return
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	lines := strings.EqualFold(strings.TrimSpace(media), "application/x-ndjson")
	if err := s.frames(body, lines); err != nil {
		reason, code := verdict(err)
		s.end(reason, code)
		status(w, pollGone)
		return
	}
	s.mu.Lock()
	gone := s.state != open
	s.mu.Unlock()
	if gone {
		status(w, pollGone)
		return
	}
	status(w, pollMessages)
}

// body reads the request within its bounds of size and time. One request may hold
// several frames, so it may be twice as large as one of them.
func (s *socket) body(w http.ResponseWriter, r *http.Request, room *ws.Meter) ([]byte, error) {
	rc := http.NewResponseController(w)
	limit, ok := s.beginBody(rc)
	if !ok {
		return nil, ErrClosed
	}
	defer s.endBody(rc)
	var b bytes.Buffer
	if n := r.ContentLength; n > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	} else if n > 0 {
		b.Grow(int(min(n, ws.KeepBuffer)) + bytes.MinRead)
	}
	room.R = http.MaxBytesReader(w, r.Body, limit)
	n, err := b.ReadFrom(room)
	s.srv.o.Counts.In.Add(n)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b.Bytes()) {
		return nil, ws.ErrUTF8
	}
	return b.Bytes(), nil
}

// beginBody bounds the time for reading a body, or says that there is nobody left
// whose it could be.
func (s *socket) beginBody(rc *http.ResponseController) (limit int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open {
		return 0, false
	}
	if s.bodies == nil {
		s.bodies = map[*http.ResponseController]struct{}{}
	}
	s.bodies[rc] = struct{}{}
	_ = rc.SetReadDeadline(time.Now().Add(s.srv.o.BodyTimeout))
	return 2 * s.limit, true
}

// endBody lifts the deadline: it was the body's, and would end the request.
func (s *socket) endBody(rc *http.ResponseController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.bodies, rc); len(s.bodies) == 0 {
		s.bodies = nil
	}
	if s.state == open {
		_ = rc.SetReadDeadline(time.Time{})
	}
}

// frames handles a body: with lines one frame each, without them one in all. Those
// before one that is refused have been handled.
func (s *socket) frames(body []byte, lines bool) error {
	s.in.Lock() // older clients send several requests at once
	defer s.in.Unlock()
	if !lines {
		return s.frame(body)
	}
	if bytes.Count(body, []byte{'\n'}) >= s.srv.o.MaxFrames {
		return errFrames
	}
	for more := true; more; {
		var line []byte
		line, body, more = bytes.Cut(body, []byte{'\n'})
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := s.frame(line); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) frame(b []byte) error {
	switch {
	case int64(len(b)) > s.maxPayload:
		return errTooLarge
	case len(b) > 0 && b[0] != '[' && b[0] != '{':
		return errBinary // a binary push comes as base64
	}
	return s.receive(b[:len(b):len(b)])
}
