package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Issuers of an application's subjects: IssuerApp and IssuerAgent are followed
// by the application's key, [IssuerJoin] by a digest of the token.
const (
	IssuerApp   = "app:"
	IssuerAgent = "agent:"
)

// What a join by an application's credential is refused with. Each Is
// [ErrUnauthenticated]; their order is that of the checks (PIN-057).
var (
	ErrAuthRequired  error = &refusal{reason: "auth required"}  // nothing was given, or a secret without an agent id
	ErrInvalidToken  error = &refusal{reason: "invalid token"}  // forged, malformed, expired, or of an app nobody knows
	ErrInvalidSecret error = &refusal{reason: "invalid secret"} // not the secret of the topic's app
	ErrAppMismatch   error = &refusal{reason: "app_key mismatch"}
	// ErrClientID: the client's own name for itself is no id.
	ErrClientID = errors.New("the client id is not accepted")
)

// App is an application that vouches for its users with signed tokens and whose
// agents join by its secret. It belongs to one realm and tenant (PIN-024). An
// App is immutable once it was given to others.
type App struct {
	Key           string
	Realm, Tenant string
	// Secrets are those that are valid now: two while one is replaced by another.
	// A token is minted with the first.
	Secrets []string
	// Legacy also takes the older form of token, which is bound to a socket, a
	// thread and a client id (PIN-037).
	Legacy bool
}

// String keeps the secrets out of logs.
func (a *App) String() string { return "app " + a.Key }

// GoString keeps the secrets out of %#v.
func (a *App) GoString() string { return a.String() }

// LogValue keeps the secrets out of structured logs.
func (a *App) LogValue() slog.Value { return slog.StringValue(a.Key) }

// Apps finds an application by its key, or returns nil.
type Apps func(key string) *App

// Join is what a client or an agent joins a thread's topic with.
type Join struct {
	// AppKey and Thread are the topic's.
	AppKey, Thread string
	// Auth and ClientID are a client's, Secret and AgentID an agent's; "" is not
	// given.
	Auth, ClientID  string
	Secret, AgentID string
	// Socket is the id of the socket, which the older form of token is bound to.
	Socket string
}

// Joined is who has joined.
type Joined struct {
	Principal
	Agent bool
}

// Join decides who joins. The errors are ErrAuthRequired, ErrInvalidToken,
// ErrInvalidSecret, ErrAppMismatch and ErrClientID. What the principal may do
// to the thread is for [Granted] to say.
func (apps Apps) Join(j Join, now time.Time) (Joined, error) {
	switch {
	case j.Secret != "" && j.AgentID != "":
		return apps.agent(j)
	case j.Secret != "" || j.Auth == "":
		return Joined{}, ErrAuthRequired
	}
	return apps.client(j, now)
}

// agent admits whoever knows the secret of the topic's app, as an agent of the
// topic's thread (PIN-039). A secret that is right makes an agent of a client too
// (PIN-059).
func (apps Apps) agent(j Join) (Joined, error) {
	app, key, ok := apps.knows(j.AppKey, j.Secret)
	if !ok {
		return Joined{}, ErrInvalidSecret
	}
	if !chat.ValidID(j.AgentID) {
		return Joined{}, ErrClientID
	}
	p := app.principal(Subject{IssuerAgent + app.Key, j.AgentID}, key)
	p.Caps = Capabilities{}.WithThread(j.Thread, AgentVerbs)
	return Joined{Principal: p, Agent: true}, nil
}

// Vouch finds the app whose secret is given, for its back end: nil if there is
// none of that key or the secret is not one of its own, which take equally long.
func (apps Apps) Vouch(key, secret string) *App {
	if app, _, ok := apps.knows(key, secret); ok {
		return app
	}
	return nil
}

// knows compares a secret with those of an app; digest is of the one that it is.
func (apps Apps) knows(key, secret string) (app *App, digest [sha256.Size]byte, ok bool) {
	app, known := apps.find(key)
	given := sha256.Sum256([]byte(secret))
	right := 0
	for _, s := range app.Secrets {
		k := sha256.Sum256([]byte(s))
		same := subtle.ConstantTimeCompare(given[:], k[:])
		right |= same
		subtle.ConstantTimeCopy(same, digest[:], k[:])
	}
	return app, digest, known && right == 1
}

func (apps Apps) client(j Join, now time.Time) (Joined, error) {
	t, err := apps.verify(j, now)
	if err != nil {
		return Joined{}, err
	}
	if t.app.Key != j.AppKey {
		return Joined{}, ErrAppMismatch
	}
	subject := Subject{IssuerApp + t.app.Key, t.client}
	if t.client == "" {
		digest := sha256.Sum256([]byte(j.Auth))
		subject = Subject{IssuerJoin + ":" + base64.RawURLEncoding.EncodeToString(digest[:16]), j.ClientID}
		switch {
		case j.ClientID == "":
			subject.ID = "anon-" + rand.Text()
		case !chat.ValidID(j.ClientID):
			return Joined{}, ErrClientID
		}
	}
	p := t.app.principal(subject, t.key)
	p.Caps = t.caps
	return Joined{Principal: p}, nil
}

func (a *App) principal(s Subject, key [sha256.Size]byte) Principal {
	return Principal{Realm: a.Realm, Tenant: a.Tenant, Subject: s, proof: proof{key: key, audience: a.Key}}
}

// nobody is an app that has no key in common with any other: what is checked
// against it takes as long as against a real one, and fails.
var nobody = &App{Secrets: []string{rand.Text()}}

func (apps Apps) find(key string) (app *App, known bool) {
	if app := apps(key); app != nil {
		return app, true
	}
	return nobody, false
}

// Recheck reports nil if the app that admitted p is still there and the secret
// that did is still valid. A token that expires meanwhile lives on until its
// member leaves (PIN-038).
func (apps Apps) Recheck(p Principal) error {
	app := apps(p.proof.audience)
	if app == nil || app.Realm != p.Realm || app.Tenant != p.Tenant {
		return refuse("the app is gone")
	}
	for _, s := range app.Secrets {
		if sha256.Sum256([]byte(s)) == p.proof.key {
			return nil
		}
	}
	return refuse("the secret is no longer valid")
}
