//go:build unix

package caddymodule

import "syscall"

// openFiles is how many files this process may have open. Go has raised the soft
// limit to it at the start.
func openFiles() (n uint64, known bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Max), true //nolint:unconvert // it is signed on some systems
}
