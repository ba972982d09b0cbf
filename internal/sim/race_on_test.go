//go:build race

package sim

// defaultSeeds is how many histories a test run plays: fewer here, because the
// race detector makes each some ten times slower and a history has one
// goroutine anyway.
const defaultSeeds = 500

// bugSeeds is in how many histories a bug must show.
const bugSeeds = 3000
