// Package phoenix is the server side of Phoenix channels, version 2 of their JSON
// serializer, over WebSocket and over long-polling: joins and their references,
// pushes, replies, heartbeat, leave, close and error.
//
// It owes its caller each channel's callbacks in order and one at a time, an
// ordered, bounded, never blocking outbound queue per connection, frames that are
// encoded once for any number of channels, and exactly one Left for each Join that
// was accepted. Who may join a topic and what events mean it leaves to the caller.
//
// Where the reference server crashes a connection, this one closes it with a code
// that says why. Binary pushes are not offered.
package phoenix
