package pilotoo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

// Bounds of the HTTP routes.
const (
	maxConversationBody = 16 << 10
	defaultPage         = 50
	maxPage             = 200
)

// The first segments of the paths of PIL-195 and PIL-197: those that a gateway
// serves itself, and those that go to a configured upstream.
var (
	ownRoutes       = []string{"health", "protocol", "conversations", "attachments"}
	forwardedRoutes = []string{"agents", "agent-admin", "presentations", "usage", "schedules", "model-gateway"}
)

// IsRoute says whether path, which begins with a slash, is one of the
// protocol's HTTP routes.
func IsRoute(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return strings.HasPrefix(path, "/") && (slices.Contains(ownRoutes, first) || slices.Contains(forwardedRoutes, first))
}

// IsAnonymous says whether the route answers anybody (PIL-195).
func IsAnonymous(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "health" || first == "protocol"
}

// Request is one HTTP request to a route: Path is what follows the prefix that
// the routes are mounted under.
type Request struct {
	Path  string
	Visit *dialect.Visit
	// Origins admits pages of other hosts: to read answers, and to change what
	// a browser's cookie gives access to. Nil admits the request's own host only.
	Origins func(origin string, r *http.Request) bool
	// Upstream serves what a gateway does not, or is nil.
	Upstream http.Handler
}

// ServeRoute answers a request to one of the routes (PIL-195 to PIL-198).
func (s *Server) ServeRoute(w http.ResponseWriter, r *http.Request, q Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	first, rest, _ := strings.Cut(strings.TrimPrefix(q.Path, "/"), "/")
	// Which pages may read what an upstream answers, the upstream says.
	if slices.Contains(ownRoutes, first) && cors(w, r, q.Origins) {
		return
	}
	switch {
	case first == "health":
		anonymous(w, r, []byte(`{"status":"ok"}`))
		return
	case first == "protocol":
		anonymous(w, r, announcement())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTimeout)
	defer cancel()
	p, err := q.Visit.Site.Admit(ctx, q.Visit.Creds)
	if err != nil {
		s.o.Logger.Debug("a request was refused", "site", q.Visit.Site.Name(), "reason", identity.Reason(err))
		w.Header().Set("WWW-Authenticate", "Bearer")
		problem(w, http.StatusUnauthorized, "UNAUTHORIZED", "sign in first")
		return
	}
	if p.Ambient && unsafe(r) && !sameSite(r, q.Origins) {
		problem(w, http.StatusForbidden, "FORBIDDEN", "the request comes from another site")
		return
	}
	if slices.Contains(ownRoutes, first) && unsafe(r) && !s.requests.admit(q.Visit, p, first, s.o.Now()) {
		s.o.Counts.OverCommands.Add(1)
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusTooManyRequests, string(CodeInvalid), "too many requests; slow down")
		return
	}
	switch first {
	case "conversations":
		s.conversations(w, r.WithContext(ctx), p, rest)
	case "attachments":
		s.attachments(w, r.WithContext(ctx), p, rest)
	default:
		// An upstream may stream for as long as it likes.
		if q.Upstream == nil {
			problem(w, http.StatusNotImplemented, "NOT_IMPLEMENTED", "this gateway does not serve /"+first+"; configure pilotoo { upstream URL } to forward it")
			return
		}
		q.Upstream.ServeHTTP(w, r)
	}
}

// unsafe says whether a page of another site must not make a browser send the
// request. An upgrade is a GET, and yet whoever sent it may speak and listen.
func unsafe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.Header.Get("Upgrade") != ""
	}
	return true
}

// sameSite says whether a browser sent the request from a page that may. A
// browser names the page's origin with every request that changes something;
// one without is no browser's.
func sameSite(r *http.Request, origins func(string, *http.Request) bool) bool {
	if f := r.Header.Get("Sec-Fetch-Site"); f != "" && f != "same-origin" && f != "none" && origins == nil {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if origins != nil {
		return origins(origin, r)
	}
	return engineio.SameHost(origin, r)
}

func anonymous(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, "GET, HEAD")
		return
	}
	reply(w, http.StatusOK, body)
}

func (s *Server) conversations(w http.ResponseWriter, r *http.Request, p identity.Principal, id string) {
	switch {
	case id == "" && r.Method == http.MethodPost:
		s.createConversation(w, r, p)
	case id == "" && r.Method == http.MethodGet:
		s.listConversations(w, r, p)
	case id == "":
		methodNotAllowed(w, "GET, POST")
	case strings.HasSuffix(id, presencePath):
		s.presence(w, r, p, strings.TrimSuffix(id, presencePath))
	case !chat.ValidID(id):
		s.fail(w, chat.ErrNoThread)
	case r.Method == http.MethodGet:
		t, err := s.o.Desk.Get(r.Context(), p, id)
		if err != nil {
			s.fail(w, err)
			return
		}
		reply(w, http.StatusOK, conversation(nil, t))
	case r.Method == http.MethodDelete:
		if err := s.o.Desk.Delete(r.Context(), p, id); err != nil {
			s.fail(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		methodNotAllowed(w, "GET, DELETE")
	}
}

func (s *Server) createConversation(w http.ResponseWriter, r *http.Request, p identity.Principal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxConversationBody))
	if err != nil {
		problem(w, http.StatusRequestEntityTooLarge, string(CodeInvalid), "the body is too large")
		return
	}
	t, err := ParseConversation(body)
	if err != nil {
		s.fail(w, err)
		return
	}
	made, err := s.o.Desk.Create(r.Context(), p, t)
	if err != nil {
		s.fail(w, err)
		return
	}
	reply(w, http.StatusCreated, conversation(nil, made))
}

func (s *Server) listConversations(w http.ResponseWriter, r *http.Request, p identity.Principal) {
	q := r.URL.Query()
	limit := defaultPage
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxPage {
			s.fail(w, invalid("limit is a number from 1 to %d", maxPage))
			return
		}
		limit = n
	}
	after := q.Get("after")
	if after != "" && !chat.ValidID(after) {
		s.fail(w, invalid("after is the id of a conversation"))
		return
	}
	list, more, err := s.o.Desk.List(r.Context(), p, after, limit)
	if err != nil {
		s.fail(w, err)
		return
	}
	b := []byte(`{"conversations":[`)
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = conversation(b, t)
	}
	b = append(b, ']')
	if more {
		b = member(b, "next", list[len(list)-1].ID)
	}
	reply(w, http.StatusOK, append(b, '}'))
}

func (s *Server) attachments(w http.ResponseWriter, r *http.Request, p identity.Principal, id string) {
	switch {
	case id == "" && r.Method == http.MethodPost:
		s.upload(w, r, p)
	case id == "":
		methodNotAllowed(w, "POST")
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.download(w, r, p, id)
	case r.Method == http.MethodDelete:
		if err := s.o.Desk.DropFile(r.Context(), p, id); err != nil {
			s.fail(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		methodNotAllowed(w, "GET, HEAD, DELETE")
	}
}

// upload takes an image as the request's body; its name comes in X-Name,
// escaped as in a URL.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, p identity.Principal) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(MediaTypes, mediaType) {
		problem(w, http.StatusUnsupportedMediaType, string(CodeInvalid), "Content-Type must be one of "+strings.Join(MediaTypes, ", "))
		return
	}
	f := chat.Attachment{MediaType: mediaType}
	if name := r.Header.Get("X-Name"); name != "" {
		if f.Name, err = url.PathUnescape(name); err != nil || !validName(f.Name) {
			s.fail(w, invalid("X-Name must have 1 to %d characters, escaped as in a URL", MaxAttachmentName))
			return
		}
	}
	head := make([]byte, sniffLen)
	n, err := io.ReadFull(r.Body, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		problem(w, http.StatusBadRequest, string(CodeInvalid), "the body could not be read")
		return
	}
	if Sniff(head[:n]) != mediaType {
		s.fail(w, invalid("the body is not of the type %s", mediaType))
		return
	}
	f, err = s.o.Desk.PutFile(r.Context(), p, "", f, io.MultiReader(bytes.NewReader(head[:n]), r.Body), MaxAttachmentBytes)
	if errors.Is(err, journal.ErrTooLarge) {
		problem(w, http.StatusRequestEntityTooLarge, string(CodeInvalid), "an attachment has at most "+strconv.Itoa(MaxAttachmentBytes)+" bytes")
		return
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	reply(w, http.StatusCreated, attachment(nil, f))
}

// download serves an upload in the type that was checked, and so that nothing
// in it runs.
func (s *Server) download(w http.ResponseWriter, r *http.Request, p identity.Principal, id string) {
	f, body, err := s.o.Desk.OpenFile(r.Context(), p, id)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer body.Close()
	h := w.Header()
	h.Set("Content-Type", f.MediaType)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	disposition := "inline"
	if f.Name != "" {
		disposition = mime.FormatMediaType("inline", map[string]string{"filename": f.Name})
	}
	h.Set("Content-Disposition", disposition)
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.Copy(w, body)
}

// fail answers with the refusal in the words of the socket's errors.
func (s *Server) fail(w http.ResponseWriter, err error) {
	e := refusal(err)
	s.report("http", err)
	status := http.StatusBadRequest
	switch {
	case e.Code == CodeConversation:
		status = http.StatusNotFound
	case errors.Is(err, chat.ErrThreadExists):
		status = http.StatusConflict
	case errors.Is(err, journal.ErrNoBlobs):
		status = http.StatusNotImplemented
	case fault(err):
		w.Header().Set("Retry-After", "5")
		status = http.StatusServiceUnavailable
	}
	problem(w, status, string(e.Code), e.Message)
}

func methodNotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	problem(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this route answers "+allow)
}

func problem(w http.ResponseWriter, status int, code, text string) {
	b, _ := json.Marshal(map[string]string{"code": code, "message": text})
	reply(w, status, b)
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func attachment(b []byte, a chat.Attachment) []byte {
	b = append(b, `{"id":`...)
	b = quoted(b, a.ID)
	b = member(b, "mediaType", a.MediaType)
	b = optional(b, "name", a.Name)
	b = strconv.AppendInt(append(b, `,"size":`...), a.Size, 10)
	return append(b, '}')
}
