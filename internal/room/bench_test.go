package room

import (
	"fmt"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

type silent struct{}

func (silent) Deliver(any)       {}
func (silent) Close(CloseReason) {}

// bytesOf is a variant that makes a few bytes of each delta.
type bytesOf struct{}

func (bytesOf) Encode(c *Change) any {
	b, ok := c.Record.Body.(*chat.DeltaBody)
	if !ok {
		return nil
	}
	return append([]byte(nil), b.Text...)
}

// BenchmarkDeliver applies a delta and hands it to all members: no I/O, one
// encoding, and nothing allocated for a member.
func BenchmarkDeliver(b *testing.B) {
	for _, members := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			j := openJournal(b)
			rs := openRooms(b, j)
			th := newThread(b, j, "t")
			th.start("r1")
			th.append("r1", begin("r1", "p"))
			var seats []*Seat
			for range members {
				s := join(b, rs, th.key, bytesOf{}, silent{})
				s.Release()
				seats = append(seats, s)
			}
			r := seats[0].room
			r.mu.Lock()
			st := r.seq.State.Clip()
			rec := &chat.Record{Entry: say("r1", "p", "word ")}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				rec.Pos, rec.Seq = st.Pos+1, rec.Seq+1
				after := st.Apply(rec)
				step := Step{Applied: []Change{{Epoch: r.seq.Epoch, Record: rec, Before: st, After: after}}}
				r.carry(&step)
				if st = after; len(st.Runs[0].Parts[0].Text) > 1<<16 {
					st = r.seq.State.Clip()
				}
			}
			b.StopTimer()
			r.ring = ring{}
			r.mu.Unlock()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(members), "ns/member")
			for _, s := range seats {
				s.Leave()
			}
		})
	}
}
