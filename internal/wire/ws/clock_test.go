package ws

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// client has an alarm.
type client struct{ alarm Alarm }

func newClock(tick func(*client, time.Duration)) *Clock[client] {
	return NewClock(func(c *client) *Alarm { return &c.alarm }, tick)
}

// TestClockOrder moves, removes and adds clients at will: they come out when
// they were last said to be due, in order, and those taken out never.
func TestClockOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock(nil)
		all := make([]client, 20)
		want := map[*client]time.Duration{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			s := &all[rapid.IntRange(0, len(all)-1).Draw(t, "client")]
			if at := rapid.IntRange(-20, 1000).Draw(t, "due"); at < 0 {
				c.Unset(s)
				delete(want, s)
			} else {
				c.Set(s, time.Duration(at))
				want[s] = time.Duration(at)
			}
		}
		now := time.Duration(rapid.IntRange(0, 1000).Draw(t, "now"))
		last := time.Duration(-1)
		for s, _ := c.next(now); s != nil; s, _ = c.next(now) {
			due, ok := want[s]
			if !ok || due != s.alarm.due || due < last || due > now {
				t.Fatalf("due %v (%v) after %v at %v", due, ok, last, now)
			}
			last = due
			delete(want, s)
		}
		rest := time.Hour
		for _, due := range want {
			if due <= now {
				t.Fatalf("due %v was left at %v", due, now)
			}
			rest = min(rest, due-now)
		}
		if _, wait := c.next(now); wait != rest {
			t.Fatalf("waits %v, want %v", wait, rest)
		}
		if c.Len() != len(want) || slices.Contains(c.due.list, nil) {
			t.Fatalf("%d clients left, want %d", c.Len(), len(want))
		}
	})
}
