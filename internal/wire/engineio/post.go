package engineio

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// post handles the payload of a POST, packet by packet. It answers when all are
// handled, which holds back a client that sends more than the handler can take.
func (s *Session) post(w http.ResponseWriter, r *http.Request) {
	if code := s.beginPost(w, r); code >= 0 {
		fail(w, code)
		return
	}
	defer s.endPost()
	room := ws.Meter{Memory: &s.srv.large}
	defer room.Give()
	body, err := s.body(w, r, &room)
	if err != nil {
		s.Kill(ReasonTransportError)
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		if errors.Is(err, ws.ErrMemory) {
			status = http.StatusServiceUnavailable
		}
		w.Header().Set("Connection", "close") // the rest of the body is not read
		w.WriteHeader(status)
		return
	}
	if !s.payloadIn(body) {
		fail(w, badRequest)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("ok"))
}

// beginPost makes the request the one that is read; a code refuses it.
func (s *Session) beginPost(w http.ResponseWriter, r *http.Request) errorCode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overdue(s.srv.clock.Now())
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case s.state == closed:
		return unknownSession
	case s.state == ending && !s.posting:
		// Sent before the client can know: a refusal would be the first it hears
		// of the end, and of the packets that wait for its GET it would hear
		// nothing. What it sends is read and dropped.
	case s.ws != nil:
		return badRequest
	case s.posting, strings.EqualFold(strings.TrimSpace(media), "application/octet-stream"):
		s.endLocked(ReasonTransportError, 0)
		return badRequest
	}
	s.posting = true
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(s.srv.o.BodyTimeout))
	s.abort = func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) }
	return none
}

func (s *Session) endPost() {
	s.mu.Lock()
	s.posting = false
	s.mu.Unlock()
}

// body reads the payload within its bounds of size and time.
func (s *Session) body(w http.ResponseWriter, r *http.Request, room *ws.Meter) ([]byte, error) {
	s.mu.Lock()
	limit := s.limit
	s.mu.Unlock()
	var b bytes.Buffer
	if n := r.ContentLength; n > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	} else if n > 0 {
		b.Grow(int(min(n, ws.KeepBuffer)) + bytes.MinRead)
	}
	room.R = http.MaxBytesReader(w, r.Body, limit)
	n, err := b.ReadFrom(room)
	s.srv.o.Counts.In.Add(n)
	s.mu.Lock()
	s.abort = nil
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// The deadline was the body's. It would end the request when it passes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if !utf8.Valid(b.Bytes()) {
		return nil, ws.ErrUTF8
	}
	return b.Bytes(), nil
}

// payloadIn handles the packets of a payload; false means the session has ended
// over one of them. Those before it have been handled.
func (s *Session) payloadIn(body []byte) bool {
	if bytes.Count(body, []byte{separator}) >= s.srv.o.MaxPackets {
		s.Kill(ReasonParseError)
		return false
	}
	for more := true; more; {
		var packet []byte
		packet, body, more = bytes.Cut(body, []byte{separator})
		switch err := s.receive(Message{Data: packet[:len(packet):len(packet)]}); {
		case errors.Is(err, errClientClose):
			s.leave()
			return true
		case err != nil:
			s.Kill(reasonOf(err))
			return false
		}
	}
	return true
}

// leave is the client's own close packet. Its GET, which waits or is about to
// come, is answered as if nothing had happened.
func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open {
		s.byClient = true
		s.endLocked(ReasonTransportClose, closeNormal)
	}
}
