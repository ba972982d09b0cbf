package room

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
)

// lines takes a log, line by line.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A journal that cannot be read is two lines in the log, for any number of rooms
// and tries.
func TestAnOutageOfTheJournalIsTwoLines(t *testing.T) {
	j := &unread{Journal: openJournal(t), tried: make(chan struct{}, 1)}
	log := make(lines, 1000)
	rs := New(j, Options{
		Now: func() int64 { return time.Now().UnixMilli() }, Random: random, RetryPause: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	t.Cleanup(rs.Close)
	threads := []*thread{newThread(t, j, "t"), newThread(t, j, "u")}
	for _, th := range threads {
		s := join(t, rs, th.key, newExact("v"), newMember())
		defer s.Leave()
	}
	for range 2 {
		j.fail(-1)
		for _, th := range threads {
			rs.Acknowledged(th.key, journal.Notice{Resync: true})
		}
		for range 40 {
			<-j.tried
		}
		j.fail(0)
		for _, want := range []string{"level=WARN", "level=INFO"} {
			select {
			case got := <-log:
				if !strings.Contains(got, want) {
					t.Errorf("the log has %q, want %s", got, want)
				}
			case <-time.After(patience):
				t.Fatalf("no %s", want)
			}
		}
	}
	if len(log) > 0 {
		t.Errorf("the log has more: %q", <-log)
	}
}
