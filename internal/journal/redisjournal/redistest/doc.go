// Package redistest starts real Redis servers for tests, on loopback: one
// server, a cluster of three masters, or a master with two replicas and three
// Sentinels. What a test starts ends with it.
package redistest
