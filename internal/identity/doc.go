// Package identity says who is at the other end of a connection and what that
// principal may do.
//
// It turns what a handshake carried (a bearer token, a cookie, the user that
// Caddy's own authentication found) into a [Principal], and it holds the one
// function that decides access: [Allow]. Dialects and the conductor ask it and
// nobody else; they never compare subjects or tenants themselves.
//
// The package owes its callers that a principal cannot be forged, that subjects
// of different issuers are never equal, that realm and tenant are walls, and
// that neither an error nor a String method tells any part of a credential.
// Every failure to authenticate is [ErrUnauthenticated] with one text; the
// reason, in fixed words, is for debug logs only ([Reason]).
//
// It leaves to others: the origin check of a handshake, rate limits, closing
// what was revoked (it only tells, by [Recheck]), and storage: keys live on a
// [Shelf] that the journal provides.
package identity
