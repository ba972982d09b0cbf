//go:build !race

package sim

// defaultSeeds is how many histories a test run plays.
const defaultSeeds = 10_000

// bugSeeds is in how many histories a bug must show.
const bugSeeds = 3000
