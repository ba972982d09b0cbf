package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// TestMetrics: two configurations have the gauges, none has them twice.
func TestMetrics(t *testing.T) {
	p := hubIn(t, t.TempDir())
	for range 2 {
		r := prometheus.NewPedanticRegistry()
		for range 2 { // two apps of one configuration cannot be, a second call can
			if err := registerMetrics(r); err != nil {
				t.Fatal(err)
			}
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, f := range families {
			for _, m := range f.Metric {
				journal := ""
				for _, l := range m.Label {
					if l.GetName() == "journal" {
						journal = l.GetValue()
					}
				}
				switch {
				case journal == "":
					t.Errorf("%s has the labels %v", f.GetName(), m.Label)
				case journal == p.key.String() && m.Gauge != nil:
					got[f.GetName()] += m.Gauge.GetValue()
				}
			}
		}
		for name, want := range map[string]float64{"parlance_ready": 1, "parlance_sockets": 0, "parlance_rooms": 0, "parlance_runs": 0} {
			if n, ok := got[name]; !ok || n != want {
				t.Errorf("%s is %v (%v)", name, n, ok)
			}
		}
	}
}

// registry has all that Parlance counts, after one of each.
func registry(t *testing.T) *prometheus.Registry {
	t.Helper()
	p := hubIn(t, t.TempDir())
	m := newMeter(p.key.String())
	m.Command("send", "ok", time.Millisecond)
	m.RunEnded("echo", chat.RunComplete, "", time.Second)
	m.FirstToken("echo", time.Millisecond)
	r := prometheus.NewPedanticRegistry()
	if err := registerMetrics(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMetricsAreWellFormed: the names and helps are as Prometheus asks.
func TestMetricsAreWellFormed(t *testing.T) {
	families, err := registry(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestOpsNamesWhatIsThere: each query of the dashboard, and each rule, is about a
// metric and labels that are there.
func TestOpsNamesWhatIsThere(t *testing.T) {
	families, err := registry(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]map[string]bool{}
	for _, f := range families {
		labels := map[string]bool{"instance": true, "le": true} // Prometheus's own
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		names := []string{f.GetName()}
		if f.GetType().String() == "HISTOGRAM" {
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for _, n := range names {
			there[n] = labels
		}
	}
	there["parlance_pubsub_age_seconds"] = map[string]bool{"journal": true, "instance": true} // of Redis alone
	there["parlance_edges"], there["parlance_members"] = map[string]bool{"journal": true, "instance": true}, map[string]bool{"journal": true, "dialect": true}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	b, err := os.ReadFile("../spec/ops/dashboard.json")
	if err = errors.Join(err, json.Unmarshal(b, &dashboard)); err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, p := range dashboard.Panels {
		for i, q := range p.Targets {
			queries[fmt.Sprintf("%s %d", p.Title, i)] = q.Expr
		}
	}
	if len(queries) < 30 {
		t.Fatalf("the dashboard has %d queries", len(queries))
	}
	shown := fmt.Sprint(queries)
	for n := range there {
		n = strings.TrimSuffix(strings.TrimSuffix(n, "_sum"), "_count")
		if strings.HasPrefix(n, "parlance_") && !strings.Contains(shown, n) {
			t.Errorf("the dashboard does not show %s", n)
		}
	}
	b, err = os.ReadFile("../spec/ops/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^ +- alert: (\w+)\n +expr: (.+)\n(?: +for: .+\n)? +# .+\n +annotations: \{summary: ".+", mend: ".+"\}$`).FindAllStringSubmatch(string(b), -1)
	if len(rules) != 10 || strings.Count(string(b), "- alert:") != 10 {
		t.Fatalf("%d rules have a query, a reason and a mend", len(rules))
	}
	for _, r := range rules {
		queries[r[1]] = r[2]
	}
	name := regexp.MustCompile(`parlance_\w+`)
	label := regexp.MustCompile(`(\w+)(?:=~?|!=)"|by \(([^)]+)\)`)
	for where, q := range queries {
		for _, n := range name.FindAllString(q, -1) {
			labels, ok := there[n]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, n)
				continue
			}
			for _, l := range label.FindAllStringSubmatch(q, -1) {
				for _, one := range strings.Split(l[1]+l[2], ", ") {
					if !labels[one] {
						t.Errorf("%s: %s has no label %q", where, n, one)
					}
				}
			}
		}
	}
}
