package caddymodule

import (
	"net/http/httptest"
	"testing"
)

func TestOrigins(t *testing.T) {
	h := &Handler{Origins: []string{"https://app.example.com", "plain.example.com", "*.example.org", "localhost:3000", "https://[::1]:8443"}}
	admits, err := h.origins()
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{
		"https://chat.example.net":      true, // the site's own
		"https://app.example.com":       true,
		"https://APP.example.com":       true,
		"http://app.example.com":        false,
		"https://app.example.com:8443":  false,
		"https://app.example.com.evil":  false,
		"https://evil-app.example.com":  false,
		"http://plain.example.com":      true,
		"https://plain.example.com":     true,
		"ftp://plain.example.com":       false,
		"https://a.example.org":         true,
		"https://a.b.example.org":       true,
		"https://example.org":           false,
		"https://evilexample.org":       false,
		"https://a.example.org:444":     false,
		"http://localhost:3000":         true,
		"http://localhost:3001":         false,
		"https://[::1]:8443":            true,
		"null":                          false,
		"":                              false,
		"https://":                      false,
		"https://app.example.com@evil/": false,
	} {
		r := httptest.NewRequest("GET", "https://chat.example.net/socket.io/", nil)
		if got := admits(origin, r); got != want {
			t.Errorf("%q: %v", origin, got)
		}
	}
}

func TestOriginsNone(t *testing.T) {
	if f, err := new(Handler).origins(); f != nil || err != nil {
		t.Errorf("a handler without origins leaves the decision to the hub: %v", err)
	}
}

func TestOriginsAll(t *testing.T) {
	h := &Handler{Origins: []string{"*"}, Auth: []*Auth{{JWT: &JWT{}}}}
	f, err := h.origins()
	if err != nil || !f("https://anywhere.example", httptest.NewRequest("GET", "/", nil)) {
		t.Errorf("every origin is admitted where only tokens count: %v", err)
	}
}
