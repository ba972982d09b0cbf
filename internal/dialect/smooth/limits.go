package smooth

import "time"

// Limits of the protocol, and ours where it names none.
const (
	// MaxFrame bounds a frame from a client, in bytes (SMO-013).
	MaxFrame = 16 << 20
	// MaxMessage bounds a message, in code points (SMO-087).
	MaxMessage = 10_000
	// MaxRequestID bounds a requestId, in characters (SMO-014).
	MaxRequestID = 128
	// maxText bounds other texts of a frame, in bytes; maxName those that are
	// kept with a session.
	maxText = 4 << 10
	maxName = 320
	// maxSupports bounds the capabilities that a client declares.
	maxSupports = 64
	// maxMetadata bounds a session's metadata, and maxValues a card's values,
	// in bytes of JSON.
	maxMetadata = 16 << 10
	maxValues   = 256 << 10
	// maxFiles bounds the images, and the files, of a message; maxImage one of
	// them in bytes, decoded.
	maxFiles = 16
	maxImage = 8 << 20
	maxURL   = 8 << 10
	// maxDepth bounds how deep a frame's JSON may nest.
	maxDepth = 128
	// maxCitations bounds the citations of an answer (SMO-121).
	maxCitations = 8
)

// Defaults of a Config.
const (
	DefaultPark      = 300 * time.Second
	DefaultKeepalive = 30 * time.Second
)

const (
	// queueBytes bounds what waits for a client to read it; beyond it the
	// connection is closed, and the client comes back for its session.
	queueBytes = 8 << 20
	// mergeBytes bounds the text of tokens that were merged into one frame.
	mergeBytes = 16 << 10
	// writeTimeout is how long a client may take for one write.
	writeTimeout = 15 * time.Second
	// silence is how long a connection may be silent before it is pinged, and
	// then again until it is given up.
	silence = 45 * time.Second
	// farewell is how long clients have to hear that the server goes away.
	farewell = 250 * time.Millisecond
	// commandTimeout bounds one action.
	commandTimeout = 30 * time.Second
	// sessionLife is how long a session that nobody uses is kept; idleAfter is
	// when it counts as idle (SMO-064).
	sessionLife = 30 * 24 * time.Hour
	idleAfter   = 30 * time.Minute
	touchAfter  = 10 * time.Minute
)

// CallHold is how long the frame of a tool call waits for the card that its agent
// may be about to ask for, which goes first (SMO-155). Tests give it more time
// before anything starts; nothing else changes it.
var CallHold = time.Second
