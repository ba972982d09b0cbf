package edge

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

const (
	// pulseMinutes is how far back a pulse goes.
	pulseMinutes = 60
	// pulseAgents bounds the agents that are counted by name, over all reloads;
	// further ones are otherAgents.
	pulseAgents = 64
	otherAgents = "(others)"
)

// Minute is what an edge did in one minute, which began At, in Unix milliseconds.
// Sockets, Rooms and Runs are the most that were seen at once.
type Minute struct {
	At      int64 `json:"at"`
	Sockets int   `json:"sockets"`
	Rooms   int   `json:"rooms"`
	Runs    int   `json:"runs"`
	// Commands are those of people, Refused those of them that came to nothing
	// through a fault or a limit.
	Commands int `json:"commands"`
	Refused  int `json:"refused"`
	// Writes are commits and appends, WriteMicros what they took together,
	// WriteErrors those that had no answer.
	Writes      int64 `json:"writes"`
	WriteMicros int64 `json:"writeMicros"`
	WriteErrors int64 `json:"writeErrors"`
	// Answers are agents' first events, AnswerMillis what they took together.
	Answers      int64 `json:"answers"`
	AnswerMillis int64 `json:"answerMillis"`
	Ended        int64 `json:"ended"`
	Failed       int64 `json:"failed"`
}

// AgentPulse is what became of an agent's runs on this edge since it started.
type AgentPulse struct {
	Agent string `json:"agent"`
	// Ended are the runs that ended, by their last status, and Reasons the causes
	// and codes of those that did not complete.
	Ended   map[chat.RunStatus]int64 `json:"ended"`
	Reasons map[string]int64         `json:"reasons"`
	// Answers are first events, AnswerMillis what they took together, and Slowest
	// what one took at most.
	Answers      int64 `json:"answers"`
	AnswerMillis int64 `json:"answerMillis"`
	Slowest      int64 `json:"slowest"`
}

// PulseView is how this edge does: its last hour by the minute, oldest first,
// and its agents.
type PulseView struct {
	Since   int64        `json:"since"` // Unix milliseconds
	Now     int64        `json:"now"`
	Minutes []Minute     `json:"minutes"`
	Agents  []AgentPulse `json:"agents"`
}

// pulse counts what a hub does for operators who have no metrics at hand, and
// hands everything on to the meter.
type pulse struct {
	Meter
	now func() int64

	mu      sync.Mutex
	minutes []Minute // at most pulseMinutes, oldest first
	agents  map[string]*AgentPulse
	ended   int64
	failed  int64
}

func newPulse(m Meter, now func() int64) *pulse {
	return &pulse{Meter: m, now: now, agents: make(map[string]*AgentPulse)}
}

// minute is the present one; p.mu is held.
func (p *pulse) minute() *Minute {
	at := p.now() / 60_000 * 60_000
	if n := len(p.minutes); n == 0 || p.minutes[n-1].At < at {
		if n == pulseMinutes {
			p.minutes = append(p.minutes[:0], p.minutes[1:]...)
		}
		p.minutes = append(p.minutes, Minute{At: at})
	}
	return &p.minutes[len(p.minutes)-1]
}

// Command implements Meter.
func (p *pulse) Command(name, outcome string, took time.Duration) {
	p.Meter.Command(name, outcome, took)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.minute()
	m.Commands++
	switch outcome {
	case "limit", "unavailable", "error":
		m.Refused++
	}
}

// Journal implements Meter.
func (p *pulse) Journal(call, result string, took time.Duration) {
	p.Meter.Journal(call, result, took)
	if call != "append" && call != "commit" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.minute()
	if result == "error" {
		m.WriteErrors++
		return
	}
	m.Writes++
	m.WriteMicros += took.Microseconds()
}

// RunEnded implements conductor.Meter.
func (p *pulse) RunEnded(agent string, status chat.RunStatus, reason string, took time.Duration) {
	p.Meter.RunEnded(agent, status, reason, took)
	p.mu.Lock()
	defer p.mu.Unlock()
	m, a := p.minute(), p.agent(agent)
	m.Ended++
	p.ended++
	a.Ended[status]++
	if reason != "" {
		a.Reasons[reason]++ // a cause or a code of ours: there are few
	}
	if status == chat.RunError {
		m.Failed++
		p.failed++
	}
}

// FirstToken implements conductor.Meter.
func (p *pulse) FirstToken(agent string, took time.Duration) {
	p.Meter.FirstToken(agent, took)
	ms := took.Milliseconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	m, a := p.minute(), p.agent(agent)
	m.Answers++
	m.AnswerMillis += ms
	a.Answers++
	a.AnswerMillis += ms
	a.Slowest = max(a.Slowest, ms)
}

func (p *pulse) agent(name string) *AgentPulse {
	a := p.agents[name]
	if a == nil && len(p.agents) >= pulseAgents {
		name = otherAgents
		a = p.agents[name]
	}
	if a == nil {
		a = &AgentPulse{Agent: name, Ended: make(map[chat.RunStatus]int64), Reasons: make(map[string]int64)}
		p.agents[name] = a
	}
	return a
}

// seen notes what lives on the hub.
func (p *pulse) seen(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.minute()
	m.Sockets, m.Rooms, m.Runs = max(m.Sockets, s.Sockets), max(m.Rooms, s.Rooms), max(m.Runs, s.Runs)
}

// pulseRecent is over how many minutes the averages go that other edges are told.
const pulseRecent = 5

// told is what other edges are told.
func (p *pulse) told() *journal.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum Minute
	from := p.now() - pulseRecent*60_000
	for _, m := range p.minutes {
		if m.At > from {
			sum.Writes, sum.WriteMicros = sum.Writes+m.Writes, sum.WriteMicros+m.WriteMicros
			sum.Answers, sum.AnswerMillis = sum.Answers+m.Answers, sum.AnswerMillis+m.AnswerMillis
		}
	}
	return &journal.Pulse{
		Journal: mean(sum.WriteMicros, sum.Writes), Agent: mean(sum.AnswerMillis, sum.Answers), Ended: p.ended, Failed: p.failed,
	}
}

// mean is at least 1 where there is anything, so that it is told from nothing.
func mean(sum, n int64) int64 {
	if n == 0 {
		return 0
	}
	return max(1, sum/n)
}

// view copies all of it.
func (p *pulse) view() (minutes []Minute, agents []AgentPulse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	agents = []AgentPulse{}
	for _, name := range slices.Sorted(maps.Keys(p.agents)) {
		a := *p.agents[name]
		a.Ended, a.Reasons = maps.Clone(a.Ended), maps.Clone(a.Reasons)
		agents = append(agents, a)
	}
	return append([]Minute{}, p.minutes...), agents
}

// Pulse tells how this edge does. A hub without a meter counts nothing.
func (h *Hub) Pulse() PulseView {
	v := PulseView{Since: h.started, Now: h.now(), Minutes: []Minute{}, Agents: []AgentPulse{}}
	if h.pulse != nil {
		h.pulse.seen(h.Stats())
		v.Minutes, v.Agents = h.pulse.view()
	}
	return v
}
