// Package redisjournal keeps threads in Redis, for many edges: per thread a
// flat hash, a stream, a base and pages, all in one slot; writing and publishing
// in one script; pub/sub as the fast path that may lose anything, and the stream
// as the truth.
//
// # Writing
//
// Each write is one constant script that decides by the rules of journal.Ledger,
// changes all that the thread is, and publishes what came of it. What scripts
// read and write is binary (codec.go, meta.go); they look into no JSON. Threads
// hash to partitions, partitions to a few lanes: a lane sends what has come
// while its last pipeline was under way, and no timer makes anybody wait. What a
// server did not answer is an error, since nobody knows what came of it; the
// same call again finds out.
//
// # Reading
//
// A load is one transaction of plain commands, and for a long thread further
// ranges of its stream, which count only if their tags go on from what was read.
//
// # What stays in Redis
//
// Threads have no expiry. Their commands go after a minute and a half without a
// new one, tombstones after a day; segments are found until their thread is
// trimmed while it has no live run, the newest 4096 of a thread at most. A
// server that evicts would tear holes, so readiness refuses one.
package redisjournal
