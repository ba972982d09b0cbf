// Package engineio is the server side of the Engine.IO protocol, revision 4:
// sessions over HTTP long-polling and WebSocket, the upgrade from the first to
// the second, heartbeat and binary messages.
//
// It owes its caller an ordered, bounded, never blocking outbound queue per
// session, inbound messages one at a time, and exactly one Close for each Open.
// What the messages mean, and who may open a session, it leaves to the package
// above; see socketio.
//
// Rules are those of the Engine.IO protocol document and of RFC 6455. Where the
// reference server is lenient in a way no client needs, this one is strict.
package engineio
