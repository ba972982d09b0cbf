package phoenix

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// pollKey finds the connection of a polling client. It is a bearer secret of that
// client, unlike its SocketID, and leaves the server only signed.
type pollKey [16]byte

// token is how a polling client names its connection: opaque to it, and refused
// before anything is looked up if this server did not make it.
func (e *Server) token(key pollKey) string {
	return base64.RawURLEncoding.EncodeToString(append(key[:], e.sign(key[:])...))
}

func (e *Server) readToken(token string) (key pollKey, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != 2*len(key) || !hmac.Equal(b[len(key):], e.sign(b[:len(key)])) {
		return key, false
	}
	return pollKey(b[:len(key)]), true
}

func (e *Server) sign(b []byte) []byte {
	h := hmac.New(sha256.New, e.secret[:])
	h.Write(b)
	return h.Sum(nil)[:len(pollKey{})]
}

func newPollKey() (key pollKey) {
	_, _ = rand.Read(key[:]) // never fails, by its contract
	return key
}

// newID returns 20 characters: 120 random bits, as base64url.
func newID() string {
	var b [15]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
