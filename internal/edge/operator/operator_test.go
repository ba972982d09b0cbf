package operator

import (
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

func ask(method, path string, head ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	if len(head) > 0 {
		r.Header.Set(head[0], head[1])
	}
	Handler("/x/ui/").ServeHTTP(w, r)
	return w
}

// checkHeaders: nothing but the page's own files runs in it, and no other page
// shows it or reads from it.
func checkHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for key, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	csp := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none';", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none';", "form-action 'none';",
		"frame-ancestors 'none';", "require-trusted-types-for 'script';", "trusted-types 'none'",
	} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy lacks %q: %s", want, csp)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") {
		t.Errorf("the policy lets strangers in: %s", csp)
	}
}

func TestServesItsFilesAndNothingElse(t *testing.T) {
	names, err := fs.Glob(files, "*")
	if err != nil || len(names) < 5 {
		t.Fatalf("embedded: %v, %v", names, err)
	}
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	for _, name := range append(names, "") {
		w := ask("GET", "/x/ui/"+name)
		kind := kinds[".html"]
		if name != "" {
			kind = kinds[name[strings.LastIndexByte(name, '.'):]]
		}
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || kind == "" || w.Body.Len() == 0 {
			t.Errorf("%q: %d, %q", name, w.Code, w.Header().Get("Content-Type"))
		}
		checkHeaders(t, w.Header())
		if again := ask("GET", "/x/ui/"+name, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%q again: %d", name, again.Code)
		}
	}
	for _, path := range []string{"/", "/x/ui", "/x/ui/x.js", "/x/ui/operator.go", "/x/ui/testdata/timeline.test.mjs", "/x/ui/../app.js", "/app.js"} {
		if w := ask("GET", path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		} else {
			checkHeaders(t, w.Header())
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if w := ask(method, "/x/ui/"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// The policy would stop them, so a page that has any is broken.
func TestHasNoInlineCodeAndNoAbsoluteLinks(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		".html": regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\son[a-z]+\s*=|\sstyle\s*=|javascript:|(src|href)\s*=\s*"/`),
		".js":   regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|cssText|setAttribute\("(style|on)|https:`),
		".css":  regexp.MustCompile(`@import|url\(|https?:`),
	}
	names, _ := fs.Glob(files, "*")
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden[name[strings.LastIndexByte(name, '.'):]].Find(text); found != nil {
			t.Errorf("%s has %q", name, found)
		}
	}
}

// What is said of records, without a document: run by Node's own test runner.
func TestTimeline(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=tap", "testdata/").CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
