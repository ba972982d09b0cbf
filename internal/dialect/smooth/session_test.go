package smooth

import (
	"testing"
	"time"
)

func TestSessionStatus(t *testing.T) {
	now := time.Now().UnixMilli()
	for age, want := range map[time.Duration]string{0: "active", 30 * time.Minute: "active", 30*time.Minute + time.Millisecond: "idle", 24 * time.Hour: "idle"} {
		if got := (&session{Used: now - age.Milliseconds()}).status(now); got != want {
			t.Errorf("SMO-064 used %v ago: %s", age, got)
		}
	}
}
