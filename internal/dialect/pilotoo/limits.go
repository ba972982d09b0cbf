package pilotoo

import "time"

// The version that this package speaks (PIL-200). Major is also the v of every
// envelope; MinClientMajor is the oldest major that is still served (PIL-205).
const (
	Major          = 1
	Minor          = 17
	MinClientMajor = 1
)

// Limits on commands. Those of the protocol are not options.
const (
	// MaxInput bounds input, in UTF-16 code units (PIL-031, PIL-032).
	MaxInput = 16_000
	// MaxAttachments bounds the attachments of a run (PIL-050).
	MaxAttachments = 8
	// MaxAttachmentBytes bounds one attachment, decoded (PIL-052).
	MaxAttachmentBytes = 5 << 20
	// MaxAttachmentName bounds an attachment's name, in characters.
	MaxAttachmentName = 255
	// MaxTools bounds the client tools of a command (PIL-061).
	MaxTools = 32
	// MaxToolName and MaxToolDescription are in characters (PIL-063, PIL-064).
	MaxToolName        = 64
	MaxToolDescription = 1_024
	// MaxToolSchema bounds each schema of a client tool, in bytes of JSON.
	MaxToolSchema = 64 << 10
	// MaxAnswer bounds an answer, in bytes of JSON (PIL-074).
	MaxAnswer = 256 << 10
	// MaxDepth bounds how deep a command's JSON may nest.
	MaxDepth = 128
)

// MaxPayload is the Socket.IO message size that admits a command with all its
// attachments inline (PIL-055), in bytes: eight of them in base64 and room for
// the rest of the command.
const MaxPayload = MaxAttachments*((MaxAttachmentBytes+2)/3*4) + 4<<20

// MaxBinary bounds a Socket.IO message with binary attachments, in bytes. The
// protocol has none; the bound leaves room to say so.
const MaxBinary = 64 << 10

// Limits on what is sent.
const (
	// MaxRooms is how many threads one socket may watch (PIL-145).
	MaxRooms = 256
	// DefaultHistory is how many of the newest messages a history holds
	// (PIL-162), and maxHistoryBytes how large they may be together.
	DefaultHistory  = 1_000
	maxHistoryBytes = 32 << 20
	// A replay keeps at least the last maxReplay envelopes or maxReplayBytes,
	// whichever is less; the oldest go first (PIL-177).
	maxReplay      = 10_000
	maxReplayBytes = 4 << 20
)

// commandTimeout bounds one command, once it was read; a client is not kept
// waiting longer.
const commandTimeout = 30 * time.Second

// The names of the events on the socket.
const (
	eventHello    = "protocol:hello"
	eventError    = "protocol:error"
	eventEnvelope = "run:event"
	eventTask     = "task:status"

	commandStart    = "run:start"
	commandResume   = "run:resume"
	commandCancel   = "run:cancel"
	commandDetach   = "run:detach"
	commandMessages = "thread:messages"
)
