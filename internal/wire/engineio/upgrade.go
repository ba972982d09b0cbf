package engineio

import (
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// maxProbes bounds the upgrades a session may try, and maxProbePings the probes
// of each: enough for any bad network, too few to be of use to anyone else.
const (
	maxProbes     = 16
	maxProbePings = 4
	probeLimit    = 64 // bytes of a message before the upgrade
)

var probePong = control("3probe")

// probe is a WebSocket on its way to become a session's transport.
type probe struct {
	conn     *ws.Conn // nil until the request is answered
	answered bool     // the client has its pong: GETs must be released
}

// upgrade serves a WebSocket request for a session that exists.
func (s *Session) upgrade(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.overdue(s.srv.clock.Now())
	alive := s.state == open
	var p *probe
	if alive && s.ws == nil && s.probe == nil && s.probes < maxProbes {
		p = &probe{}
		s.probe = p
		s.probes++
	}
	s.mu.Unlock()
	if !alive {
		fail(w, unknownSession)
		return
	}
	conn, err := s.srv.conns.Accept(w, r)
	if p == nil {
		// Accepted and closed, as the reference does: a browser shows a failed
		// handshake as an error, and the session's own transport is unaffected.
		if err == nil {
			s.srv.wg.Add(1)
			go func() {
				defer s.srv.wg.Done()
				conn.Refuse(closePolicy, probeLimit)
			}()
		}
		return
	}
	if err != nil {
		s.unprobe(p)
		return
	}
	s.mu.Lock()
	p.conn = conn
	dead := s.state != open
	s.mu.Unlock()
	if dead {
		conn.End()
		return
	}
	s.srv.wg.Add(1)
	go func() {
		defer s.srv.wg.Done()
		if s.probing(p) {
			s.read(conn)
			return
		}
		s.unprobe(p)
		conn.Refuse(closePolicy, probeLimit)
	}()
}

func (s *Session) unprobe(p *probe) {
	s.mu.Lock()
	if s.probe == p {
		s.probe = nil
	}
	s.mu.Unlock()
}

// probing serves the exchange 2probe, 3probe, 5 and says whether the WebSocket
// is now the session's transport. A session whose upgrade fails lives on.
func (s *Session) probing(p *probe) bool {
	conn := p.conn
	_ = conn.SetReadDeadline(time.Now().Add(s.srv.o.UpgradeTimeout))
	conn.SetReadLimit(probeLimit)
	for pings := 0; ; {
		binary, data, err := conn.ReadMessage(&ws.Meter{Memory: &s.srv.large})
		switch {
		case err != nil || binary:
			return false
		case string(data) == "2probe" && pings < maxProbePings:
			pings++
			if _, err := conn.Write(probePong.wire); err != nil {
				return false
			}
			s.mu.Lock()
			p.answered = true
			s.kick() // the GET that waits must learn of it
			s.mu.Unlock()
		case string(data) == "5":
			return s.takeOver(p)
		default:
			return false
		}
	}
}

// takeOver makes the probe's WebSocket the transport. What is queued goes there,
// before anything newer.
func (s *Session) takeOver(p *probe) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open {
		return false
	}
	_ = p.conn.SetReadDeadline(time.Time{})
	p.conn.SetReadLimit(s.limit)
	s.kick() // a GET that still waits is a stray now
	s.probe, s.ws = nil, p.conn
	if s.queue.Len() > 0 || s.beat.unsent {
		s.kick()
	}
	return true
}
