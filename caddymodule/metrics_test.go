package caddymodule

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
				if m.Label[len(m.Label)-1].GetName() != "journal" || m.Label[len(m.Label)-1].GetValue() != p.key.String() {
					t.Errorf("%s has the labels %v", f.GetName(), m.Label)
				}
				got[f.GetName()] += m.Gauge.GetValue()
			}
		}
		for name, want := range map[string]float64{"parlance_ready": 1, "parlance_sockets": 0, "parlance_rooms": 0, "parlance_runs": 0} {
			if n, ok := got[name]; !ok || n != want {
				t.Errorf("%s is %v (%v)", name, n, ok)
			}
		}
	}
}
