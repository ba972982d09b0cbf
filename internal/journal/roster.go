package journal

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Edge is what an edge tells the others of itself.
type Edge struct {
	// Boot names this start of the edge, Name is for people.
	Boot    string `json:"boot"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Schema is the newest version of states and records that it reads.
	Schema int `json:"schema"`
	// Started is in Unix milliseconds.
	Started  int64 `json:"started,omitempty"`
	Draining bool  `json:"draining,omitempty"`
	// Agents are the names of those it can call, by realm.
	Agents  map[string][]string `json:"agents,omitempty"`
	Sockets int                 `json:"sockets,omitempty"`
	Rooms   int                 `json:"rooms,omitempty"`
	Runs    int                 `json:"runs,omitempty"`
	// Pulse is how the edge does, for operators; nil is that it does not say.
	Pulse *Pulse `json:"pulse,omitempty"`
}

// Pulse is how an edge does: averages over its last minutes, and counts since it
// started.
type Pulse struct {
	// Journal is how long a commit or an append took, in microseconds, Agent how
	// long agents took to their first event, in milliseconds; 0 is none.
	Journal int64 `json:"journal,omitempty"`
	Agent   int64 `json:"agent,omitempty"`
	// Ended are the runs that this edge ended, Failed those of them that failed.
	Ended  int64 `json:"ended,omitempty"`
	Failed int64 `json:"failed,omitempty"`
}

// Attendance is who is in one thread's room on one edge.
type Attendance struct {
	Boot string `json:"boot"`
	// Members are at most MaxAttending; Count counts those beyond too.
	Members []Attending `json:"members"`
	Count   int         `json:"count"`
}

// Attending is one member of a room, as other edges see it.
type Attending struct {
	// ID names the membership, for operators: unguessable, and told to nobody else.
	ID      string       `json:"id,omitempty"`
	Subject chat.Subject `json:"subject"`
	Dialect string       `json:"dialect"`
	// Since is in Unix milliseconds.
	Since int64 `json:"since"`
}

// MaxAttending bounds the members that one edge names for one thread.
const MaxAttending = 100

// Roster says which edges live and who is in which room. It is a lease: an edge
// that has not announced itself for OwnerDeadline is gone, and those who were
// on it with it.
type Roster interface {
	Announce(context.Context, Edge) error
	// Edges returns the living edges, by name and boot.
	Edges(context.Context) ([]Edge, error)
	// Attend replaces what an edge said of a thread; a Count of 0 takes it back.
	Attend(ctx context.Context, key chat.Key, a Attendance) error
	// Present returns who is in a thread's rooms on living edges.
	Present(ctx context.Context, key chat.Key) ([]Attendance, error)
}
