// Package socketio is the server side of the Socket.IO protocol, revision 5, on
// top of engineio: namespaces, CONNECT with auth, events, acknowledgements and
// binary attachments.
//
// It owes its caller each socket's callbacks in order and one at a time, frames
// that are encoded once for any number of sockets, and exactly one Disconnect
// for each Connected. Rooms, tokens and the meaning of events it leaves to the
// caller. Connection state recovery is not offered: a CONNECT reply never
// carries a pid, so clients never ask for it.
package socketio
