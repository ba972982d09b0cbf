package caddymodule

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// traffic is what sockets and rooms have done since the process began, by
// journal. Hubs count where they work, and a scrape reads it, so that nothing on
// the way of a token looks a counter up.
var traffic = newTraffics()

type traffics struct {
	mu       sync.Mutex
	journals map[string]*edge.Counts

	opened, slow, in, out, refused, replays, gaps, closed *prometheus.Desc
}

func newTraffics() *traffics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("parlance_"+name, help, append([]string{"journal"}, labels...), nil)
	}
	return &traffics{
		journals: make(map[string]*edge.Counts),
		opened:   desc("sockets_opened_total", "Sockets that were opened, and sessions of polling.", "dialect"),
		slow:     desc("sockets_slow_total", "Sockets that were closed because their clients read too slowly.", "dialect"),
		in:       desc("received_bytes_total", "Bytes of frames and of polling bodies from clients.", "dialect"),
		out:      desc("sent_bytes_total", "Bytes of frames and of polling bodies to clients.", "dialect"),
		refused:  desc("refused_total", "What a limit has refused.", "dialect", "limit"),
		replays:  desc("replays_total", "Members who came into the past of a thread, by where it was found.", "from"),
		gaps:     desc("gaps_total", "Holes in what the journal published that were read from it instead."),
		closed:   desc("members_closed_total", "Members that were let go so that they come again, by why.", "reason"),
	}
}

// of are the counts of a journal's hubs.
func (t *traffics) of(journal string) *edge.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.journals[journal]
	if c == nil {
		c = new(edge.Counts)
		c.Rooms.Arrived = seconds(counts.arrived.WithLabelValues(journal))
		for dialect, w := range c.Wires() {
			w.Waited = seconds(counts.waited.WithLabelValues(journal, dialect))
		}
		t.journals[journal] = c
	}
	return c
}

func seconds(o prometheus.Observer) func(time.Duration) {
	return func(d time.Duration) { o.Observe(d.Seconds()) }
}

// Describe implements prometheus.Collector.
func (t *traffics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.opened, t.slow, t.in, t.out, t.refused, t.replays, t.gaps, t.closed} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (t *traffics) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	journals := maps.Clone(t.journals)
	t.mu.Unlock()
	for name, c := range journals {
		count := func(d *prometheus.Desc, n int64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
		}
		for dialect, w := range c.Wires() {
			count(t.opened, w.Opened.Load(), dialect)
			count(t.slow, w.Slow.Load(), dialect)
			count(t.in, w.In.Load(), dialect)
			count(t.out, w.Out.Load(), dialect)
			count(t.refused, w.OverSockets.Load(), dialect, "connections")
			count(t.refused, w.OverClient.Load(), dialect, "connections_per_client")
			count(t.refused, w.OverCommands.Load(), dialect, "commands")
			count(t.refused, w.OverRooms.Load(), dialect, "rooms_per_connection")
		}
		r := &c.Rooms
		count(t.replays, r.Replayed.Load(), "memory")
		count(t.replays, r.Reread.Load(), "journal")
		count(t.replays, r.Outdated.Load(), "nowhere")
		count(t.replays, r.Caught.Load(), "run")
		count(t.replays, r.Cut.Load(), "part")
		count(t.gaps, r.Gaps.Load())
		count(t.closed, r.Epochs.Load(), "epoch")
		count(t.closed, r.Behind.Load(), "behind")
		count(t.closed, r.Slow.Load(), "slow")
		count(t.closed, r.Deleted.Load(), "deleted")
	}
}

// Interface guard
var _ prometheus.Collector = (*traffics)(nil)
