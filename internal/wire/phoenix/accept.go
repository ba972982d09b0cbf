package phoenix

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

const (
	subprotocol  = "phoenix"
	bearerPrefix = "base64url.bearer.phx."
	headerToken  = "X-Phoenix-AuthToken"
	headerPoll   = "X-Phoenix-Longpoll-Token"
)

// version2 are the versions of the serializer that this server speaks; a request
// without one asks for 1.0.0, as it does of the reference.
var version2 = regexp.MustCompile(`^2\.0\.(0|[1-9][0-9]{0,8})$`)

// AuthToken is the token that a client's authToken option has sent with its
// handshake: as a subprotocol on a WebSocket, in a header on long-polling. Empty
// if there is none.
func AuthToken(r *http.Request) string {
	if t := r.Header.Get(headerToken); t != "" {
		return t
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			text, ok := strings.CutPrefix(strings.TrimSpace(p), bearerPrefix)
			if !ok {
				continue
			}
			// Clients differ in the alphabet and in the padding.
			text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
			if b, err := base64.RawURLEncoding.DecodeString(text); err == nil {
				return string(b)
			}
		}
	}
	return ""
}

// Opens says whether a GET may open a connection: a WebSocket, or a poll that names
// none. What names one in its query is no poll on a WebSocket.
func Opens(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/websocket") || r.Header.Get(headerPoll) == "" && r.URL.Query().Get("token") == ""
}

// Accept serves one HTTP request. For a WebSocket it takes over the connection
// and returns, keeping neither w nor r; a polling GET returns when there is
// something for the client.
func (e *Server) Accept(w http.ResponseWriter, r *http.Request, a Accept) {
	if !e.enter() {
		unavailable(w)
		return
	}
	defer e.wg.Done()
	def(&a.MaxPayload, DefaultMaxPayload)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rest, ok := strings.CutPrefix(r.URL.Path, a.Path)
	if a.Path == "" {
		rest = rest[strings.LastIndexByte(rest, '/')+1:]
	}
	switch {
	case ok && rest == "websocket":
		e.acceptWebSocket(w, r, &a)
	case ok && rest == "longpoll":
		e.acceptPoll(w, r, &a)
	default:
		http.NotFound(w, r)
	}
}

func (e *Server) acceptWebSocket(w http.ResponseWriter, r *http.Request, a *Accept) {
	switch {
	case r.Method == http.MethodConnect:
		// RFC 8441. Browsers use HTTP/1.1 as long as it is not advertised.
		e.extended.Do(func() {
			e.o.Logger.Warn("a WebSocket over HTTP/2 was refused: run without GODEBUG=http2xconnect=1, so that clients use HTTP/1.1")
		})
		http.Error(w, "WebSocket needs HTTP/1.1", http.StatusNotImplemented)
		return
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusBadRequest)
		return
	case !a.allowed(w, r), !version2.MatchString(r.URL.Query().Get("vsn")):
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if !e.reserve(w) {
		return
	}
	conn, err := e.conns.Accept(w, r, subprotocol) // a browser that offers it, to carry a token, fails without it
	if err != nil {
		e.unreserve()
		return
	}
	s := &socket{srv: e}
	s.init(a)
	s.ws = conn
	conn.SetReadLimit(s.limit)
	e.begin(s)
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		s.read(conn)
	}()
}

// unavailable refuses a handshake for now. Clients of the protocol come back on
// their own; the header is for proxies and for people.
func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// allowed decides on the request's origin and, if it is a foreign one that may
// come in, says so to the browser (Fetch standard, CORS protocol).
func (a *Accept) allowed(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser, or a request of the page's own host
	}
	ok := engineio.SameHost(origin, r)
	if a.Origins != nil {
		ok = a.Origins(origin, r)
	}
	if ok {
		// Never "*": the client may send credentials, with which that is void.
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return ok
}

// preflight answers an OPTIONS request.
func (a *Accept) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Headers")
	if !a.allowed(w, r) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Header.Get("Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		if v := r.Header.Get("Access-Control-Request-Headers"); v != "" && len(v) <= 1024 {
			h.Set("Access-Control-Allow-Headers", v)
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}
