package engineio

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// errorCode is the "code" of a refusal; its text is what clients show.
type errorCode int

const (
	none             errorCode = -1
	unknownTransport errorCode = iota - 1
	unknownSession
	badMethod
	badRequest
	forbidden
	unsupported
)

var errorTexts = [...]string{
	unknownTransport: "Transport unknown",
	unknownSession:   "Session ID unknown",
	badMethod:        "Bad handshake method",
	badRequest:       "Bad request",
	forbidden:        "Forbidden",
	unsupported:      "Unsupported protocol version",
}

// fail refuses a request in the form that clients of the protocol expect.
func fail(w http.ResponseWriter, code errorCode) {
	status := http.StatusBadRequest
	if code == forbidden {
		status = http.StatusForbidden
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"code":` + strconv.Itoa(int(code)) + `,"message":"` + errorTexts[code] + `"}`))
}

// unavailable refuses a handshake for now. Clients of the protocol come back on
// their own; the header is for proxies and for people.
func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "try again later", http.StatusServiceUnavailable)
}

// Accept serves one HTTP request. For a WebSocket it takes over the connection
// and returns, keeping neither w nor r.
func (e *Server) Accept(w http.ResponseWriter, r *http.Request, a Accept) {
	if !e.enter() {
		unavailable(w)
		return
	}
	defer e.wg.Done()
	def(&a.MaxPayload, DefaultMaxPayload)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !strings.HasPrefix(r.URL.Path, a.Path):
		http.NotFound(w, r)
	case r.Method == http.MethodConnect:
		// RFC 8441. Browsers use HTTP/1.1 as long as it is not advertised.
		e.extended.Do(func() {
			e.o.Logger.Warn("a WebSocket over HTTP/2 was refused: run without GODEBUG=http2xconnect=1, so that clients use HTTP/1.1")
		})
		http.Error(w, "WebSocket needs HTTP/1.1", http.StatusNotImplemented)
	case r.Method == http.MethodOptions:
		a.preflight(w, r)
	default:
		e.route(w, r, &a)
	}
}

// route checks in the order of the reference server, so that a request with more
// than one fault gets the answer that its clients' tests expect.
func (e *Server) route(w http.ResponseWriter, r *http.Request, a *Accept) {
	q := r.URL.Query()
	transport, sid := q.Get("transport"), q.Get("sid")
	ws := headerHas(r.Header, "Upgrade", "websocket")
	switch {
	case transport != "polling" && transport != "websocket":
		fail(w, unknownTransport)
		return
	case !legal(r.Header.Get("Origin")):
		fail(w, badRequest)
		return
	case !a.allowed(w, r):
		fail(w, forbidden)
		return
	}
	if sid == "" {
		switch {
		case r.Method != http.MethodGet:
			fail(w, badMethod)
		case ws != (transport == "websocket"):
			fail(w, badRequest)
		case q.Get("EIO") != "4":
			fail(w, unsupported)
		default:
			e.handshake(w, r, a, ws)
		}
		return
	}
	s := e.find(sid)
	switch {
	case s == nil:
		fail(w, unknownSession)
	case q.Get("EIO") != "4":
		fail(w, unsupported)
	case ws != (transport == "websocket"):
		fail(w, badRequest)
	case ws:
		s.upgrade(w, r)
	case r.Method == http.MethodGet:
		s.poll(w, r)
	case r.Method == http.MethodPost:
		s.post(w, r)
	default:
		fail(w, badRequest)
	}
}

func headerHas(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(v), token) {
				return true
			}
		}
	}
	return false
}

// handshake opens a session.
func (e *Server) handshake(w http.ResponseWriter, r *http.Request, a *Accept, ws bool) {
	s := &Session{
		srv: e, id: NewID(), value: a.Value, remoteIP: a.RemoteIP, maxPayload: a.MaxPayload, limit: a.MaxPayload,
	}
	if !e.reserve() {
		unavailable(w)
		return
	}
	if !ws {
		e.begin(s)
		if a.Cookie != "" {
			value := a.CookieValue
			if value == "" {
				value = s.id
			}
			path := a.CookiePath
			if path == "" {
				path = "/"
			}
			http.SetCookie(w, &http.Cookie{
				Name: a.Cookie, Value: value, Path: path, HttpOnly: true,
				Secure: a.CookieSecure || r.TLS != nil, SameSite: http.SameSiteLaxMode,
			})
		}
		s.answer(w, s.openPacket(`["websocket"]`))
		return
	}
	conn, err := e.conns.Accept(w, r)
	if err != nil {
		e.unreserve()
		return
	}
	conn.SetReadLimit(s.maxPayload)
	s.ws = conn
	first := control(string(s.openPacket("[]")))
	s.queue.Push(entry{&first, 0})
	e.begin(s)
	s.mu.Lock()
	if s.queue.Len() > 0 {
		s.kick()
	}
	s.mu.Unlock()
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		s.read(conn)
	}()
}

// openPacket is the handshake's answer: exactly these five members.
func (s *Session) openPacket(upgrades string) []byte {
	o := &s.srv.o
	b := append([]byte(`0{"sid":"`), s.id...)
	b = append(append(b, `","upgrades":`...), upgrades...)
	b = strconv.AppendInt(append(b, `,"pingInterval":`...), o.PingInterval.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"pingTimeout":`...), o.PingTimeout.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"maxPayload":`...), s.maxPayload, 10)
	return append(b, '}')
}

// NewID returns 20 characters that cannot be guessed: 120 random bits, as
// base64url.
func NewID() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return base64.RawURLEncoding.EncodeToString(b[:])
}
