//go:build race

package caddymodule

// raceEnabled lets processes under test look for races where the tests do.
const raceEnabled = true
