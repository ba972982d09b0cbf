// Package redisjournal keeps threads in Redis, for many edges: per thread a
// flat hash, a stream, a base and pages, all in one slot; writing and publishing
// in one script; pub/sub as the fast path that may lose anything, and the stream
// as the truth.
package redisjournal
