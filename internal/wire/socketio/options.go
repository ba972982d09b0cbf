package socketio

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// DefaultConnectTimeout is that of the reference server.
const DefaultConnectTimeout = 45 * time.Second

// Bounds of the protocol layer. MaxAttachments is that of the reference parser.
const (
	MaxAttachments = 10
	maxNamespace   = 255 // bytes of a namespace's name
	maxPending     = 64  // packets that wait for a CONNECT to be decided
)

// Options are the settings of a Server. The zero value is the default of each;
// those not explained here are engineio's.
type Options struct {
	PingInterval   time.Duration // 25 s
	PingTimeout    time.Duration // 20 s
	UpgradeTimeout time.Duration // 10 s
	WriteTimeout   time.Duration // 10 s
	BodyTimeout    time.Duration // 30 s
	// ConnectTimeout is how long a connection may be in no namespace, and how
	// long Handler.Connect may take. 45 s.
	ConnectTimeout time.Duration
	// QueueBytes bounds what waits for one connection: bytes on the wire plus 32
	// per frame. 1 MiB.
	QueueBytes     int
	MaxConnections int   // 100,000
	MaxPackets     int   // packets of one POST, 10,000
	LargeBytes     int64 // 512 MiB
	// AttachmentBytes bounds a packet that comes with attachments, them included:
	// what waits for the rest of them is held for as long as the client likes. 0
	// is the connection's MaxPayload.
	AttachmentBytes int64
	// Namespaces are those that clients may CONNECT to; nil means "/" alone.
	Namespaces []string
	Counts     *ws.Counts
	Logger     *slog.Logger
}

// Accept is what one HTTP request is served under; see engineio.Accept. An empty
// Path means any.
type Accept = engineio.Accept

// Handler is told what happens to sockets. Except for Connect its methods are
// called in order and one at a time per connection. A panic in any of them is
// logged and closes the connection.
type Handler interface {
	// Connect decides on a CONNECT packet. Auth is a JSON object, or nil when
	// the client gave none. A *ConnectError is shown to the client as it is, any
	// other error as "internal error" after it was logged. It may take its time:
	// what else the client sends waits, the heartbeat goes on, and ctx ends with
	// the connection or after Options.ConnectTimeout. The socket cannot send yet.
	// If the connection has gone when Connect returns, nothing else is called.
	Connect(ctx context.Context, s *Socket, auth json.RawMessage) error
	// Connected follows the CONNECT reply: what it sends comes right after that.
	Connected(s *Socket)
	// Event is an EVENT or BINARY_EVENT. While it runs nothing more of that
	// connection is read, which is how a client is slowed down.
	Event(s *Socket, e Event)
	// Disconnect is called exactly once after Connected, when no other callback
	// of the connection runs. Reason is one of the Reason constants here or in
	// engineio, or the one given to CloseTransport.
	Disconnect(s *Socket, reason string)
}

// Why a socket left its namespace while its connection lived.
const (
	ReasonClientDisconnect = "client namespace disconnect"
	ReasonServerDisconnect = "server namespace disconnect"
)

// Event is what a client emitted. All its memory belongs to the receiver.
type Event struct {
	// Name is a string; of a number, which some clients emit, its JSON.
	Name string
	// Args are the arguments after the name, as the client wrote them: valid
	// JSON, perhaps with lone surrogates or duplicate keys.
	Args []json.RawMessage
	// AckID is NoAck when the client does not wait for an answer.
	AckID int64
	// Attachments are what placeholders in Args refer to:
	// {"_placeholder":true,"num":0} stands for Attachments[0].
	Attachments [][]byte
}

// NoAck is the AckID of an event without one.
const NoAck = -1

// ConnectError refuses a CONNECT. Both fields are shown to the client.
type ConnectError struct {
	Message string
	Data    json.RawMessage // any JSON value, or nil
}

func (e *ConnectError) Error() string { return "connect refused: " + e.Message }
