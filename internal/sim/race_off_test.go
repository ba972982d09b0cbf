//go:build !race

package sim

// defaultSeeds is how many histories a test run plays.
const defaultSeeds = 10_000
