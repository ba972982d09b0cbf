package caddymodule

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds what a scrape asks a journal.
const scrapeTimeout = 2 * time.Second

// metrics counts, at each scrape, what lives on the process's hubs. There is one
// for all configurations: Caddy has a registry for each.
type metrics struct{ ready, sockets, queued, rooms, runs, members, edges, silence *prometheus.Desc }

var gauges = newMetrics()

func newMetrics() *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("parlance_"+name, help, append([]string{"journal"}, labels...), nil)
	}
	return &metrics{
		ready:   desc("ready", "Whether the journal takes new sockets here."),
		sockets: desc("sockets", "Sockets of this process.", "dialect"),
		queued:  desc("queue_bytes", "Bytes that wait for this process's clients.", "dialect"),
		rooms:   desc("rooms", "Threads that are open in this process."),
		runs:    desc("runs", "Runs that this process owns."),
		members: desc("members", "Members of this process's rooms.", "dialect"),
		edges:   desc("edges", "Living edges on the journal."),
		silence: desc("pubsub_age_seconds", "How long ago the last of our own markers came back through the journal's pub/sub."),
	}
}

// registerMetrics puts the gauges and counts into the registry of a configuration.
func registerMetrics(r prometheus.Registerer) error {
	for _, c := range append(counts.all(), gauges, traffic) {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.sockets, m.queued, m.rooms, m.runs, m.members, m.edges, m.silence} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	seen := make(map[string]bool)
	for _, p := range pooledHubs() {
		name := p.key.String()
		if seen[name] {
			continue // one that is leaving, beside the one that follows it
		}
		seen[name] = true
		gauge := func(d *prometheus.Desc, n float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, append([]string{name}, labels...)...)
		}
		s := p.hub.Stats()
		gauge(m.rooms, float64(s.Rooms))
		gauge(m.runs, float64(s.Runs))
		for dialect, w := range p.hub.Wires() {
			gauge(m.sockets, float64(w.Sockets), dialect)
			gauge(m.queued, float64(w.Queued), dialect)
		}
		if d, ok := p.hub.Silence(); ok {
			gauge(m.silence, d.Seconds())
		}
		for dialect, n := range p.hub.Members() {
			gauge(m.members, float64(n), dialect)
		}
		if p.hub.Ready(ctx) != nil {
			gauge(m.ready, 0)
			continue
		}
		gauge(m.ready, 1)
		if edges, err := p.hub.Edges(ctx); err == nil {
			gauge(m.edges, float64(len(edges)))
		}
	}
}

// Interface guard
var _ prometheus.Collector = (*metrics)(nil)
