package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// AppClaims is what a token of an application says.
type AppClaims struct {
	// ClientID names the user; a token without one lets whoever holds it choose
	// a name, which is then nobody else's (PIN-037).
	ClientID string `json:"client_id,omitempty"`
	// Cap are capabilities as [ParseCapabilities] reads them.
	Cap []string `json:"cap"`
	// IssuedAt and Expires are in Unix seconds.
	IssuedAt int64 `json:"iat"`
	Expires  int64 `json:"exp"`
}

// Mint makes a token (PIN-036). The app has a secret.
func (a *App) Mint(c AppClaims) (string, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	signed := a.Key + "." + base64.RawURLEncoding.EncodeToString(body)
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac(a.Secrets[0], signed)), nil
}

func mac(secret, text string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// appToken is a token that was verified.
type appToken struct {
	app    *App
	key    [sha256.Size]byte // digest of the secret that signed it
	client string
	caps   Capabilities
}

// appLeeway is how far ahead of ours an issuer's clock may be.
const appLeeway = time.Minute

// clientVerbs is what a client's token can give; to write a run takes an agent's
// secret (PIN-190).
const clientVerbs = ^Verbs(RunLifecycle | Token)

func (apps Apps) verify(j Join, now time.Time) (appToken, error) {
	if len(j.Auth) > maxToken || strings.ContainsAny(j.Auth, "\r\n") { // which base64 would skip
		return appToken{}, ErrInvalidToken
	}
	if strings.Count(j.Auth, ".") < 2 {
		return apps.legacy(j)
	}
	dot := strings.LastIndexByte(j.Auth, '.')
	signed, signature := j.Auth[:dot], j.Auth[dot+1:]
	dot = strings.LastIndexByte(signed, '.')
	app, known := apps.find(signed[:dot])
	given, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	t := appToken{app: app}
	if !t.signed(signed, given) || !known || err != nil {
		return appToken{}, ErrInvalidToken
	}
	body, err := base64.RawURLEncoding.Strict().DecodeString(signed[dot+1:])
	if err != nil {
		return appToken{}, ErrInvalidToken
	}
	return t, t.claims(body, now)
}

// signed says whether one of the app's secrets made the signature, and which.
func (t *appToken) signed(text string, given []byte) bool {
	right := 0
	for _, s := range t.app.Secrets {
		same := subtle.ConstantTimeCompare(mac(s, text), given)
		right |= same
		k := sha256.Sum256([]byte(s))
		subtle.ConstantTimeCopy(same, t.key[:], k[:])
	}
	return right == 1
}

func (t *appToken) claims(body []byte, now time.Time) error {
	o, err := readObject(body)
	if err != nil {
		return ErrInvalidToken
	}
	exp, given, ok := o.date("exp")
	if !given || !ok || !now.Before(exp) {
		return ErrInvalidToken
	}
	if iat, _, ok := o.date("iat"); !ok || iat.After(now.Add(appLeeway)) {
		return ErrInvalidToken
	}
	if v, given := o["client_id"]; given && v.Kind() != 'n' {
		if t.client = o.text("client_id"); !chat.ValidID(t.client) {
			return ErrInvalidToken
		}
	}
	if _, given := o["cap"]; given {
		list, ok := o.texts("cap")
		if !ok {
			return ErrInvalidToken
		}
		if t.caps, err = ParseCapabilities(list); err != nil {
			return ErrInvalidToken
		}
		t.caps = t.caps.only(clientVerbs)
	}
	return nil
}

// only is c without the verbs that are not in v.
func (c Capabilities) only(v Verbs) Capabilities {
	d := Capabilities{own: c.own & v, all: c.all & v}
	if len(c.threads) > 0 {
		d.threads = make(map[string]Verbs, len(c.threads))
	}
	for id, verbs := range c.threads {
		d.threads[id] = verbs & v
	}
	return d
}

// legacyVerbs is what the older form of token gives on its thread.
const legacyVerbs = Verbs(Subscribe | UserMessage | CancelOwn | ToolApproval)

// legacy reads the older form, {appKey}:{hex HMAC of socket, topic and client}.
// It names no client id and no end; it holds on its socket and thread only. A
// client id with a colon is refused: the text that is signed would not tell where
// the thread's id ends and the client's begins.
func (apps Apps) legacy(j Join) (appToken, error) {
	key, signature, _ := strings.Cut(j.Auth, ":")
	app, known := apps.find(key)
	given, err := hex.DecodeString(signature)
	t := appToken{app: app}
	text := j.Socket + ":chat:v1:app:" + key + ":thread:" + j.Thread + ":" + j.ClientID
	if !t.signed(text, given) || !known || !app.Legacy || err != nil || j.ClientID == "" || strings.Contains(j.ClientID, ":") {
		return appToken{}, ErrInvalidToken
	}
	if !chat.ValidID(j.ClientID) {
		return appToken{}, ErrClientID
	}
	t.client = j.ClientID
	t.caps = Capabilities{}.WithThread(j.Thread, legacyVerbs)
	return t, nil
}
