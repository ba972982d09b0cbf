package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	appNow   = time.Unix(1_800_000_000, 0)
	shop     = &App{Key: "pk_live_x", Realm: "support", Secrets: []string{"new-secret", "old-secret"}}
	bank     = &App{Key: "pk_live_y", Realm: "support", Tenant: "bank", Secrets: []string{"bank-secret"}}
	older    = &App{Key: "pk_old", Realm: "support", Tenant: "old", Secrets: []string{"older-secret"}, Legacy: true}
	dotted   = &App{Key: "pk.live.z", Realm: "dots", Secrets: []string{"dotted-secret"}}
	testApps = Apps(func(key string) *App {
		i := slices.IndexFunc([]*App{shop, bank, older, dotted}, func(a *App) bool { return a.Key == key })
		if i < 0 {
			return nil
		}
		return []*App{shop, bank, older, dotted}[i]
	})
)

func claims(change ...func(*AppClaims)) AppClaims {
	c := AppClaims{ClientID: "user-42", Cap: []string{"chat:subscribe:t1"}, IssuedAt: appNow.Unix() - 10, Expires: appNow.Unix() + 600}
	for _, f := range change {
		f(&c)
	}
	return c
}

func minted(t *testing.T, a *App, c AppClaims) string {
	t.Helper()
	token, err := a.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// forged signs any body with any secret, as the tokens' form asks for.
func forged(key, body, secret string) string {
	signed := key + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac(secret, signed))
}

func TestAppTokens(t *testing.T) {
	good := minted(t, shop, claims())
	body := fmt.Sprintf(`"cap":["chat:subscribe:t1"],"exp":%d`, appNow.Unix()+600)
	last := func(s string, n int) string { return s[:len(s)-n] }
	old := *shop
	old.Secrets = []string{"old-secret"}
	for name, c := range map[string]struct {
		token string
		err   error
	}{
		"PIN-036 as minted":                        {good, nil},
		"PIN-036 signed with the secret that goes": {minted(t, &old, claims()), nil},
		"PIN-036 no iat":                           {forged("pk_live_x", "{"+body+"}", "new-secret"), nil},
		"PIN-036 unknown claims":                   {forged("pk_live_x", `{"x":1,`+body+"}", "new-secret"), nil},
		"PIN-048 client_id null is none":           {forged("pk_live_x", `{"client_id":null,`+body+"}", "new-secret"), nil},
		"PIN-051 empty parts":                      {"..", ErrInvalidToken},
		"PIN-051 no token at all":                  {"x", ErrInvalidToken},
		"PIN-051 cut by a character":               {last(good, 1), ErrInvalidToken},
		"PIN-051 without its signature":            {good[:strings.LastIndexByte(good, '.')], ErrInvalidToken},
		"PIN-051 with an empty signature":          {good[:strings.LastIndexByte(good, '.')+1], ErrInvalidToken},
		"PIN-051 a character more":                 {good + "A", ErrInvalidToken},
		"PIN-051 padded":                           {good + "=", ErrInvalidToken},
		"PIN-051 a newline in it":                  {last(good, 4) + "\n" + good[len(good)-4:], ErrInvalidToken},
		"PIN-051 signed with another secret":       {forged("pk_live_x", "{"+body+"}", "guess"), ErrInvalidToken},
		"PIN-051 signed with an empty secret":      {forged("pk_live_x", "{"+body+"}", ""), ErrInvalidToken},
		"PIN-051 signed with another app's":        {forged("pk_live_x", "{"+body+"}", "bank-secret"), ErrInvalidToken},
		"PIN-051 another body under the signature": {
			forged("pk_live_x", `{"client_id":"root",`+body+"}", "guess")[:60] + good[60:], ErrInvalidToken,
		},
		"PIN-058 of an app nobody knows":       {forged("pk_live_q", "{"+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-058 of no app":                    {forged("", "{"+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-036 expired":                      {minted(t, shop, claims(func(c *AppClaims) { c.Expires = appNow.Unix() - 1 })), ErrInvalidToken},
		"PIN-036 expires now":                  {minted(t, shop, claims(func(c *AppClaims) { c.Expires = appNow.Unix() })), ErrInvalidToken},
		"PIN-036 issued tomorrow":              {minted(t, shop, claims(func(c *AppClaims) { c.IssuedAt = appNow.Unix() + 86_400 })), ErrInvalidToken},
		"PIN-036 no exp":                       {forged("pk_live_x", `{"cap":["chat:subscribe:t1"]}`, "new-secret"), ErrInvalidToken},
		"PIN-036 exp as text":                  {forged("pk_live_x", `{"exp":"1900000000"}`, "new-secret"), ErrInvalidToken},
		"PIN-036 exp in milliseconds":          {forged("pk_live_x", `{"exp":1900000000000}`, "new-secret"), ErrInvalidToken},
		"PIN-051 cap is a string":              {forged("pk_live_x", `{"cap":"chat:subscribe:t1","exp":1900000000}`, "new-secret"), ErrInvalidToken},
		"PIN-051 a number in cap":              {forged("pk_live_x", `{"cap":[1],"exp":1900000000}`, "new-secret"), ErrInvalidToken},
		"PIN-051 too many capabilities":        {minted(t, shop, claims(func(c *AppClaims) { c.Cap = slices.Repeat(c.Cap, 513) })), ErrInvalidToken},
		"PIN-051 client_id is a number":        {forged("pk_live_x", `{"client_id":7,`+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-051 client_id is empty":           {forged("pk_live_x", `{"client_id":"",`+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-051 client_id has a control":      {forged("pk_live_x", `{"client_id":"a\u0000b",`+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-051 a claim twice":                {forged("pk_live_x", `{"client_id":"a","client_id":"root",`+body+"}", "new-secret"), ErrInvalidToken},
		"PIN-051 something behind the body":    {forged("pk_live_x", "{"+body+"}{}", "new-secret"), ErrInvalidToken},
		"PIN-051 a body that is no object":     {forged("pk_live_x", `[]`, "new-secret"), ErrInvalidToken},
		"PIN-051 a body that is no JSON":       {forged("pk_live_x", `{`, "new-secret"), ErrInvalidToken},
		"PIN-051 more than a token may have":   {forged("pk_live_x", "{"+body+`,"x":"`+strings.Repeat("x", 9000)+`"}`, "new-secret"), ErrInvalidToken},
		"PIN-055 of another app":               {minted(t, bank, claims()), ErrAppMismatch},
		"PIN-057 expired and of another app":   {minted(t, bank, claims(func(c *AppClaims) { c.Expires = 1 })), ErrInvalidToken},
		"PIN-037 the older form, switched off": {"pk_live_x:" + hex.EncodeToString(mac("new-secret", "s1:chat:v1:app:pk_live_x:thread:t1:u")), ErrInvalidToken},
	} {
		j, err := testApps.Join(Join{AppKey: "pk_live_x", Thread: "t1", Auth: c.token, ClientID: "u", Socket: "s1"}, appNow)
		if err != c.err {
			t.Errorf("%s: %v, want %v", name, Reason(err), Reason(c.err))
		}
		if err != nil && (!errors.Is(err, ErrUnauthenticated) || Granted(j.Principal, Thread{Realm: "support", ID: "t1", Open: true}) != 0) {
			t.Errorf("%s: a refused join is %v with %v", name, err, j)
		}
		if err == nil && (j.Agent || Granted(j.Principal, Thread{Realm: "support", ID: "t1", Open: true}) != Verbs(Subscribe)) {
			t.Errorf("%s: joined as %v", name, j)
		}
	}
	if j, err := testApps.Join(Join{AppKey: "pk_live_q", Thread: "t1", Auth: good}, appNow); err != ErrAppMismatch {
		t.Errorf("PIN-058 on a topic of an unknown app: %v %v", j, err)
	}
	if j, err := testApps.Join(Join{AppKey: "pk.live.z", Thread: "t1", Auth: minted(t, dotted, claims())}, appNow); err != nil || j.Realm != "dots" {
		t.Errorf("PIN-036 a key with dots: %v %v", j, err)
	}
}

func TestWhoJoins(t *testing.T) {
	named := minted(t, shop, claims())
	free := minted(t, shop, claims(func(c *AppClaims) { c.ClientID = "" }))
	other := minted(t, shop, claims(func(c *AppClaims) { c.ClientID, c.Expires = "", appNow.Unix()+601 }))
	join := func(token, client string) Principal {
		j, err := testApps.Join(Join{AppKey: "pk_live_x", Thread: "t1", Auth: token, ClientID: client}, appNow)
		if err != nil {
			t.Fatal(err)
		}
		return j.Principal
	}
	if p := join(named, "mallory"); p.Subject.ID != "user-42" || !p.Same(join(named, "")) {
		t.Error("PIN-047 the token's client id does not win")
	}
	p := join(free, "user-42")
	if p.Subject.ID != "user-42" {
		t.Errorf("PIN-048 the join's client id is %q", p.Subject.ID)
	}
	if p.Same(join(named, "")) {
		t.Error("PIN-037 a payload's name is the same as a token's")
	}
	if !p.Same(join(free, "user-42")) || p.Same(join(other, "user-42")) {
		t.Error("PIN-037 a payload's name is that of its token alone")
	}
	a, b := join(free, ""), join(free, "")
	if !strings.HasPrefix(a.Subject.ID, "anon-") || a.Same(b) {
		t.Error("PIN-049 nobody's names are not minted")
	}
	if _, err := testApps.Join(Join{AppKey: "pk_live_x", Thread: "t1", Auth: free, ClientID: "a\nb"}, appNow); err != ErrClientID {
		t.Errorf("PIN-048 a client id that is none: %v", err)
	}
	if p.Realm != "support" || p.Tenant != "" || join(named, "").Expires != (time.Time{}) {
		t.Errorf("PIN-024 PIN-038 joined as %#v", p)
	}
}

func TestAgentsJoin(t *testing.T) {
	free := func(s string) Join { return Join{AppKey: "pk_live_x", Thread: "t1", Secret: s, AgentID: "assistant"} }
	token := minted(t, shop, claims())
	for name, c := range map[string]struct {
		join Join
		err  error
	}{
		"PIN-046 the secret":               {free("new-secret"), nil},
		"PIN-046 the secret that goes":     {free("old-secret"), nil},
		"PIN-053 another one":              {free("guess"), ErrInvalidSecret},
		"PIN-058 that of another app":      {free("bank-secret"), ErrInvalidSecret},
		"PIN-058 of an unknown app":        {Join{AppKey: "pk_live_q", Thread: "t1", Secret: "new-secret", AgentID: "a"}, ErrInvalidSecret},
		"PIN-054 nothing":                  {Join{AppKey: "pk_live_x", Thread: "t1"}, ErrAuthRequired},
		"PIN-054 no agent id":              {Join{AppKey: "pk_live_x", Thread: "t1", Secret: "new-secret"}, ErrAuthRequired},
		"PIN-054 no agent id but a token":  {Join{AppKey: "pk_live_x", Thread: "t1", Secret: "new-secret", Auth: token}, ErrAuthRequired},
		"PIN-059 both":                     {Join{AppKey: "pk_live_x", Thread: "t1", Secret: "new-secret", AgentID: "a", Auth: token}, nil},
		"PIN-059 both, the secret wrong":   {Join{AppKey: "pk_live_x", Thread: "t1", Secret: "guess", AgentID: "a", Auth: token}, ErrInvalidSecret},
		"PIN-046 an agent id that is none": {Join{AppKey: "pk_live_x", Thread: "t1", Secret: "new-secret", AgentID: "a\x00"}, ErrClientID},
	} {
		j, err := testApps.Join(c.join, appNow)
		if err != c.err || (err == nil) != j.Agent {
			t.Errorf("%s: %v, agent %v", name, err, j.Agent)
		}
		on := func(id string) Verbs { return Granted(j.Principal, Thread{Realm: "support", ID: id, Open: true}) }
		if err == nil && (on("t1") != AgentVerbs || on("t2") != 0 || on("t1").Has(UserMessage)) {
			t.Errorf("PIN-039 PIN-032 %s: it may %v", name, on("t1").List())
		}
	}
}

// PIN-190: what only an agent's secret gives, no token gives.
func TestTokensMakeNoAgents(t *testing.T) {
	token := minted(t, shop, claims(func(c *AppClaims) {
		c.Cap = []string{"chat:publish:run_lifecycle:t1", "chat:publish:token:*", "chat:publish:user_message:t1", "chat:publish:cancel_any:*"}
	}))
	j, err := testApps.Join(Join{AppKey: "pk_live_x", Thread: "t1", Auth: token}, appNow)
	got := Granted(j.Principal, Thread{Realm: "support", ID: "t1", Open: true})
	if err != nil || got != VerbsOf(UserMessage, CancelAny) {
		t.Errorf("it may %v, %v", got.List(), err)
	}
}

func TestOlderTokens(t *testing.T) {
	sign := func(text string) string {
		h := hmac.New(sha256.New, []byte("older-secret"))
		h.Write([]byte(text))
		return "pk_old:" + hex.EncodeToString(h.Sum(nil))
	}
	token := sign("s1:chat:v1:app:pk_old:thread:t1:u")
	good := Join{AppKey: "pk_old", Thread: "t1", Auth: token, ClientID: "u", Socket: "s1"}
	j, err := testApps.Join(good, appNow)
	got := Granted(j.Principal, Thread{Realm: "support", Tenant: "old", ID: "t1", Open: true})
	if err != nil || got != VerbsOf(Subscribe, UserMessage, CancelOwn, ToolApproval) {
		t.Fatalf("PIN-037 %v, it may %v", err, got.List())
	}
	for name, change := range map[string]func(*Join){
		"another socket": func(j *Join) { j.Socket = "s2" },
		"another thread": func(j *Join) { j.Thread = "t2" },
		"another client": func(j *Join) { j.ClientID = "v" },
		"no client":      func(j *Join) { j.Auth, j.ClientID = sign("s1:chat:v1:app:pk_old:thread:t1:"), "" },
		"no hex":         func(j *Join) { j.Auth += "x" },
		// The same text, cut elsewhere.
		"a client of two parts": func(j *Join) { j.Auth, j.ClientID = sign("s1:chat:v1:app:pk_old:thread:t1:a:u"), "a:u" },
	} {
		j := good
		change(&j)
		if _, err := testApps.Join(j, appNow); err != ErrInvalidToken {
			t.Errorf("PIN-037 for %s: %v", name, err)
		}
	}
}

// PIN-038: a token may expire under a member, its app may not change.
func TestJoinedAreRechecked(t *testing.T) {
	j, err := testApps.Join(Join{AppKey: "pk_live_x", Thread: "t1", Auth: minted(t, shop, claims())}, appNow)
	if err != nil {
		t.Fatal(err)
	}
	with := func(a *App) Apps { return func(string) *App { return a } }
	moved, rotated := *shop, *shop
	moved.Tenant = "else"
	rotated.Secrets = []string{"newest", "new-secret"}
	gone := *shop
	gone.Secrets = []string{"newest"}
	for name, c := range map[string]struct {
		apps Apps
		ok   bool
	}{
		"the same":                   {testApps, true},
		"its secret still holds":     {with(&rotated), true},
		"its secret was taken back":  {with(&gone), false},
		"the app is of another wall": {with(&moved), false},
		"the app is gone":            {with(nil), false},
	} {
		if err := c.apps.Recheck(j.Principal); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAppsTellNothing(t *testing.T) {
	if s := fmt.Sprintf("%v %+v %#v", shop, shop, shop); strings.Contains(s, "secret") {
		t.Errorf("an app is written as %s", s)
	}
}
