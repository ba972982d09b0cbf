// Package journal says what holds the threads: ordered, durable records,
// shared by all edges. It has the interface that a store implements, the rules
// that every store keeps (Ledger), and a contract suite (journaltest) that each
// store must pass with two hubs on it.
//
// There are two ways to write and no third. Append is for the owner of a run
// and for what streams; Commit is for everything that a person does and every
// change of a run's state. Everything that a client is ever shown has first
// been here.
package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// What a store may fail with. Any other error means that the outcome of the
// call is unknown: a write must then be tried again, unchanged, until it says.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("journal: closed")
	// ErrNotFound: no such blob, segment or shelf value.
	ErrNotFound = errors.New("journal: not found")
	// ErrTooLarge: a record or value is over the store's limit.
	ErrTooLarge = errors.New("journal: too large")
	// ErrNoBlobs: there is nowhere to keep a blob, or not where all edges would
	// find it. Trying again does not help; its text says what to configure.
	ErrNoBlobs = errors.New("journal: no shared storage for files")
)

// Unheard is the error of a heartbeat that only a part of the store answered.
type Unheard struct {
	// Runs are those of which nothing is known: not that they were renewed, nor
	// that they were lost.
	Runs []Owned
	Err  error
}

func (u *Unheard) Error() string {
	return fmt.Sprintf("%d runs are in a part of the store that did not answer: %v", len(u.Runs), u.Err)
}

func (u *Unheard) Unwrap() error { return u.Err }

// Limits that every store holds.
const (
	// MaxRecord bounds one record's JSON, in bytes: the end of a run holds its
	// whole answer (agent.MaxAnswer), which escaping may make six times as long.
	MaxRecord = 28 << 20
	// MaxWrite bounds the entries of one append or commit.
	MaxWrite = 4096
	// MaxResult bounds what a commit leaves for its own retry, in bytes.
	MaxResult = 512
	// KeepCommands and KeepCommandsFor bound the command ids that a thread
	// remembers: by number, and by age.
	KeepCommands    = 256
	KeepCommandsFor = 60 * time.Second
	// OwnerDeadline is how long an edge owns its runs after a beat.
	OwnerDeadline = 10 * time.Second
	// SealDeadline is how long whoever sealed a run may take to end it.
	SealDeadline = 2 * time.Second
	// Tombstone is how long a deleted thread answers that it was deleted.
	Tombstone = 24 * time.Hour
	// PositionJump is how far positions leap at a new epoch: beyond anything
	// that was ever shown.
	PositionJump = 1 << 20
)

// Result is a store's answer to a write.
type Result uint8

// The answers. Stored, Already, Gap, Fenced, Sealed and Ended belong to
// Append; Done, Conflict and DoneBefore to Commit; Deleted and WrongEpoch to
// both. OK and Lost belong to Claim, Trim and Reset.
const (
	Stored Result = iota + 1
	// Already: the very same write was stored before; its records come back
	// on the thread's channel, this answer carries no positions.
	Already
	// Gap: the store has fewer of the attempt's records than the writer was
	// told were stored. That proves a loss.
	Gap
	// Fenced: another attempt owns the run.
	Fenced
	// Sealed: the run is being ended from outside.
	Sealed
	// Ended: the run is not live here.
	Ended
	Done
	// Conflict: the thread's revision or a guard is not what the writer saw.
	Conflict
	// DoneBefore: this command's step was committed before.
	DoneBefore
	Deleted
	WrongEpoch
	OK
	Lost
)

var resultNames = [...]string{"unknown", "stored", "already", "gap", "fenced", "sealed", "ended", "done", "conflict", "done-before", "deleted", "epoch", "ok", "lost"}

func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return "unknown"
}

// Rev is a thread's revision: it rises with each commit and claim, never with
// an append. Tag is that of the write that made it, so that the same number
// after a loss is not taken for the same revision.
type Rev struct {
	N   uint64 `json:"n"`
	Tag uint64 `json:"tag"`
}

// Cursor is how far somebody has read a thread.
type Cursor struct {
	Epoch uint64
	Pos   uint64
	Tag   uint64
}

// RunMeta is what a store keeps of a live run beside its records.
type RunMeta struct {
	// Owner is the boot id of the edge that owns the run, or "" while it is
	// suspended. Fence is the number of its attempt.
	Owner string `json:"owner,omitempty"`
	Fence uint64 `json:"fence"`
	// W is how many records the owner has appended in this attempt; WTag is
	// the tag of its last append.
	W    uint64 `json:"w,omitempty"`
	WTag uint64 `json:"wtag,omitempty"`
	// Seq is the number of the current segment's last envelope.
	Seq    uint64 `json:"seq,omitempty"`
	Sealed bool   `json:"sealed,omitempty"`
	// Until is the owner's deadline, in Unix milliseconds of the store's clock:
	// of the run, not of the edge, so that a run that its owner does not know
	// of (its claim's answer was lost, its end was lost with the store's tail)
	// lapses although that edge lives.
	Until int64 `json:"until,omitempty"`
	// Due is when somebody must look at the run although its owner is well,
	// in Unix milliseconds; 0 is never.
	Due int64 `json:"due,omitempty"`
	// Agent is the configured agent's name, so that an edge that sweeps knows
	// whether it could start the run again.
	Agent string `json:"agent,omitempty"`
}

// Lapsed says that the run has an owner whose deadline has passed.
func (m RunMeta) Lapsed(now int64) bool { return m.Owner != "" && m.Until <= now }

// Meta is a thread's small, hot state.
type Meta struct {
	Epoch uint64 `json:"epoch"`
	Rev   Rev    `json:"rev"`
	// Pos, Log, Tag and At are those of the newest record.
	Pos uint64 `json:"pos"`
	Log uint64 `json:"log,omitempty"`
	Tag uint64 `json:"tag"`
	At  int64  `json:"at,omitempty"`
	// Floor is the position of the base; records after it are kept.
	Floor    uint64 `json:"floor"`
	FloorTag uint64 `json:"floorTag"`
	// Bytes is the size of the kept records.
	Bytes int64              `json:"bytes,omitempty"`
	Runs  map[string]RunMeta `json:"runs,omitempty"`
}

// Append is a write by a run's owner.
type Append struct {
	Key   chat.Key
	Epoch uint64
	Run   string
	// Owner is the writer's boot id. It is compared beside the fence: after a
	// loss two edges may hold the same number. "" is not compared.
	Owner string
	Fence uint64
	// W is how many records the owner had appended in this attempt before.
	W uint64
	// Tag is the write's: the tag of record i is made of Tag + i and of the tag
	// before it (ChainTag). It is random, at least 2^16 below the top, and stays the same
	// through every retry of this write.
	Tag     uint64
	Entries []chat.Entry
}

// Appended is the answer to an Append.
type Appended struct {
	Result Result
	// Records are those that were stored now (Stored only).
	Records []*chat.Record
	// W is what the store has of the attempt (Gap only).
	W uint64
}

// Guard holds only if the attempt still owns the run and nothing was streamed
// beyond W.
type Guard struct {
	Run   string
	Fence uint64
	W     uint64
	// Owner says that the writer is the owner, whom a seal shuts out too.
	Owner bool
}

// RunChange is what a commit does to a run's meta, beside its records.
type RunChange struct {
	Run string
	// End removes the run; the other fields are then ignored.
	End bool
	// New says that the run must not be there yet.
	New bool
	// Counts adds the commit to the attempt's W, so that the owner finds a gap
	// if the store loses it.
	Counts bool
	// Fence is added to: a change of owner is always a new attempt, with W 0.
	NewOwner bool
	Owner    string
	Sealed   bool
	Due      int64
	Agent    string
}

// CommandID names a client's command, kept through every retry and every new
// decision. Step is the number of the commit within it.
type CommandID struct {
	ID   [16]byte
	Step uint8
}

// Commit is a decision.
type Commit struct {
	Key     chat.Key
	Command CommandID
	// Epoch 0 with a zero Rev creates the thread, in NewEpoch.
	Epoch uint64
	Rev   Rev
	// NewEpoch is a fresh random epoch, for the case that the thread is new.
	NewEpoch uint64
	Guards   []Guard
	Tag      uint64
	Entries  []chat.Entry
	Runs     []RunChange
	// Nodes goes into the thread's index of ids.
	Nodes map[string]chat.Node
	// Segments are fresh segment ids, to be found by Segment.
	Segments []string
	// Result is kept with the command's id, for its own retry.
	Result []byte
}

// Committed is the answer to a Commit.
type Committed struct {
	Result  Result
	Records []*chat.Record
	// Epoch and Rev are the thread's after the commit (Done only).
	Epoch uint64
	Rev   Rev
	// Fences are the attempts' numbers of runs that got a new owner (Done), or
	// that the owner whom the commit named still has (DoneBefore).
	Fences map[string]uint64
	// Before is what the commit left the first time (DoneBefore only).
	Before []byte
}

// Load asks for a thread. From, if not zero, is where the reader stands: if
// the store's record there has that tag, only what follows is sent.
type Load struct {
	Key  chat.Key
	From Cursor
	// IDs are looked up in the thread's index.
	IDs []string
}

// Snapshot is a thread as the store has it at one instant.
type Snapshot struct {
	// Exists is false for a thread that was never made, Deleted is true while
	// a tombstone stands.
	Exists  bool
	Deleted bool
	Meta    Meta
	// Continues says that From was found: Base is nil and Records follow it.
	// Behind says that From is below the floor, so nothing can be said of it.
	// With neither, and a From of the same epoch, the store has another record
	// there: that is a loss.
	Continues bool
	Behind    bool
	Base      *chat.State
	Records   []*chat.Record
	Nodes     map[string]chat.Node
}

// State folds the snapshot. from is the reader's own state, used if the
// snapshot continues it; others may go on folding from it too.
func (s *Snapshot) State(from *chat.State) *chat.State {
	st := s.Base
	switch {
	case st == nil && !s.Continues: // nobody made the thread, or it is deleted
		m := &s.Meta
		st = &chat.State{Schema: chat.SchemaVersion, Pos: m.Pos, Log: m.Log, Tag: m.Tag, At: m.At}
	case s.Continues:
		st = from
		if len(s.Records) > 0 {
			st = from.Clip()
		}
	}
	for _, r := range s.Records {
		st = st.Apply(r)
	}
	return st
}

// Notice is what a follower is sent. Notices may be lost, repeated, reordered
// or late; a reader finds that out by positions and tags.
type Notice struct {
	Epoch   uint64
	Rev     Rev
	Records []*chat.Record
	// Resync says that something may have been missed: load.
	Resync bool
	// Reset says that Epoch is new; Deleted that the thread is gone.
	Reset   bool
	Deleted bool
}

// Trim moves a thread's floor up to a position and puts the folded state there.
// Pages that the state has in archives go with it.
type Trim struct {
	Key   chat.Key
	Epoch uint64
	// Base is the state at the new floor, compacted; its tag must be that of
	// the record there. Pages are the full pages that it no longer holds,
	// beginning at page FirstPage.
	Base      *chat.State
	FirstPage int
	Pages     [][]*chat.Message
	// Rest is when somebody must look at the thread again, a DueItem without a
	// run, if the trim leaves it without records and it has no live run: in Unix
	// milliseconds, 0 is never. With it the base may be the one that is there;
	// then nothing but this time changes.
	Rest int64
}

// Reset begins a new epoch, because the store was proved to have lost records.
type Reset struct {
	Key chat.Key
	// Seen is the thread as the resetter loaded it: compared and set.
	Seen Cursor
	// NewEpoch is fresh and random; Tag is that of the new base.
	NewEpoch uint64
	Tag      uint64
	// Base is the state at Seen, with the position, log number and tag that
	// the new epoch begins at.
	Base *chat.State
}

// DueItem is a run or a thread that somebody must look at.
type DueItem struct {
	Key chat.Key
	// Run is "" for a thread that is due for an idle trim, or whose rest is over.
	Run  string
	Meta RunMeta
	// Lapsed says that the owner's deadline has passed; otherwise Meta.Due has.
	Lapsed bool
}

// Claim takes a run over from an owner whose deadline has passed, or whose run
// is due.
type Claim struct {
	Key   chat.Key
	Run   string
	Fence uint64
	Owner string
	// Living takes it over although the owner lives (an agent that moved).
	Living bool
	Tag    uint64
}

// Owned is a run that an edge believes to own.
type Owned struct {
	Key   chat.Key
	Run   string
	Fence uint64
}

// Journal is what holds the threads. All methods may be called by many
// goroutines; each blocks at most until its context ends, and an outcome that
// is unknown is an error.
//
// Slices and states that go in must not be changed afterwards; those that come
// out may be shared and must not be changed either.
type Journal interface {
	Append(context.Context, Append) (Appended, error)
	Commit(context.Context, Commit) (Committed, error)
	Load(context.Context, Load) (Snapshot, error)
	// Pages returns pages [from, to) of a thread's older messages.
	Pages(ctx context.Context, key chat.Key, from, to int) ([]*chat.Message, error)
	// Follow calls f for each notice of a thread, in the order in which they
	// come, until stop is called. The first call is a Resync. f must not block.
	Follow(key chat.Key, f func(Notice)) (stop func())
	Trim(context.Context, Trim) (Result, error)
	Reset(context.Context, Reset) (Result, error)
	// Delete leaves a tombstone; runs are ended by the caller before. It is OK too
	// if there is no thread, and Lost where the thread is in another epoch: then
	// the store has lost records, or another thread has been made in its place.
	Delete(ctx context.Context, key chat.Key, epoch uint64) (Result, error)
	// Segment finds the thread of a segment id, or ErrNotFound.
	Segment(ctx context.Context, segment string) (chat.Key, error)

	// Claim raises a run's fence for a new owner: OK with the new fence, or
	// Lost.
	Claim(context.Context, Claim) (fence uint64, rev Rev, res Result, err error)
	// Beat renews an edge's deadline and returns those of the runs that it no
	// longer owns or that are sealed. Where a part of the store does not answer,
	// the runs of the others are renewed and the error is an *Unheard, beside
	// what was lost of those.
	Beat(ctx context.Context, boot string, owned []Owned) (lost []Owned, err error)
	// Leave ends an edge's deadline at once: its runs may be claimed.
	Leave(ctx context.Context, boot string) error
	// Due returns at most limit items, the longest overdue first. With an error
	// they are those of the parts of the store that answered, if any.
	Due(ctx context.Context, limit int) ([]DueItem, error)

	Shelf() Shelf
	Blobs() Blobs
	Roster() Roster
	// Ready says why the journal cannot serve, or nil.
	Ready(context.Context) error
	Close() error
}

// Speaker is a Journal that edges of several versions may share. It writes the
// oldest schema until it is told of a newer one, and never goes back.
type Speaker interface {
	// Speak says the newest schema that every living edge reads.
	Speak(ctx context.Context, schema int) error
}

// Hearing is a Journal whose notices could cease without anybody being told.
type Hearing interface {
	// Silence is how long nothing that was published has come back; ok is false
	// while nobody follows.
	Silence() (d time.Duration, ok bool)
}

// Confirmer is a Journal whose newest commits may stand where a failover would
// lose them, although it can be told to wait until they don't.
type Confirmer interface {
	// Confirm says OK when a thread is at a revision, and all that has led to it
	// is as safe as an acknowledged commit; Lost if the thread is elsewhere now.
	// What is not confirmed in time is an error, and may be asked again.
	Confirm(ctx context.Context, key chat.Key, epoch uint64, rev Rev) (Result, error)
}

// Prompt is an ability: to tell a follower that is quick, such as a room, without
// a queue and a goroutine in between.
type Prompt interface {
	// FollowPromptly is Follow for an f that only computes: it may be called by
	// several goroutines, is called by one that has others to tell, and must
	// neither block nor call the journal.
	FollowPromptly(key chat.Key, f func(Notice)) (stop func())
}
