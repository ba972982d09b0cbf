package pingerchips

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// watchers takes any join.
type watchers chan *phoenix.Channel

func (w watchers) Join(context.Context, *phoenix.Channel, json.RawMessage) ([]byte, error) {
	return nil, nil
}
func (w watchers) Joined(c *phoenix.Channel)         { w <- c }
func (w watchers) In(*phoenix.Channel, phoenix.Push) {}
func (w watchers) Left(*phoenix.Channel, string)     {}

const benchTopic = "chat:v1:app:pk:thread:t"

// watch opens n clients that read whatever comes, and counts its bytes.
func watch(b *testing.B, n int) ([]*phoenix.Channel, *atomic.Int64) {
	b.Helper()
	joined := make(watchers, n)
	srv := phoenix.NewServer(phoenix.Options{AcceptRate: 1 << 20}, joined)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { srv.Accept(w, r, phoenix.Accept{}) }))
	var conns []net.Conn
	var readers sync.WaitGroup
	b.Cleanup(func() {
		srv.Close()
		web.Close()
		for _, c := range conns {
			c.Close()
		}
		readers.Wait()
	})
	received := new(atomic.Int64)
	join := `["1","1","` + benchTopic + `","phx_join",{}]`
	var channels []*phoenix.Channel
	for range n {
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		_, _ = io.WriteString(c, "GET /websocket?vsn=2.0.0 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		r := bufio.NewReaderSize(c, 256)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			b.Fatal(res, err)
		}
		if _, err := c.Write(append([]byte{0x81, 0x80 | byte(len(join)), 0, 0, 0, 0}, join...)); err != nil {
			b.Fatal(err)
		}
		channels = append(channels, <-joined)
		head := make([]byte, 2) // of the reply: what follows is counted
		if _, err := io.ReadFull(r, head); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Discard(int(head[1])); err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			buf := make([]byte, 256<<10)
			for {
				k, err := r.Read(buf)
				received.Add(int64(k))
				if err != nil {
					return
				}
			}
		})
	}
	return channels, received
}

// changeTo is a token at the end of a text.
func changeTo(text int) *room.Change {
	const run, part = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"
	st := &chat.State{Exists: true, Runs: []*chat.Run{{ID: run, Status: chat.RunActive, Answer: part, Segments: []string{"s"}}}}
	say := func(k chat.Kind, b chat.Body) *chat.Record {
		return &chat.Record{Pos: st.Pos + 1, Log: st.Log + 1, At: 1_796_000_000_000, Entry: chat.NewEntry(k, run, b)}
	}
	st = st.Apply(say(chat.KindTextStart, &chat.BlockBody{Part: part}))
	st = st.Apply(say(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: strings.Repeat("a few words ", text/12)}))
	r := say(chat.KindTextDelta, &chat.DeltaBody{Part: part, Text: "more "})
	return &room.Change{Key: chat.Key{Thread: "t"}, Record: r, Before: st, After: st.Apply(r)}
}

// logged is how many changes a second a run makes whose answer is so long, at 50
// tokens a second and a pace of 40 ms.
func logged(text int) float64 {
	o := &conductor.Owner{Run: "r", Pace: 40}
	o.Start(true)
	o.Opened(true)
	const seconds = 10
	n, now := 0, int64(1_000_000)
	stored := func(d conductor.Do) {
		for d.Append != nil {
			for _, e := range d.Append.Entries {
				if e.Logged {
					n++
				}
			}
			d = o.Appended(journal.Appended{Result: journal.Stored}, 1)
		}
	}
	say := func(s string) {
		stored(o.Entries([]chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: s})}, now, 1))
	}
	say(strings.Repeat("x", text))
	n = 0
	for range 50 * seconds {
		now += 20
		say("more ")
		if at := o.Wake(); at != 0 && now >= at {
			stored(o.Tick(now, 1))
		}
	}
	return float64(n) / seconds
}

// BenchmarkChange is a change of a text, which holds it before and after the token:
// encoded once, sent to all members, and read by them, which is in the figures. What the pace leaves of it is
// how many such changes a run makes, and how much of a core that takes.
func BenchmarkChange(b *testing.B) {
	for _, text := range []int{1 << 10, 50 << 10} {
		for _, members := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("text=%dKB/members=%d", text>>10, members), func(b *testing.B) {
				channels, received := watch(b, members)
				c := changeTo(text)
				_, frame := Variant{}.Encode(c).(*Encoded).frames(benchTopic, nil)
				before := processor()
				for b.Loop() {
					want := received.Load() + int64(members*frame.Size())
					e := Variant{}.Encode(c).(*Encoded)
					for _, ch := range channels {
						_, f := e.frames(benchTopic, nil)
						if err := ch.Send(f); err != nil {
							b.Fatal(err)
						}
					}
					for received.Load() < want-int64(members*16) {
						time.Sleep(100 * time.Microsecond)
					}
				}
				each := (processor() - before).Seconds() / float64(b.N)
				rate := logged(text)
				b.ReportMetric(each*1e6, "cpu-µs/change")
				b.ReportMetric(each*1e6/float64(members), "cpu-µs/member")
				b.ReportMetric(rate, "changes/s-at-pace")
				b.ReportMetric(rate*float64(frame.Size())/1e6, "MB/s-at-pace")
				b.ReportMetric(100*rate*each, "core-%-at-pace")
			})
		}
	}
}
