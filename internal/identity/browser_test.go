package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

var (
	keyOne = Key{ID: "one", Secret: []byte("0123456789abcdef0123456789abcdef")}
	keyTwo = Key{ID: "two", Secret: []byte("fedcba9876543210fedcba9876543210")}
)

func testBrowser(t *testing.T, realm string, c *clock, keys ...Key) *Browser {
	t.Helper()
	b, err := NewBrowser(BrowserConfig{Realm: realm, Keys: StaticKeys(keys), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func with(values ...string) Credentials {
	var c Credentials
	for _, v := range values {
		c.Cookies = append(c.Cookies, &http.Cookie{Name: CookieName, Value: v})
	}
	return c
}

func TestBrowserEnsure(t *testing.T) {
	c := newClock()
	b := testBrowser(t, "r", c, keyOne)
	p, set, err := b.Ensure(t.Context(), Credentials{Secure: true})
	if err != nil || set == nil {
		t.Fatalf("cookie %v, error %v", set, err)
	}
	if got := set.String(); !strings.HasPrefix(got, "parlance=1.one.") || !strings.HasSuffix(got, "; Path=/; Max-Age=34560000; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("cookie is %s", got)
	}
	if p.Realm != "r" || p.Subject.Issuer != IssuerBrowser || !p.Ambient || Allow(p, UserMessage, Thread{Realm: "r", Owner: p.Subject}) != nil {
		t.Errorf("principal is %#v", p)
	}
	if _, plain, _ := b.Ensure(t.Context(), Credentials{}); plain.Secure {
		t.Error("without TLS a browser would never send the cookie back")
	}
	again, set2, err := b.Ensure(t.Context(), with(set.Value))
	if err != nil || set2 != nil || !again.Equal(p) {
		t.Errorf("the same browser is another: %v %v", set2, err)
	}
	if q, err := b.Authenticate(t.Context(), with(set.Value)); err != nil || !q.Equal(p) {
		t.Errorf("Authenticate and Ensure differ: %v", err)
	}
	other, _, _ := b.Ensure(t.Context(), Credentials{})
	if other.Same(p) {
		t.Error("two browsers are one subject")
	}
	if err := Recheck(b, p, c.now()); err != nil {
		t.Errorf("recheck: %v", err)
	}
	if Recheck(testBrowser(t, "s", c, keyOne), p, c.now()) == nil || Recheck(b, p, c.now().Add(cookieLife+time.Second)) == nil {
		t.Error("recheck lets pass another realm or an old cookie")
	}
}

func TestBrowserAge(t *testing.T) {
	for _, row := range []struct {
		name        string
		age         time.Duration
		stays, sets bool
	}{
		{"fresh", time.Hour, true, false},
		{"30 days", cookieRenewal, true, false},
		{"older than 30 days is issued again", cookieRenewal + time.Second, true, true},
		{"400 days", cookieLife, true, true},
		{"older than 400 days is nobody", cookieLife + time.Second, false, true},
		{"issued in the future", -31 * time.Second, false, true},
		{"a clock a little behind", -30 * time.Second, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newClock()
			b := testBrowser(t, "r", c, keyOne)
			p, set, _ := b.Ensure(t.Context(), Credentials{})
			c.pass(row.age)
			q, again, err := b.Ensure(t.Context(), with(set.Value))
			if err != nil || q.Same(p) != row.stays || (again != nil) != row.sets {
				t.Fatalf("stays %v, cookie %v, error %v", q.Same(p), again, err)
			}
			if row.sets && !q.Expires.Equal(c.now().Add(cookieLife)) {
				t.Error("the new cookie has an old end")
			}
		})
	}
}

func TestBrowserKeyRotation(t *testing.T) {
	c := newClock()
	p, set, _ := testBrowser(t, "r", c, keyOne).Ensure(t.Context(), Credentials{})
	q, again, err := testBrowser(t, "r", c, keyTwo, keyOne).Ensure(t.Context(), with(set.Value))
	if err != nil || !q.Same(p) || again == nil || !strings.HasPrefix(again.Value, "1.two.") {
		t.Fatalf("old key: same %v, cookie %v, error %v", q.Same(p), again, err)
	}
	if q, _, _ = testBrowser(t, "r", c, keyTwo).Ensure(t.Context(), with(again.Value)); !q.Same(p) {
		t.Error("the subject is lost with the old key")
	}
	if q, _, _ = testBrowser(t, "r", c, keyTwo).Ensure(t.Context(), with(set.Value)); q.Same(p) {
		t.Error("a key that was taken out still signs")
	}
	// The same id with another secret is another key.
	if q, _, _ = testBrowser(t, "r", c, Key{"one", keyTwo.Secret}).Ensure(t.Context(), with(set.Value)); q.Same(p) {
		t.Error("the id of a key verifies")
	}
}

func TestBrowserTampering(t *testing.T) {
	c := newClock()
	b := testBrowser(t, "r", c, keyOne, keyTwo)
	p, set, _ := b.Ensure(t.Context(), Credentials{})
	good := set.Value
	parts := strings.Split(good, ".")
	bad := map[string]string{
		"empty":           "",
		"other version":   "2" + good[1:],
		"other key":       strings.Replace(good, ".one.", ".two.", 1),
		"unknown key":     strings.Replace(good, ".one.", ".xxx.", 1),
		"no MAC":          strings.Join(parts[:3], ".") + ".",
		"one part more":   good + ".x",
		"truncated":       good[:len(good)-1],
		"padded":          good + "=",
		"newline":         good[:20] + "\n" + good[20:],
		"longer payload":  parts[0] + "." + parts[1] + "." + parts[2] + "AAAA." + parts[3],
		"only dots":       strings.Repeat(".", 200),
		"huge":            strings.Repeat(good, 1000),
		"payload as MAC":  parts[0] + "." + parts[1] + "." + parts[2] + "." + parts[2],
		"placeholder":     "{env.SECRET}",
		"standard base64": parts[0] + "." + parts[1] + "." + parts[2] + "." + strings.Map(toStandard, parts[3]) + "+",
	}
	for i := range good {
		flipped := []byte(good)
		flipped[i] ^= 1
		bad["bit flip at "+string(rune('0'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))] = string(flipped)
	}
	for name, value := range bad {
		t.Run("PIL-189 "+name, func(t *testing.T) {
			q, err := b.Authenticate(t.Context(), with(value))
			refused(t, q, err, value)
			if q, _, _ = b.Ensure(t.Context(), with(value)); q.Same(p) {
				t.Fatal("Ensure believes it")
			}
		})
	}
	if q, err := b.Authenticate(t.Context(), with("tossed", good)); err != nil || !q.Same(p) {
		t.Error("a foreign cookie before it hides the good one")
	}
	q, err := b.Authenticate(t.Context(), Credentials{Token: good, CaddyUser: "x"})
	refused(t, q, err)
}

func toStandard(r rune) rune {
	switch r {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return r
}

func TestBrowserRealmCrossing(t *testing.T) {
	c := newClock()
	for _, pair := range [][2]string{{"a", "b"}, {"a", "a1"}, {"a1", "a"}, {"r", "R"}} {
		_, set, _ := testBrowser(t, pair[0], c, keyOne).Ensure(t.Context(), Credentials{})
		q, err := testBrowser(t, pair[1], c, keyOne).Authenticate(t.Context(), with(set.Value))
		refused(t, q, err, set.Value)
	}
}

func TestBrowserWithoutKey(t *testing.T) {
	down := errors.New("down")
	for name, keys := range map[string]KeySource{
		"shelf down": NewSecrets(&fakeShelf{fail: down}, nil).Named(BrowserKeyName),
		"none":       StaticKeys{},
		"short":      StaticKeys{{ID: "x", Secret: []byte("short")}},
		"bad id":     StaticKeys{{ID: "a.b", Secret: keyOne.Secret}},
		"no id":      StaticKeys{{Secret: keyOne.Secret}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := NewBrowser(BrowserConfig{Realm: "r", Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			p, err := b.Authenticate(t.Context(), with("1.one.x.y"))
			refused(t, p, err)
			if _, set, err := b.Ensure(t.Context(), Credentials{}); err == nil || set != nil {
				t.Error("a cookie without a key")
			}
		})
	}
	if _, err := NewBrowser(BrowserConfig{Realm: "r"}); err == nil {
		t.Error("no keys are accepted")
	}
}

func TestBrowserOnTwoEdges(t *testing.T) {
	shelf := &fakeShelf{}
	edge := func() *Browser {
		b, err := NewBrowser(BrowserConfig{Realm: "r", Keys: NewSecrets(shelf, nil).Named(BrowserKeyName)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p, set, err := edge().Ensure(context.Background(), Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if q, err := edge().Authenticate(t.Context(), with(set.Value)); err != nil || !q.Same(p) {
		t.Errorf("the other edge does not know the browser: %v", err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(p.Subject.ID); err != nil || len(raw) != 16 {
		t.Errorf("the id has %d bytes", len(raw))
	}
}
