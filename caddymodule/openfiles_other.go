//go:build !unix

package caddymodule

// openFiles is not known here.
func openFiles() (n uint64, known bool) { return 0, false }
