package phoenix

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Defaults of Options and Accept. IdleTimeout, PollWindow and MaxChannels are
// those of the reference server, so that clients see nothing new.
const (
	DefaultIdleTimeout    = 60 * time.Second
	DefaultPollWindow     = 10 * time.Second
	DefaultJoinTimeout    = 15 * time.Second
	DefaultWriteTimeout   = 10 * time.Second
	DefaultBodyTimeout    = 30 * time.Second
	DefaultMaxChannels    = 100
	DefaultMaxFrames      = 1_000
	DefaultQueueBytes     = 1 << 20
	DefaultAnswerBytes    = 32 << 20
	DefaultMaxConnections = 100_000
	DefaultAcceptRate     = 2_000
	DefaultJoinRate       = 10
	DefaultLargeBytes     = 512 << 20
	DefaultMaxPayload     = 1_000_000
)

// Bounds of what a client's frame may name, in bytes.
const (
	maxRef   = 255 // of a join_ref or ref, as it stands in the frame
	maxTopic = 4 << 10
	maxEvent = 255
)

// maxOutside bounds a frame of a connection that has never joined anything, in
// bytes: all that it has to say is a join with its token.
const maxOutside = 64 << 10

// Options are the settings of a Server. The zero value is the default of each.
type Options struct {
	IdleTimeout  time.Duration // a WebSocket that sends no frame for it is closed
	PollWindow   time.Duration // how long a GET waits; a client may be away for half of it
	JoinTimeout  time.Duration // for Handler.Join
	WriteTimeout time.Duration // for each write of up to 64 KiB
	BodyTimeout  time.Duration // for reading the body of one POST

	MaxChannels int // channels of one connection
	MaxFrames   int // frames of one POST
	// QueueBytes bounds what waits for one client, in bytes on the wire plus 32
	// per frame. A frame that finds nothing waiting is always taken.
	QueueBytes int
	// AnswerBytes bounds in the same way what waits of replies and of SendExempt.
	AnswerBytes int
	// MaxConnections bounds the connections of the server; further handshakes are
	// answered 503.
	MaxConnections int
	// AcceptRate is how many handshakes a second are served, for any burst of up
	// to two seconds' worth; others are answered 503, which is cheap. Clients of
	// the protocol come back without jitter, all of a restarted server at once.
	AcceptRate int
	// JoinRate is how many joins a second one connection may ask for, beyond a
	// burst of twice MaxChannels.
	JoinRate int
	// LargeBytes bounds the memory of all frames over 64 KiB that are being read
	// or handled. One that does not find room ends its connection.
	LargeBytes int64

	// Counts are told what the connections do; nil is nobody.
	Counts *ws.Counts
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	def(&o.IdleTimeout, DefaultIdleTimeout)
	def(&o.PollWindow, DefaultPollWindow)
	def(&o.JoinTimeout, DefaultJoinTimeout)
	def(&o.WriteTimeout, DefaultWriteTimeout)
	def(&o.BodyTimeout, DefaultBodyTimeout)
	def(&o.MaxChannels, DefaultMaxChannels)
	def(&o.MaxFrames, DefaultMaxFrames)
	def(&o.QueueBytes, DefaultQueueBytes)
	def(&o.AnswerBytes, DefaultAnswerBytes)
	def(&o.MaxConnections, DefaultMaxConnections)
	def(&o.AcceptRate, DefaultAcceptRate)
	def(&o.JoinRate, DefaultJoinRate)
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
// MaxPayload are taken at the handshake and stay with the connection; the rest
// concerns the request alone.
type Accept struct {
	// Path is the prefix of the endpoint, with its final slash; behind it comes
	// "websocket" or "longpoll". Empty means any prefix.
	Path string
	// MaxPayload bounds a frame from the client, in bytes. While the connection
	// has not joined anything it is at most 64 KiB.
	MaxPayload int64
	// Origins decides on a request that carries an Origin header. Nil admits the
	// request's own host only.
	Origins func(origin string, r *http.Request) bool
	// Cookie names a cookie to set on the handshake of long-polling, so that a
	// balancer can send its requests to the same server. Empty sets none.
	Cookie string
	// CookieValue is the cookie's value; empty means the connection's SocketID.
	CookieValue string
	// Value is whatever the caller wants to have with the connection. If it has a
	// method Ended(reason string), that is called once, when it is over.
	Value any
	// RemoteIP is the client's address as the caller knows it.
	RemoteIP string
}

// Handler is told what happens to channels. Its methods are called one at a time
// per connection, and in the order of the client's frames.
type Handler interface {
	// Join decides on a join of c.Topic(). Response is the reply's response, a
	// JSON object, or nil for {}. A *JoinError is shown to the client as it is,
	// ErrUnmatched as a topic that nobody serves, any other error as "join
	// crashed" after it was logged; so is a panic.
	//
	// It may take its time: what else the client sends waits, heartbeats aside,
	// and ctx ends with the connection, when the client gives up this join, or
	// after Options.JoinTimeout. The channel cannot send yet, but it may be ended.
	// An older channel of the topic has been told Left before.
	Join(ctx context.Context, c *Channel, payload json.RawMessage) (response []byte, err error)
	// Joined follows the reply to the join: what it sends comes right after that.
	// It is left out if the channel ended in the meantime.
	Joined(c *Channel)
	// In is a push of the client to a joined channel. While it runs nothing more
	// of that connection is read, which is how a client is slowed down. A panic is
	// logged and ends the channel with phx_error.
	In(c *Channel, p Push)
	// Left is called exactly once for each Join that returned no error, and when
	// no other callback of the connection runs. Reason is one of the Reason
	// constants or the one given to CloseTransport.
	Left(c *Channel, reason string)
}

// Ref is a join_ref or ref as it stands in the client's frame: a JSON string or
// number. Empty stands for null.
type Ref string

// Push is what a client sent to a channel. All its memory belongs to the receiver.
type Push struct {
	// Ref names the push in its reply.
	Ref   Ref
	Event string
	// Payload is any valid JSON value as the client wrote it, perhaps with lone
	// surrogates or duplicate keys.
	Payload json.RawMessage
}

// JoinError refuses a join; Response, a JSON object, is shown to the client. The
// client asks again after some seconds, for ever.
type JoinError struct{ Response []byte }

func (e *JoinError) Error() string { return "phoenix: join refused" }

// Why a channel ended.
const (
	ReasonLeave       = "left"              // phx_leave
	ReasonReplaced    = "joined again"      // by a newer join of its topic
	ReasonServerClose = "closed"            // Channel.Close
	ReasonServerError = "ended with error"  // Channel.Error
	ReasonCrash       = "handler panicked"  // phx_error
	ReasonTransport   = "transport closed"  // by the client, or by the line
	ReasonTimeout     = "heartbeat timeout" // also: a polling client stayed away
	ReasonMalformed   = "malformed frame"
	ReasonTooLarge    = "frame too large"
	ReasonSlow        = "client too slow"
	ReasonShutdown    = "server shutting down"
)
