package chat

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SchemaVersion is the version of states and records that this build writes.
const SchemaVersion = 1

// ChunkSize is how many messages a stored page holds.
const ChunkSize = 50

// State is a thread, folded up to a position. It is immutable: Apply returns a
// new one that shares what did not change.
type State struct {
	Schema int `json:"schema"`
	// Pos, Log, At and Tag are those of the last record applied.
	Pos uint64 `json:"pos"`
	Log uint64 `json:"log,omitzero"`
	At  int64  `json:"at,omitzero"`
	Tag uint64 `json:"tag"`

	Info Info `json:"info,omitzero"`
	// Exists says that the thread was opened; a state without it is that of a
	// thread nobody made.
	Exists bool `json:"exists,omitzero"`
	// Born is the tag of the record that opened the thread: it tells a thread
	// that was deleted and made again from the one before.
	Born uint64 `json:"born,omitzero"`
	// Chunks full pages of older messages are stored beside the state; Tail
	// holds what came after them, in the order of their records. The first of the
	// pages may be in Archives, in order and without a hole.
	Chunks   int        `json:"chunks,omitzero"`
	Archives []Archive  `json:"archives,omitempty"`
	Tail     []*Message `json:"tail,omitempty"`
	// Forked says that some message of the thread replaces another one.
	Forked bool `json:"forked,omitzero"`
	// Head is the last message of the default view: where a new one hangs.
	Head string `json:"head,omitempty"`
	// Runs are those that have not ended, oldest first.
	Runs  []*Run `json:"runs,omitempty"`
	Todos []Todo `json:"todos,omitempty"`
	Tasks []Task `json:"tasks,omitempty"`
	// Upstream is the agent's thread id for the branch that ends at Head.
	Upstream string `json:"upstream,omitempty"`
	// AgentState is what the last ended run left, for the next one.
	AgentState jsontext.Value `json:"agentState,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// Marshal writes the state as JSON, for a journal's base.
func (s *State) Marshal() ([]byte, error) { return json.Marshal(s) }

// ParseState reads what Marshal wrote. A state of a newer schema is refused,
// because it would be written back without what this build does not know.
func ParseState(b []byte) (*State, error) {
	s := new(State)
	if len(b) == 0 {
		s.Schema = SchemaVersion
		return s, nil
	}
	var v struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("chat: reading a state: %w", err)
	}
	if v.Schema > SchemaVersion {
		return nil, fmt.Errorf("chat: the thread is of schema %d, this build knows %d: upgrade this edge", v.Schema, SchemaVersion)
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("chat: reading a state: %w", err)
	}
	if !s.sound() {
		return nil, errors.New("chat: reading a state: something is missing in it")
	}
	return s, nil
}

// Run finds a live run by its id, or returns nil.
func (s *State) Run(id string) *Run {
	for _, r := range s.Runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// RunOfSegment finds the live run that has the segment, or returns nil.
func (s *State) RunOfSegment(segment string) *Run {
	for _, r := range s.Runs {
		for _, g := range r.Segments {
			if g == segment {
				return r
			}
		}
	}
	return nil
}

// RunOfInterrupt finds the live run that asked, and the interrupt.
func (s *State) RunOfInterrupt(id string) (*Run, *Interrupt) {
	for _, r := range s.Runs {
		for _, i := range r.Interrupts {
			if i.ID == id {
				return r, i
			}
		}
	}
	return nil, nil
}

// Count is how many messages the thread has, on all branches. In the order of
// their records they have the ordinals 0 to Count-1, which never change.
func (s *State) Count() int { return s.Chunks*ChunkSize + len(s.Tail) }

// Last is the id of the newest message of any branch, or "".
func (s *State) Last() string {
	if len(s.Tail) == 0 {
		return ""
	}
	return s.Tail[len(s.Tail)-1].ID
}

// Message finds a message of the tail, or returns nil. Older ones are in the
// journal's pages.
func (s *State) Message(id string) *Message {
	for i := len(s.Tail) - 1; i >= 0; i-- {
		if s.Tail[i].ID == id {
			return s.Tail[i]
		}
	}
	return nil
}

// Clip returns the state with every slice cut to its length, so that another
// line of folding may grow it without touching this one's bytes.
func (s *State) Clip() *State {
	c := *s
	c.Tail = clip(c.Tail)
	c.Runs = make([]*Run, len(s.Runs))
	for i, r := range s.Runs {
		d := *r
		d.Segments, d.Interrupts, d.Subagents = clip(d.Segments), clip(d.Interrupts), clip(d.Subagents)
		d.Parts = make([]*Part, len(r.Parts))
		for j, p := range r.Parts {
			q := *p
			q.Text = clip(q.Text)
			d.Parts[j] = &q
		}
		c.Runs[i] = &d
	}
	return &c
}

func clip[S ~[]E, E any](s S) S { return s[:len(s):len(s)] }

// Compact moves all but the newest messages out of the tail: it returns the
// state without them and the full pages that a journal stores beside it,
// starting at page s.Chunks. The tail keeps between one and two pages.
func (s *State) Compact() (*State, [][]*Message) {
	var pages [][]*Message
	c := *s
	for len(c.Tail) >= 2*ChunkSize {
		pages = append(pages, c.Tail[:ChunkSize:ChunkSize])
		c.Tail = c.Tail[ChunkSize:]
		c.Chunks++
	}
	return c.Clip(), pages
}
