package pingerchips

import "time"

// Limits of the protocol (PIN-066, PIN-071, PIN-122, PIN-179, PIN-239).
const (
	// MaxText bounds a message, in UTF-16 code units.
	MaxText = 16_000
	// Window is how many of the newest messages the slot messages shows.
	Window = 50
	// MaxSlot bounds the slot messages where it shows all of them, in bytes: the
	// newest that fit, and never fewer than Window (PIN-093).
	MaxSlot = 1 << 20
	// MaxExtText bounds each text of a slot of the extensions, in bytes, and
	// MaxExtItems the items of a list; of a longer one the newest are shown.
	MaxExtText  = 64 << 10
	MaxExtItems = 100
	// A page of older messages has 1 to MaxPage, DefaultPage if nothing is said;
	// one of the tree has up to MaxNodes, DefaultNodes.
	DefaultPage  = 50
	MaxPage      = 200
	DefaultNodes = 500
	MaxNodes     = 1000
	// MaxReplay bounds what a join is sent of the log before the snapshot, in
	// bytes on the wire; what is longer is not sent at all (PIN-067).
	MaxReplay = 8 << 20
	// MaxPayload bounds a client's frame, in bytes: above the largest content of
	// an agent's token, so that one that is too large is told so (PIN-196).
	MaxPayload = 2 << 20
	// MaxDepth bounds how deep a payload may nest.
	MaxDepth = 128
)

// Bounds of one connection.
const (
	// MaxChannels is how many threads it may have joined.
	MaxChannels = 100
	// queueLimit is how many commands of one channel may wait for the one before
	// them, queueBytes how large they may be; one is always let in. besideLimit is
	// how many cancels run beside.
	queueLimit  = 64
	queueBytes  = 1 << 20
	besideLimit = 8

	defaultRate        = 20
	defaultBurst       = 60
	defaultConnections = 50
)

// maxTree bounds how many of the newest messages are looked at for a view; what
// hangs on older ones is shown.
const maxTree = 10_000

// maxSelections bounds the choices of one join; the oldest are forgotten.
// maxSelectionBytes bounds what a join brings along, well within a frame of one
// who has not joined yet.
const (
	maxSelections     = 1_000
	maxSelectionBytes = 32 << 10
)

// commandTimeout bounds one command; phoenix clients give up after 10 s.
const commandTimeout = 30 * time.Second

// The events that clients send.
const (
	pushSend         = "send"
	pushCancel       = "cancel"
	pushRegenerate   = "regenerate"
	pushEdit         = "edit"
	pushApproval     = "tool_approval"
	pushLoadOlder    = "load_older"
	pushBranchSelect = "branch:select"
	pushBranchReset  = "branch:reset"
	pushTreeGet      = "tree:get"
	pushTreeSiblings = "tree:siblings"
	pushTreeNode     = "tree:node"
	pushViewGet      = "view:get"
)

// The events that the server sends.
const (
	eventSnapshot   = "snapshot"
	eventChange     = "change"
	eventBatch      = "batch"
	eventRunStart   = "run:start"
	eventRunEnd     = "run:end"
	eventRunSuspend = "run:suspend"
	eventRunResume  = "run:resume"
	eventView       = "view:update"
	eventExt        = "ext:change"
)
