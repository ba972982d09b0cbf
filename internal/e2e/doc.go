// Package e2e holds the tests of the whole binary: Caddy with Parlance in it,
// on loopback ports, driven by clients and agents that nobody here wrote. It has
// no code of its own outside its tests.
package e2e
