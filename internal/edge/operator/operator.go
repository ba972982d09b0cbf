// Package operator is the operator's page: plain files in the binary, without a
// build step and without libraries. It owes headers that let nothing else run in
// it; what it asks for and has done, below the folder that its own is in, is the
// business of whoever mounts it, and so is who may see it.
package operator

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed index.html *.css *.js
var files embed.FS

const index = "index.html"

// policy lets the page load its own files and ask its own server. In browsers
// that know of trusted types no text can become markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// kinds are those of the files, whatever a machine's own table says.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

type file struct {
	data      []byte
	kind, tag string
}

type handler struct {
	mount string
	files map[string]file
}

// Handler serves the page and its files below a path that begins and ends with a
// slash, and 404 elsewhere.
func Handler(mount string) http.Handler {
	h := &handler{mount: mount, files: make(map[string]file)}
	names, _ := fs.Glob(files, "*") // fails for a bad pattern only
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic("operator: an embedded file cannot be read: " + err.Error())
		}
		sum := sha256.Sum256(data)
		h.files[name] = file{data, kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	}
	h.files[""] = h.files[index]
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	// Caddy's admin endpoint knows its own pages by where they say they are from.
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, h.mount)
	f, found := h.files[name]
	if !ok || !found {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	head.Set("Content-Type", f.kind)
	head.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}
