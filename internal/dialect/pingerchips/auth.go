package pingerchips

import (
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Bounds of a request for a token.
const (
	maxAuthBody = 16 << 10
	// DefaultTokenLife is how long a token holds if nothing is said, MaxTokenLife
	// how long at most.
	DefaultTokenLife = time.Hour
	MaxTokenLife     = 30 * 24 * time.Hour
)

// UserVerbs is what a token gives if nothing is said.
var UserVerbs = identity.VerbsOf(identity.Subscribe, identity.UserMessage, identity.CancelOwn, identity.ToolApproval)

// grantable is what a client's token can give at all (PIN-190).
var grantable = identity.VerbsOf(identity.Subscribe, identity.UserMessage, identity.CancelOwn, identity.CancelAny, identity.ToolApproval)

// ServeAuth mints a token to join a thread with, for a back end that holds an
// app's secret (PIN-254): POST with the headers X-App-Key and X-App-Secret and
// the body {"thread_id", "client_id"?, "socket_id"?, "capabilities"?, "ttl"?}. It
// answers {"auth"}. It is not for browsers, and no page may read its answers.
func (s *Server) ServeAuth(w http.ResponseWriter, r *http.Request, v *dialect.Visit) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost {
		header.Set("Allow", http.MethodPost)
		refuseAuth(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	key, secret := r.Header.Values("X-App-Key"), r.Header.Values("X-App-Secret")
	if len(key) != 1 || len(secret) != 1 || key[0] == "" || secret[0] == "" {
		refuseAuth(w, http.StatusUnauthorized, authRequired)
		return
	}
	app := identity.Apps(v.Site.App).Vouch(key[0], secret[0])
	if app == nil {
		s.o.Logger.Debug("a request for a token was refused", "site", v.Site.Name())
		refuseAuth(w, http.StatusUnauthorized, invalidSecret)
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuseAuth(w, http.StatusUnsupportedMediaType, "the body is application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAuthBody))
	if err != nil {
		refuseAuth(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	claims, err := parseAuth(body, s.o.Now())
	if err != nil {
		reason, _ := refusal(err)
		refuseAuth(w, http.StatusBadRequest, reason)
		return
	}
	token, err := app.Mint(claims)
	if err != nil {
		s.report("auth", err)
		refuseAuth(w, http.StatusInternalServerError, internal)
		return
	}
	header.Set("Content-Type", "application/json")
	_, _ = w.Write(append(quoted([]byte(`{"auth":`), token), '}'))
}

func refuseAuth(w http.ResponseWriter, status int, r Reason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(r.response())
}

// parseAuth reads what a token is to say. A thread is named: "*" is every thread
// only where an operator writes it, never where a back end may hand on what a user
// has typed.
func parseAuth(body []byte, now time.Time) (identity.AppClaims, error) {
	c := identity.AppClaims{IssuedAt: now.Unix(), Expires: now.Add(DefaultTokenLife).Unix()}
	o, err := readObject(body)
	if err != nil {
		return c, err
	}
	thread, err := o.text("thread_id")
	if err != nil || !chat.ValidID(thread) || thread == "*" {
		return c, invalidPayload
	}
	if o.given("client_id") {
		if c.ClientID, err = o.text("client_id"); err != nil || !chat.ValidID(c.ClientID) {
			return c, invalidPayload
		}
	}
	if o.given("socket_id") { // the token holds on any socket
		if _, err := o.text("socket_id"); err != nil {
			return c, err
		}
	}
	if o.given("ttl") {
		var seconds int64
		if json.Unmarshal(o["ttl"], &seconds) != nil || seconds < 1 || seconds > int64(MaxTokenLife/time.Second) {
			return c, invalidPayload
		}
		c.Expires = now.Unix() + seconds
	}
	verbs := UserVerbs
	if o.given("capabilities") {
		var list []string
		if json.Unmarshal(o["capabilities"], &list) != nil {
			return c, invalidPayload
		}
		var bad string
		if verbs, bad = ReadVerbs(list); bad != "" {
			return c, invalidPayload
		}
	}
	c.Cap = CapabilitiesOn(thread, verbs)
	return c, nil
}

// CapabilitiesOn is what a token lists to give verbs on a thread, or on all of the
// app's for "*".
func CapabilitiesOn(thread string, verbs identity.Verbs) []string {
	list := make([]string, 0, len(verbs.List()))
	for _, v := range verbs.List() {
		list = append(list, identity.Capability(v, thread))
	}
	return list
}

// ReadVerbs reads what a client's token may give, as the protocol spells it. Bad is
// the first that is none of it, quoted.
func ReadVerbs(list []string) (verbs identity.Verbs, bad string) {
	for _, name := range list {
		v := identity.ParseVerb(name)
		if !grantable.Has(v) {
			return 0, strconv.Quote(name)
		}
		verbs |= identity.Verbs(v)
	}
	return verbs, ""
}
