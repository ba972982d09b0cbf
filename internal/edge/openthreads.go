package edge

import (
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// OpenThread is a thread that is open on this edge, as an operator sees it.
type OpenThread struct {
	Realm   string `json:"realm"`
	Tenant  string `json:"tenant,omitempty"`
	Thread  string `json:"thread"`
	Epoch   uint64 `json:"epoch"`
	Pos     uint64 `json:"pos"`
	At      int64  `json:"at"` // of the newest record, in Unix milliseconds
	Members int    `json:"members"`
	Runs    int    `json:"runs"`
}

// OpenRun is a live run of an open thread, as an operator sees it.
type OpenRun struct {
	Realm   string         `json:"realm"`
	Tenant  string         `json:"tenant,omitempty"`
	Thread  string         `json:"thread"`
	Run     string         `json:"run"`
	Segment string         `json:"segment"`
	Agent   string         `json:"agent"`
	Dialect string         `json:"dialect,omitempty"`
	Status  chat.RunStatus `json:"status"`
	// Since is when its agent was called first, At when its thread's newest
	// record was written, in Unix milliseconds.
	Since int64 `json:"since,omitempty"`
	At    int64 `json:"at"`
	// Stuck says why somebody should look at the run; "" is that it is well.
	Stuck string `json:"stuck,omitempty"`
}

// quietRun is how long an active run may write nothing before it is called stuck:
// longer than the pauses of agents that think, shorter than an operator's patience.
const quietRun = time.Minute

// OpenThreads lists what is open on this edge.
func (h *Hub) OpenThreads() []OpenThread {
	rooms := h.rooms.Open()
	list := make([]OpenThread, 0, len(rooms))
	for _, r := range rooms {
		list = append(list, OpenThread{
			Realm: r.Key.Realm, Tenant: r.Key.Tenant, Thread: r.Key.Thread,
			Epoch: r.Epoch, Pos: r.State.Pos, At: r.State.At, Members: r.Members, Runs: len(r.State.Runs),
		})
	}
	return list
}

// OpenRuns lists the live runs of the threads that are open on this edge: all
// that it owns are among them.
func (h *Hub) OpenRuns() []OpenRun {
	now := h.now()
	list := []OpenRun{}
	for _, r := range h.rooms.Open() {
		for _, run := range r.State.Runs {
			list = append(list, OpenRun{
				Realm: r.Key.Realm, Tenant: r.Key.Tenant, Thread: r.Key.Thread,
				Run: run.ID, Segment: run.Segment(), Agent: run.Agent, Dialect: run.Origin.Dialect, Status: run.Status,
				Since: run.Started, At: r.State.At, Stuck: stuck(run, r.State.At, now),
			})
		}
	}
	return list
}

// stuck says what is odd about a run of a thread whose newest record is of at.
func stuck(r *chat.Run, at, now int64) string {
	quiet := now-at > quietRun.Milliseconds()
	switch {
	case r.Stop != nil && quiet:
		return "it was stopped and has not ended"
	case r.Status == chat.RunPending && quiet:
		return "its agent was not called"
	case r.Status == chat.RunActive && quiet:
		return "its agent says nothing"
	case r.Status == chat.RunSuspended:
		for _, i := range r.Interrupts {
			if i.Status == chat.InterruptOpen && i.Deadline > 0 && now-i.Deadline > quietRun.Milliseconds() {
				return "its question is past its time"
			}
		}
	}
	return ""
}
