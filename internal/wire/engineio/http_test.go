package engineio

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const (
	badTransport = `{"code":0,"message":"Transport unknown"}`
	badSession   = `{"code":1,"message":"Session ID unknown"}`
	badVerb      = `{"code":2,"message":"Bad handshake method"}`
	badReq       = `{"code":3,"message":"Bad request"}`
	notAllowed   = `{"code":4,"message":"Forbidden"}`
	badVersion   = `{"code":5,"message":"Unsupported protocol version"}`
)

func TestRefusals(t *testing.T) {
	s := serve(t, Options{}, Accept{Path: "/"})
	ws := []string{"Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	sid := s.open()
	for _, c := range []struct {
		name, method, query string
		header              []string
		status              int
		body                string
	}{
		{"no EIO", "GET", "transport=polling", nil, 400, badVersion},
		{"EIO=3", "GET", "EIO=3&transport=polling", nil, 400, badVersion},
		{"EIO=5", "GET", "EIO=5&transport=polling", nil, 400, badVersion},
		{"no transport", "GET", "EIO=4", nil, 400, badTransport},
		{"unknown transport", "GET", "EIO=4&transport=abc", nil, 400, badTransport},
		{"websocket without upgrade", "GET", "EIO=4&transport=websocket", nil, 400, badReq},
		{"unknown sid", "GET", polling + "&sid=zzz", nil, 400, badSession},
		{"unknown sid, POST", "POST", polling + "&sid=zzz", nil, 400, badSession},
		{"POST handshake", "POST", polling, nil, 400, badVerb},
		{"POST handshake without EIO is a bad method", "POST", "transport=polling", nil, 400, badVerb},
		{"PUT handshake", "PUT", polling, nil, 400, badVerb},
		{"PUT with sid", "PUT", polling + "&sid=" + sid, nil, 400, badReq},
		{"DELETE with sid", "DELETE", polling + "&sid=" + sid, nil, 400, badReq},
		{"sid with EIO=3", "GET", "EIO=3&transport=polling&sid=" + sid, nil, 400, badVersion},
		{"origin that is another", "GET", polling, []string{"Origin", "http://bad.example"}, 403, notAllowed},
		{"origin null", "GET", polling, []string{"Origin", "null"}, 403, notAllowed},
		{"known sid from a foreign origin", "GET", polling + "&sid=" + sid, []string{"Origin", "http://bad.example"}, 403, notAllowed},
		{"upgrade with unknown sid", "GET", "EIO=4&transport=websocket&sid=zzz", ws, 400, badSession},
		{"upgrade without EIO", "GET", "transport=websocket", ws, 400, badVersion},
		{"upgrade with EIO=3", "GET", "EIO=3&transport=websocket", ws, 400, badVersion},
		{"upgrade with transport=polling", "GET", polling, ws, 400, badReq},
		{"upgrade with unknown transport", "GET", "EIO=4&transport=abc", ws, 400, badTransport},
		{"upgrade from a foreign origin", "GET", "EIO=4&transport=websocket", append([]string{"Origin", "http://bad.example"}, ws...), 403, notAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := s.do(c.method, c.query, "", c.header...)
			s.want(res, c.status, c.body)
			if got := res.header.Get("Content-Type"); got != "application/json" {
				t.Fatalf("Content-Type %q", got)
			}
		})
	}
	if n := s.eio.Sessions(); n != 1 {
		t.Fatalf("%d sessions, want the one that was opened", n)
	}
	s.want(s.post(sid, "4x"), 200, "ok") // none of it has touched that
}

func TestHandshake(t *testing.T) {
	s := serve(t, Options{}, Accept{Path: "/socket.io/", Cookie: "io"})
	at := func(path string) reply { return s.send(context.Background(), "GET", path, nil) }
	for _, path := range []string{"/socket.io/", "/socket.io/anything"} {
		res := at(path + "?" + polling + "&t=abc&b64=1&j=0")
		if res.status != 200 || res.header.Get("Content-Type") != "text/plain; charset=UTF-8" || res.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %+v", path, res)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(res.body[1:]), &v); err != nil || len(v) != 5 {
			t.Fatalf("%s: %q", path, res.body)
		}
		sid := v["sid"].(string)
		want := `0{"sid":"` + sid + `","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}`
		if res.body != want || len(sid) != 20 {
			t.Fatalf("got %s, want %s", res.body, want)
		}
		if got := res.header.Get("Set-Cookie"); got != "io="+sid+"; Path=/; HttpOnly; SameSite=Lax" {
			t.Fatalf("cookie %q", got)
		}
		if res := s.send(context.Background(), "POST", path+"?"+polling+"&sid="+sid, strings.NewReader("4x")); res.header.Get("Set-Cookie") != "" || res.header.Get("Content-Type") != "text/html" {
			t.Fatalf("POST: %+v", res)
		}
	}
	for _, path := range []string{"/socket.io", "/socket.iox/", "/other/"} {
		if res := at(path + "?" + polling); res.status != 404 {
			t.Fatalf("%s: %d, want 404", path, res.status)
		}
	}
}

func TestHandshakeWebSocket(t *testing.T) {
	s := serve(t, Options{}, Accept{MaxPayload: 77})
	c := s.dial("EIO=4&transport=websocket")
	m := c.next()
	if !strings.HasSuffix(m, `","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":77}`) {
		t.Fatalf("got %q", m)
	}
}

func TestExtendedConnectIsRefused(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	if res := s.do("CONNECT", "EIO=4&transport=websocket", ""); res.status != http.StatusNotImplemented {
		t.Fatalf("RFC 8441 CONNECT: %+v", res)
	}
}

func TestCORS(t *testing.T) {
	good := "http://good.example"
	s := serve(t, Options{}, Accept{Origins: func(o string, _ *http.Request) bool { return o == good }})
	res := s.do("OPTIONS", polling, "", "Origin", good, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-a")
	h := res.header
	if res.status != 204 || h.Get("Access-Control-Allow-Origin") != good || h.Get("Access-Control-Allow-Credentials") != "true" ||
		h.Get("Access-Control-Allow-Methods") != "GET, POST" || h.Get("Access-Control-Allow-Headers") != "x-a" || !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
		t.Fatalf("preflight: %+v", res)
	}
	if res := s.do("OPTIONS", polling, "", "Origin", "http://bad.example"); res.status != 403 || res.header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatalf("foreign preflight: %+v", res)
	}
	if res := s.do("GET", polling, "", "Origin", good); res.status != 200 || res.header.Get("Access-Control-Allow-Origin") != good {
		t.Fatalf("GET: %+v", res)
	}
	if res := s.do("GET", polling+"&sid=zzz", "", "Origin", good); res.status != 400 || res.header.Get("Access-Control-Allow-Origin") != good {
		t.Fatalf("a refusal must be readable to a page that is allowed: %+v", res)
	}
	if _, res, err := s.tryDial("EIO=4&transport=websocket", "Origin", "http://bad.example"); err == nil || res.StatusCode != 403 {
		t.Fatalf("WebSocket from a foreign origin: %v", res)
	}
	s.dial("EIO=4&transport=websocket", "Origin", good)
	own := serve(t, Options{}, Accept{})
	own.dial("EIO=4&transport=websocket", "Origin", own.URL)
	if res := own.do("GET", polling, "", "Origin", own.URL); res.status != 200 {
		t.Fatalf("own host: %+v", res)
	}
}

func TestLegalOrigin(t *testing.T) {
	for origin, want := range map[string]bool{"http://a.example": true, "": true, "http://a\x01b": false, "a\x7f": false} {
		if legal(origin) != want {
			t.Errorf("legal(%q) is not %v", origin, want)
		}
	}
}
