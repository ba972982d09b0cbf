package conductor

import (
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Meter is told of runs. Its methods are called by many goroutines and must not
// block.
type Meter interface {
	// RunEnded is told once of each run, by the edge that ended it: the configured
	// agent's name, the run's last status, why it was ended from outside or one of
	// the gateway's codes of its failure ("agent" for an agent's own), and how long
	// it took from its agent's first call.
	RunEnded(agent string, status chat.RunStatus, reason string, took time.Duration)
	// FirstToken is how long an agent took from its call to its first event.
	FirstToken(agent string, took time.Duration)
}

// meterEnds tells the meter of the runs that a commit ended.
func (c *Conductor) meterEnds(st *chat.State, entries []chat.Entry) {
	if c.o.Meter == nil {
		return
	}
	for _, e := range entries {
		b, ok := e.Body.(*chat.RunEndBody)
		if !ok {
			continue
		}
		r := st.Run(e.Run)
		if r == nil {
			continue // begun and ended at once
		}
		reason, took := string(b.Cause), time.Duration(0)
		if reason == "" {
			reason = known(b.Code)
		}
		if r.Started != 0 {
			took = time.Duration(max(0, c.o.Now()-r.Started)) * time.Millisecond
		}
		c.o.Meter.RunEnded(r.Agent, b.Status, reason, took)
	}
}

// known keeps the codes that are ours; an agent's own are without number.
func known(code string) string {
	switch code {
	case "", chat.CodeAgentError, chat.CodeAgentTimeout, chat.CodeAgentUnavailable, chat.CodeAgentTruncated, chat.CodeEdgeLost,
		chat.CodeLogLost, chat.CodeRunTimeout, chat.CodeShutdown, chat.CodeAnswerTooLong:
		return code
	}
	return "agent"
}
