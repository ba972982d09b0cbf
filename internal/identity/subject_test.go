package identity

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestKeysAreInjective: no two principals, and no two names chosen by them, share
// a key, however the separators are spread.
func TestKeysAreInjective(t *testing.T) {
	part := rapid.StringMatching(`[ab:/{}|\x00.*]{0,4}`)
	draw := func(t *rapid.T, n string) (Principal, string) {
		return Principal{
			Realm: part.Draw(t, "realm"+n), Tenant: part.Draw(t, "tenant"+n),
			Subject: Subject{part.Draw(t, "issuer"+n), part.Draw(t, "id"+n)},
		}, part.Draw(t, "chosen"+n)
	}
	rapid.Check(t, func(t *rapid.T) {
		p, a := draw(t, "1")
		q, b := draw(t, "2")
		same := p.Realm == q.Realm && p.Tenant == q.Tenant && p.Subject == q.Subject
		if (p.Key() == q.Key()) != same {
			t.Fatalf("Key of %q and %q", p.Key(), q.Key())
		}
		if (p.Hash() == q.Hash()) != same {
			t.Fatalf("Hash of %q and %q", p.Key(), q.Key())
		}
		q.Realm = p.Realm
		same = p.Tenant == q.Tenant && p.Subject == q.Subject && a == b
		if (ThreadName(p, a) == ThreadName(q, b)) != same {
			t.Fatalf("ThreadName of %q and %q", ThreadName(p, a), ThreadName(q, b))
		}
	})
	one := Principal{Realm: "r", Tenant: "t", Subject: Subject{"i", "s"}}
	for _, other := range []Principal{
		{Realm: "R", Tenant: "t", Subject: one.Subject},
		{Realm: "r", Tenant: "T", Subject: one.Subject},
		{Realm: "r", Tenant: "t", Subject: Subject{"I", "s"}},
		{Realm: "r", Tenant: "t", Subject: Subject{"i", "S"}},
	} {
		if one.Hash() == other.Hash() || one.Key() == other.Key() {
			t.Errorf("%q and %q are one", one.Key(), other.Key())
		}
	}
	// The same bytes, cut elsewhere.
	p := Principal{Tenant: "a", Subject: Subject{"b", "c"}}
	q := Principal{Tenant: "ab", Subject: Subject{"", "c"}}
	if ThreadName(p, "d") == ThreadName(q, "d") || ThreadName(p, "d") == ThreadName(p, "e") {
		t.Error("names collide")
	}
}

func TestPrincipalIsNotPrinted(t *testing.T) {
	const who = "alice-who-is-secret"
	p := Principal{Realm: "r", Subject: Subject{IssuerCaddy, who}}
	c := Credentials{Token: who, CaddyUser: who, Cookies: []*http.Cookie{{Name: CookieName, Value: who}}}
	var b strings.Builder
	log := slog.New(slog.NewTextHandler(&b, nil))
	log.Info("x", "p", p, "s", p.Subject, "c", c)
	fmt.Fprintf(&b, "%v %+v %#v %s %v %#v %v %+v %#v", p, p, p, p, p.Subject, p.Subject, c, c, c)
	if strings.Contains(b.String(), who) {
		t.Fatalf("the subject is printed: %s", &b)
	}
	if !strings.Contains(b.String(), p.Hash()) {
		t.Error("the pseudonym is not printed")
	}
}

func TestSame(t *testing.T) {
	p := Principal{Realm: "r", Tenant: "t", Subject: Subject{IssuerCaddy, "a"}, Expires: start}
	q := p
	q.Expires, q.Caps = start.Add(time.Hour), OwnThreads(UserVerbs)
	if !p.Same(q) || p.Equal(q) || !p.Equal(p) {
		t.Error("capabilities and expiry don't make another person")
	}
	for _, other := range []Principal{
		{Realm: "s", Tenant: "t", Subject: p.Subject},
		{Realm: "r", Tenant: "u", Subject: p.Subject},
		{Realm: "r", Tenant: "t", Subject: Subject{IssuerBrowser, "a"}},
	} {
		if p.Same(other) {
			t.Error("two walls, one person")
		}
	}
	if (Principal{}).Same(Principal{}) {
		t.Error("nobody is somebody")
	}
}

func TestFromRequest(t *testing.T) {
	request := func(headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "https://chat.example.com/socket.io/?token=never", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		return r
	}
	for _, row := range []struct {
		name  string
		r     *http.Request
		token string
		bad   bool
	}{
		{"nothing, and nothing from the URL", request(), "", false},
		{"bearer", request("Authorization", "Bearer a.b.c"), "a.b.c", false},
		{"scheme in other case", request("Authorization", "bearer  a.b.c "), "a.b.c", false},
		{"H29 bearer of nothing", request("Authorization", "Bearer "), "", true},
		{"H29 bearer alone", request("Authorization", "Bearer"), "", true},
		{"H29 two headers", request("Authorization", "Bearer a", "Authorization", "Bearer b"), "", true},
		{"H29 basic beside bearer", request("Authorization", "Basic eDp5", "Authorization", "Bearer b"), "", true},
		{"basic is Caddy's", request("Authorization", "Basic eDp5"), "", false},
		{"H23 huge", request("Authorization", "Bearer "+strings.Repeat("a", maxToken+1)), "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := FromRequest(row.r)
			if c.Token != row.token || c.Bad != row.bad {
				t.Fatalf("token %q bad %v", c.Token, c.Bad)
			}
			if !c.Secure || c.Host != "chat.example.com" || c.RemoteIP != "192.0.2.1" {
				t.Fatalf("secure %v host %q ip %q", c.Secure, c.Host, c.RemoteIP)
			}
		})
	}
	many := strings.Repeat("jwt=x; ", 100) + "parlance=y; other=z"
	c := FromRequest(request("Cookie", many), "jwt", "jwt", CookieName)
	if n := len(c.cookies("jwt")); n != maxCookies {
		t.Errorf("%d cookies of one name kept", n)
	}
	if !slices.Equal(c.cookies(CookieName), []string{"y"}) || len(c.cookies("other")) != 0 {
		t.Errorf("cookies kept: %v", c.Cookies)
	}
}

func TestWithToken(t *testing.T) {
	c := Credentials{Token: "a"}
	if got := c.WithToken("a"); got.Bad || got.Token != "a" {
		t.Error("the same token twice is no contradiction")
	}
	if got := c.WithToken(""); got.Bad || got.Token != "a" {
		t.Error("an empty payload takes the token away")
	}
	if got := c.WithToken("b"); !got.Bad {
		t.Error("H8 two identities are not refused")
	}
	if got := (Credentials{}).WithToken(strings.Repeat("a", maxToken+1)); !got.Bad || got.Token != "" {
		t.Error("H23 a huge token is kept")
	}
}

func requestWithCookie(name, value string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: name, Value: value})
	return r
}
