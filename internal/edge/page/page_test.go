package page

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, o Options, method, path string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(o).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(files, "*")
	if err != nil || len(names) < 5 {
		t.Fatalf("embedded: %v, %v", names, err)
	}
	return names
}

func TestServesEachFileWithItsTypeAndHeaders(t *testing.T) {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	for _, name := range append(names(t), "") {
		for _, method := range []string{"GET", "HEAD"} {
			r := get(t, Options{Path: "/demo/"}, method, "/demo/"+name)
			if r.StatusCode != 200 || !Has(name) {
				t.Fatalf("%s %q: %d", method, name, r.StatusCode)
			}
			kind := kinds[".html"]
			if name != "" {
				kind = kinds[name[strings.LastIndexByte(name, '.'):]]
			}
			if got := r.Header.Get("Content-Type"); got != kind {
				t.Errorf("%q is %q, want %q", name, got, kind)
			}
			if text := body(t, r); (len(text) > 0) != (method == "GET") {
				t.Errorf("%s %q has %d bytes", method, name, len(text))
			}
			checkHeaders(t, r)
		}
	}
}

func checkHeaders(t *testing.T, r *http.Response) {
	t.Helper()
	for key, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := r.Header.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	csp := r.Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy lacks %q: %s", want, csp)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") {
		t.Errorf("the policy lets strangers in: %s", csp)
	}
}

func TestServesNothingElse(t *testing.T) {
	for _, path := range []string{
		"/", "/demo", "/demo/x.js", "/demo/page.go", "/demo/testdata/fold.test.mjs", "/demo/index.html/",
		"/demo//index.html", "/demo/../index.html", "/index.html",
	} {
		if r := get(t, Options{Path: "/demo/"}, "GET", path); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		} else {
			checkHeaders(t, r)
		}
	}
	for _, name := range []string{"x.js", "page.go", "/", "/index.html", "../page/index.html", ".", "testdata"} {
		if Has(name) {
			t.Errorf("has %q", name)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"} {
		r := get(t, Options{Path: "/"}, method, "/")
		if r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, allow %q", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}

func TestAnswersNotModified(t *testing.T) {
	tag := get(t, Options{}, "GET", "/app.js").Header.Get("ETag")
	r := httptest.NewRequest("GET", "/app.js", nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	Handler(Options{}).ServeHTTP(w, r)
	if w.Code != http.StatusNotModified {
		t.Errorf("%d for %s", w.Code, tag)
	}
}

func TestSaysWhereTheServerIs(t *testing.T) {
	for _, c := range []struct {
		o              Options
		path           string
		socket, routes string
	}{
		{Options{}, "/", "./socket.io/", "./"},
		{Options{Path: "/demo/"}, "/demo/", "./../socket.io/", "./../"},
		{Options{Path: "a/b"}, "/a/b/", "./../../socket.io/", "./../../"},
		{Options{Path: "/demo/", SocketPath: "/chat/io/", RoutesPrefix: "/api"}, "/demo/", "./../chat/io/", "./../api/"},
		{Options{SocketPath: "//evil.example/x/"}, "/", "./evil.example/x/", "./"},
		{Options{SocketPath: `/"><script>/`}, "/", "./&#34;&gt;&lt;script&gt;/", "./"},
	} {
		text := body(t, get(t, c.o, "GET", c.path))
		want := `data-socket="` + c.socket + `" data-routes="` + c.routes + `"`
		if !strings.Contains(text, want) {
			t.Errorf("%+v: want %s in %.120s", c.o, want, text)
		}
	}
}

// The policy would stop them, so a page that has any is broken.
func TestHasNoInlineCodeAndNoAbsoluteLinks(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		".html": regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\son[a-z]+\s*=|\sstyle\s*=|javascript:|(src|href)\s*=\s*"(/|[a-z]+:)`),
		".js":   regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|cssText|setAttribute\("(style|on)|https?:/`),
		".css":  regexp.MustCompile(`@import|url\(|https?:`),
	}
	for _, name := range names(t) {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if re := forbidden[name[strings.LastIndexByte(name, '.'):]]; re != nil {
			if found := re.Find(text); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
	}
}

// What the page's modules owe without a document: run by Node's own test runner.
func TestModules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=tap", "testdata/").CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
