// Package operator is the operator's page: plain files in the binary, without a
// build step and without libraries. It owes headers that let nothing else run in
// it; what it asks for and has done, below the folder that its own is in, is the
// business of whoever mounts it, and so is who may see it.
package operator

import (
	"embed"
	"net/http"

	"github.com/parlance-gateway/parlance/internal/edge/page"
)

//go:embed index.html *.css *.js
var files embed.FS

// policy lets the page load its own files and ask its own server. In browsers
// that know of trusted types no text can become markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page and its files below a path that begins and ends with a
// slash, and 404 elsewhere.
func Handler(mount string) http.Handler {
	return page.NewFiles(mount, files, policy, http.Header{
		// Caddy's admin endpoint knows its own pages by where they say they are from.
		"Referrer-Policy":              {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	})
}
