package edge

import (
	"testing"
	"time"
)

// F46: time goes on whatever happens to the machine's clock.
func TestSteadyClock(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	wall := began
	c := &steady{wall: func() time.Time { return wall }}
	is := func(what string, want time.Duration) {
		t.Helper()
		if got := time.UnixMilli(c.now()).Sub(began); got != want {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	is("at first", 0)
	wall = wall.Add(time.Second)
	is("as time passes", time.Second)
	wall = wall.Add(time.Hour)
	is("after a leap", time.Hour+time.Second)
	wall = wall.Add(-time.Minute)
	is("set back", time.Hour+time.Second)
	wall = wall.Add(10 * time.Second)
	is("behind by less", time.Hour+6*time.Second)
	wall = wall.Add(40 * time.Second)
	is("and less", time.Hour+26*time.Second)
	wall = wall.Add(80 * time.Second)
	is("where it is right again", time.Hour+71*time.Second)
}

func BenchmarkSteadyClock(b *testing.B) {
	c := &steady{wall: time.Now}
	b.ReportAllocs()
	for b.Loop() {
		c.now()
	}
}
