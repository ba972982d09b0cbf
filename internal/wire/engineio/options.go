package engineio

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Defaults of Options and Accept; the first three are those of the reference
// server, so that clients see nothing new.
const (
	DefaultPingInterval   = 25 * time.Second
	DefaultPingTimeout    = 20 * time.Second
	DefaultUpgradeTimeout = 10 * time.Second
	DefaultWriteTimeout   = 10 * time.Second
	DefaultBodyTimeout    = 30 * time.Second
	DefaultQueueBytes     = 1 << 20
	DefaultMaxConnections = 100_000
	DefaultMaxPackets     = 10_000
	DefaultMaxPayload     = 1_000_000
	DefaultLargeBytes     = 512 << 20
)

// Options are the settings of a Server. The zero value is the default of each.
type Options struct {
	PingInterval   time.Duration // from the handshake or a pong to the next ping
	PingTimeout    time.Duration // from a ping to the pong that must answer it
	UpgradeTimeout time.Duration // for a WebSocket that takes over from polling
	WriteTimeout   time.Duration // for each write of up to 64 KiB
	BodyTimeout    time.Duration // for reading the body of one POST

	// QueueBytes bounds what waits for one client, in bytes on the wire plus
	// 32 per packet. A packet that finds the queue empty is always taken.
	QueueBytes int
	// MaxConnections bounds the sessions of the server; further handshakes are
	// answered 503.
	MaxConnections int
	// LargeBytes bounds the memory of all messages over 64 KiB that are being
	// read or handled. A message that does not find room ends its session, which
	// the client may open again; small messages always pass.
	LargeBytes int64
	// MaxPackets bounds the packets of one POST.
	MaxPackets int

	// Counts are told what the sessions do; nil is nobody.
	Counts *ws.Counts
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	def(&o.PingInterval, DefaultPingInterval)
	def(&o.PingTimeout, DefaultPingTimeout)
	def(&o.UpgradeTimeout, DefaultUpgradeTimeout)
	def(&o.WriteTimeout, DefaultWriteTimeout)
	def(&o.BodyTimeout, DefaultBodyTimeout)
	def(&o.QueueBytes, DefaultQueueBytes)
	def(&o.MaxConnections, DefaultMaxConnections)
	def(&o.MaxPackets, DefaultMaxPackets)
	def(&o.LargeBytes, DefaultLargeBytes)
	if o.Counts == nil {
		o.Counts = new(ws.Counts)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Accept is what one HTTP request is served under. Value, RemoteIP and
// MaxPayload are taken at the handshake and stay with the session; the rest
// concerns the request alone.
type Accept struct {
	// Path is the prefix of the endpoint, with its final slash. Empty means any.
	Path string
	// MaxPayload bounds a message, and the body of a POST, from the client, in
	// bytes. It is announced in the handshake.
	MaxPayload int64
	// Origins decides on a request that carries an Origin header, on polling,
	// preflight and upgrade alike. Nil admits the request's own host only.
	Origins func(origin string, r *http.Request) bool
	// Cookie names a cookie to set on the handshake of a polling session, so that
	// a balancer can send its requests to the same server. Empty sets none.
	Cookie string
	// CookieValue is the cookie's value; empty means the session's id.
	CookieValue string
	// CookiePath is its path ("/" by default). CookieSecure marks it as for HTTPS
	// only; so is one that is set over TLS.
	CookiePath   string
	CookieSecure bool
	// Value is whatever the caller wants to have with the session. If it has a
	// method Ended(reason string), that is called once, after Handler.Close.
	Value any
	// RemoteIP is the client's address as the caller knows it.
	RemoteIP string
}

// Message is one message of the client. Data belongs to the receiver.
type Message struct {
	Data   []byte
	Binary bool
}

// Handler is told what happens to sessions. A panic in any method is logged and
// closes the session.
type Handler interface {
	// Open comes first, before the client has seen the session. It must not block.
	Open(s *Session)
	// Message is called in order and one at a time per session; while it runs
	// nothing more of that client is read, and its heartbeat is not counted
	// against it. An error closes the session as a violation of the protocol.
	Message(s *Session, m Message) error
	// Close comes once, last, and on its own goroutine: it may overlap a Message
	// that is still running. Reason is one of the Reason constants or the
	// caller's own.
	Close(s *Session, reason string)
}

// Why a session ended, in the words Socket.IO users know.
const (
	ReasonTransportClose = "transport close"
	ReasonTransportError = "transport error"
	ReasonPingTimeout    = "ping timeout"
	ReasonParseError     = "parse error"
	ReasonForcedClose    = "forced close"
	ReasonSlow           = "client too slow"
	ReasonShutdown       = "server shutting down"
)
