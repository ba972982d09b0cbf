package caddymodule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// counts are what hubs have done since the process began, by journal. They
// belong to the process, as hubs do: a reload neither doubles nor resets them.
// No label is an id or comes from a client.
var counts = newCounts()

type countVecs struct {
	commands, calls, runs                           *prometheus.CounterVec
	commandTime, callTime, runTime, firstEventDelay *prometheus.HistogramVec
	arrived, waited                                 *prometheus.HistogramVec
}

func newCounts() *countVecs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parlance_" + name, Help: help}, append([]string{"journal"}, labels...))
	}
	// Factors of about two and a half, from what a call costs to what people wait for.
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "parlance_" + name, Help: help, Buckets: buckets}, append([]string{"journal"}, labels...))
	}
	calls := []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	agents := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	runs := []float64{.25, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
	return &countVecs{
		commands:        counter("commands_total", "Commands of people, by what came of them.", "command", "outcome"),
		commandTime:     histogram("command_seconds", "How long commands took.", calls, "command"),
		calls:           counter("journal_calls_total", "Calls of the journal, by its answer.", "call", "result"),
		callTime:        histogram("journal_seconds", "How long calls of the journal took.", calls, "call"),
		runs:            counter("runs_ended_total", "Runs that have ended, by how and why.", "agent", "status", "reason"),
		runTime:         histogram("run_seconds", "How long runs took from their agent's first call.", runs, "agent"),
		firstEventDelay: histogram("agent_first_event_seconds", "How long agents took from their call to their first event.", agents, "agent"),
		arrived:         histogram("record_seconds", "From a record's time in the journal until all members here had it queued; clocks that differ are in it.", calls),
		waited:          histogram("socket_write_seconds", "How long a frame that found its queue empty took to its socket; of one in 64.", calls, "dialect"),
	}
}

func (c *countVecs) all() []prometheus.Collector {
	return []prometheus.Collector{c.commands, c.commandTime, c.calls, c.callTime, c.runs, c.runTime, c.firstEventDelay, c.arrived, c.waited}
}

// meter counts what one hub does.
type meter struct {
	journal string
	// What is on the way of each token is looked up once.
	stored prometheus.Counter
	append prometheus.Observer
}

func newMeter(journal string) *meter {
	m := &meter{
		journal: journal,
		stored:  counts.calls.WithLabelValues(journal, "append", "stored"),
		append:  counts.callTime.WithLabelValues(journal, "append"),
	}
	// What alerts look at is there before it happens, so that its first time is a rise.
	for call, results := range map[string][]string{
		"append": {"already", "gap", "fenced", "error"}, "commit": {"done", "done-before", "conflict", "error"}, "load": {"ok", "error"}, "reset": {"ok"}, "claim": {"ok"},
	} {
		for _, result := range results {
			counts.calls.WithLabelValues(journal, call, result)
		}
	}
	return m
}

// Command implements edge.Meter.
func (m *meter) Command(name, outcome string, took time.Duration) {
	counts.commands.WithLabelValues(m.journal, name, outcome).Inc()
	counts.commandTime.WithLabelValues(m.journal, name).Observe(took.Seconds())
}

// Journal implements edge.Meter.
func (m *meter) Journal(call, result string, took time.Duration) {
	if call == "append" && result == "stored" {
		m.stored.Inc()
		m.append.Observe(took.Seconds())
		return
	}
	counts.calls.WithLabelValues(m.journal, call, result).Inc()
	counts.callTime.WithLabelValues(m.journal, call).Observe(took.Seconds())
}

// RunEnded implements conductor.Meter.
func (m *meter) RunEnded(agent string, status chat.RunStatus, reason string, took time.Duration) {
	counts.runs.WithLabelValues(m.journal, agent, string(status), reason).Inc()
	if took > 0 {
		counts.runTime.WithLabelValues(m.journal, agent).Observe(took.Seconds())
	}
}

// FirstToken implements conductor.Meter.
func (m *meter) FirstToken(agent string, took time.Duration) {
	counts.firstEventDelay.WithLabelValues(m.journal, agent).Observe(took.Seconds())
}

// Interface guard
var _ edge.Meter = (*meter)(nil)
