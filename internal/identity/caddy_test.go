package identity

import (
	"strings"
	"testing"
)

func TestCaddy(t *testing.T) {
	plain, err := NewCaddy(CaddyConfig{Realm: "r"})
	if err != nil {
		t.Fatal(err)
	}
	tenants, err := NewCaddy(CaddyConfig{Realm: "r", TenantMeta: "org"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewCaddy(CaddyConfig{}); err == nil {
		t.Error("no realm is accepted")
	}
	p, err := plain.Authenticate(t.Context(), Credentials{CaddyUser: "alice", CaddyMeta: map[string]string{"org": "x"}})
	if err != nil || p.Subject != (Subject{IssuerCaddy, "alice"}) || p.Tenant != "" || p.Realm != "r" {
		t.Fatalf("principal of %#v, error %v", p.Subject, err)
	}
	if Allow(p, ToolApproval, Thread{Realm: "r", Owner: p.Subject}) != nil {
		t.Error("a signed-in user may not answer on his own thread")
	}
	if p, err = tenants.Authenticate(t.Context(), Credentials{CaddyUser: "alice", CaddyMeta: map[string]string{"org": "x"}}); err != nil || p.Tenant != "x" {
		t.Fatalf("tenant %q, error %v", p.Tenant, err)
	}
	for name, c := range map[string]Credentials{
		"nobody":            {},
		"a token is no use": {Token: "a.b.c"},
		"newline":           {CaddyUser: "alice\nadmin"},
		"too long":          {CaddyUser: strings.Repeat("a", maxSubject+1)},
		"invalid UTF-8":     {CaddyUser: "a\xff"},
	} {
		t.Run("PIL-189 "+name, func(t *testing.T) {
			p, err := plain.Authenticate(t.Context(), c)
			refused(t, p, err, c.CaddyUser)
		})
	}
	p, err = tenants.Authenticate(t.Context(), Credentials{CaddyUser: "alice"})
	refused(t, p, err)
}

func TestFirst(t *testing.T) {
	j := testJWT(t, nil)
	a, _ := NewCaddy(CaddyConfig{Realm: "r"})
	both := First(j, a)
	good := Credentials{Token: signHS(t, secretA, claimsOf(nil)), CaddyUser: "alice"}
	if p, err := both.Authenticate(t.Context(), good); err != nil || p.Subject.Issuer != IssuerJWT+"https://id" {
		t.Fatalf("the first does not decide: %#v, %v", p.Subject.Issuer, err)
	}
	if p, err := both.Authenticate(t.Context(), Credentials{CaddyUser: "alice"}); err != nil || p.Subject.Issuer != IssuerCaddy {
		t.Fatalf("the second does not follow: %v", err)
	}
	p, err := both.Authenticate(t.Context(), Credentials{Token: "forged", CaddyUser: "alice"})
	refused(t, p, err)
	p, err = both.Authenticate(t.Context(), Credentials{})
	refused(t, p, err)
	p, err = First().Authenticate(t.Context(), good)
	refused(t, p, err)

	p, _ = both.Authenticate(t.Context(), Credentials{CaddyUser: "alice"})
	if err := Recheck(both, p, start); err != nil {
		t.Errorf("recheck of a standing principal: %v", err)
	}
	stranger := Principal{Realm: "r", Subject: Subject{IssuerBrowser, "alice"}}
	if Recheck(a, stranger, start) == nil || Recheck(First(), p, start) == nil {
		t.Error("somebody else's principal stands")
	}
	if err := Recheck(First(j), p, start); err == nil {
		t.Error("a user of caddy stands without auth caddy")
	}
}
