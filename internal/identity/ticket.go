package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// maxTicket bounds how long a ticket may live; one that must live longer is a
// session and belongs on the shelf.
const maxTicket = time.Hour

// Tickets makes and reads short-lived tickets for one purpose: random names that
// any edge with the same key can tell to be ours and not yet over. What a ticket
// stands for, and that it is used once, is the caller's to keep.
type Tickets struct {
	key []byte // derived, so that one secret serves many purposes
}

// Signed makes tickets for purpose under key, of at least 32 bytes. Tickets of
// another purpose, or bound to another text, are nothing to each other.
func Signed(key []byte, purpose string) Tickets {
	mac := hmac.New(sha256.New, key)
	mac.Write(frame("parlance ticket key", purpose))
	return Tickets{mac.Sum(nil)}
}

const (
	ticketID   = 16 // bytes
	ticketSize = ticketID + 8 + sha256.Size
)

// Mint makes a ticket that ends after life, at most an hour. It is bound to the
// text bound, for example a principal's Key; Open demands the same.
func (t Tickets) Mint(now time.Time, life time.Duration, bound string) string {
	b := make([]byte, ticketID, ticketSize)
	rand.Read(b)
	b = binary.BigEndian.AppendUint64(b, uint64(now.Add(min(life, maxTicket)).UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, t.mac(b, bound)...))
}

// Open returns the ticket's random id, 22 characters, by which the caller can
// see to it that it is used once. It fails with an error that Is
// [ErrUnauthenticated].
func (t Tickets) Open(ticket string, now time.Time, bound string) (id string, err error) {
	if len(ticket) != base64.RawURLEncoding.EncodedLen(ticketSize) || strings.ContainsAny(ticket, "\r\n") {
		return "", refuse("no ticket")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(ticket)
	if err != nil || len(b) != ticketSize {
		return "", refuse("no ticket")
	}
	head, mac := b[:ticketID+8], b[ticketID+8:]
	if !hmac.Equal(mac, t.mac(head, bound)) {
		return "", refuse("ticket not accepted")
	}
	left := time.UnixMilli(int64(binary.BigEndian.Uint64(head[ticketID:]))).Sub(now)
	if left < 0 || left > maxTicket+time.Minute {
		return "", refuse("ticket over")
	}
	return base64.RawURLEncoding.EncodeToString(head[:ticketID]), nil
}

func (t Tickets) mac(head []byte, bound string) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write(frame(string(head), bound))
	return mac.Sum(nil)
}
