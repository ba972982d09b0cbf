package agent

import "testing"

// BenchmarkRepairDelta is the token path: one delta of a text that is open.
func BenchmarkRepairDelta(b *testing.B) {
	b.ReportAllocs()
	r := NewRepair(newRun())
	r.Event(start("m"))
	for b.Loop() {
		r.size = 0
		r.Event(delta("m", "token "))
	}
}
