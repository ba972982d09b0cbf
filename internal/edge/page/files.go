package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strings"
	"time"
)

// index is the file that stands for its folder.
const index = "index.html"

// kinds are those of the files, whatever a machine's own table says.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Files are a page's own, served below a path that begins and ends with a slash;
// elsewhere there is nothing.
type Files struct {
	mount string
	head  http.Header
	files map[string]file
}

type file struct {
	data      []byte
	kind, tag string
}

// NewFiles takes the files of a folder. policy is their Content-Security-Policy;
// head is said with each beside, or is nil. It panics where an embedded file cannot
// be read.
func NewFiles(mount string, from fs.FS, policy string, head http.Header) *Files {
	f := &Files{mount: mount, files: make(map[string]file), head: http.Header{
		"Content-Security-Policy":    {policy},
		"X-Content-Type-Options":     {"nosniff"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
		"Cache-Control":              {"no-cache"},
	}}
	maps.Copy(f.head, head)
	names, _ := fs.Glob(from, "*.*") // fails for a bad pattern only
	for _, name := range names {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			panic("page: " + err.Error())
		}
		f.set(name, data)
	}
	return f
}

func (f *Files) set(name string, data []byte) {
	sum := sha256.Sum256(data)
	f.files[name] = file{data, kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	if name == index {
		f.files[""] = f.files[index]
	}
}

func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	for name, values := range f.head {
		head[name] = append([]string{}, values...) // whoever serves may add to it
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, f.mount)
	found, has := f.files[name]
	if !ok || !has {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	head.Set("Content-Type", found.kind)
	head.Set("ETag", found.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(found.data))
}
