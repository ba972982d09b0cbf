// Package page is the demonstration page: one thread open in two windows side
// by side, each with a socket of its own, speaking the Pilotoo protocol. It is
// plain files in the binary, without a build step and without libraries. It owes
// headers that let nothing else run in it, and links that hold wherever it is
// mounted; who may talk to a thread is not its business.
package page

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed index.html *.css *.js *.svg
var files embed.FS

// policy lets the page load its own files and talk to its own server; "ws:" and
// "wss:" are for browsers whose 'self' does not cover sockets.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"connect-src 'self' ws: wss:; img-src 'self' data: blob:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Options say where things are, as the server sees them: what stands before
// these paths in a browser's address does not matter.
type Options struct {
	// Path is where the page is mounted: "/" or "/demo/". A slash is added at
	// either end where it is missing.
	Path string
	// SocketPath is the Socket.IO endpoint; "" is "/socket.io/".
	SocketPath string
	// RoutesPrefix stands before the HTTP routes; "" is the root.
	RoutesPrefix string
}

// Has says whether name, a path below the page's own without a leading slash,
// is one of the page's files; "" is the page itself.
func Has(name string) bool {
	if name == "" {
		return true
	}
	info, err := fs.Stat(files, name) // refuses "..", "/" and the like
	return err == nil && !info.IsDir()
}

// Handler serves the page and its files below o.Path, whole paths and not
// stripped ones, and 404 elsewhere.
func Handler(o Options) http.Handler {
	mount := slashed(o.Path)
	if o.SocketPath == "" {
		o.SocketPath = "/socket.io/"
	}
	f := NewFiles(mount, files, policy, http.Header{"Referrer-Policy": {"no-referrer"}})
	f.set(index, render(f.files[index].data, relative(mount, o.SocketPath), relative(mount, slashed(o.RoutesPrefix))))
	return f
}

// slashed begins and ends with a slash.
func slashed(p string) string {
	return strings.TrimSuffix("/"+strings.Trim(p, "/"), "/") + "/"
}

// relative is the way from a page to an absolute path. It never begins with a
// slash or a scheme, so a browser stays on the page's own server.
func relative(page, to string) string {
	up := strings.Repeat("../", strings.Count(page, "/")-1)
	return "./" + up + strings.TrimLeft(to, "/")
}

func render(text []byte, socket, routes string) []byte {
	var b bytes.Buffer
	t := template.Must(template.New(index).Parse(string(text)))
	if err := t.Execute(&b, struct{ Socket, Routes string }{socket, routes}); err != nil {
		panic("page: " + err.Error())
	}
	return b.Bytes()
}
