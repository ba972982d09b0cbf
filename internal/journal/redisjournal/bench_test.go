package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// flow is a thread with a live run that streams. Its follower tells how many
// records came, with each notice.
type flow struct {
	key  chat.Key
	w    uint64
	came chan int
}

var errMissed = errors.New("a follower was told that it may have missed something")

// flows opens threads through one journal and follows each through all that
// followers names; took, if not nil, is called with each record.
func flows(b *testing.B, n int, writer *Journal, followers []*Journal, took func(*chat.Record)) []*flow {
	b.Helper()
	list := make([]*flow, n)
	for i := range list {
		f := &flow{key: chat.Key{Realm: "r", Thread: fmt.Sprint("t", i)}, came: make(chan int, 64)}
		mustCommit(b, writer, opening(f.key))
		for _, j := range followers {
			begun := false
			b.Cleanup(j.FollowPromptly(f.key, func(n journal.Notice) {
				switch {
				case n.Resync && begun:
					f.tell(-1)
				case n.Resync:
					begun = true
					f.tell(0)
				default:
					if took != nil {
						for _, r := range n.Records {
							took(r)
						}
					}
					f.tell(len(n.Records))
				}
			}))
		}
		list[i] = f
	}
	for _, f := range list {
		for range followers {
			<-f.came
		}
	}
	return list
}

// tell never blocks: who has stopped listening has failed already.
func (f *flow) tell(n int) {
	select {
	case f.came <- n:
	default:
	}
}

// say appends texts as the run's owner.
func (f *flow) say(ctx context.Context, j *Journal, texts ...string) error {
	a := appendOf(f.key, f.w, serial.Add(1)<<20, texts...)
	res, err := j.Append(ctx, a)
	if err == nil && res.Result != journal.Stored {
		err = fmt.Errorf("an append was %s", res.Result)
	}
	f.w += uint64(len(texts))
	return err
}

// hear waits for as many records.
func (f *flow) hear(n int) error {
	for n > 0 {
		got := <-f.came
		if got < 0 {
			return errMissed
		}
		n -= got
	}
	return nil
}

// share gives every one of b.N turns to one of n workers, who work side by side.
func share(b *testing.B, n int, f func(worker int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, n)
	b.ResetTimer()
	for i := range n {
		go func() {
			var err error
			for err == nil && left.Add(-1) >= 0 {
				err = f(i)
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
}

// BenchmarkAppend is a closed loop of runs that stream two records a call: on
// two edges, which both follow all threads, each run waits until both have its
// records. What a Redis core carries follows from the time that the server's
// main thread spends; the calls per second of the whole also from the
// processors that server and edges share.
func BenchmarkAppend(b *testing.B) {
	for _, bb := range []struct {
		name      string
		followers int
	}{{"alone", 0}, {"two-edges", 2}} {
		b.Run(bb.name, func(b *testing.B) {
			const threads = 512
			server := redistest.Start(b, "appendonly no")
			edges := []*Journal{
				mustOpen(b, Options{Addresses: []string{server.Addr()}}),
				mustOpen(b, Options{Addresses: []string{server.Addr()}}),
			}
			list := flows(b, threads, edges[0], edges[:bb.followers], nil)
			text := strings.Repeat("t", 40)
			b.ReportAllocs()
			server.Do("CONFIG", "RESETSTAT")
			before := busy(server)
			share(b, threads, func(i int) error {
				f := list[i]
				if err := f.say(b.Context(), edges[i%len(edges)], text, text); err != nil {
					return err
				}
				return f.hear(2 * bb.followers)
			})
			used := (busy(server) - before) / float64(b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric(used*1e6, "redis-µs/call")
			b.ReportMetric(1/used, "calls/redis-core")
			b.ReportMetric(2/used, "records/redis-core")
			b.ReportMetric(scriptTime(server), "script-µs/call")
		})
	}
}

// busy is the processor time of the server's main thread, in seconds.
func busy(server *redistest.Server) (total float64) {
	info := parseInfo(server.Do("INFO", "cpu").(string))
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		n, _ := strconv.ParseFloat(info[name], 64)
		total += n
	}
	return total
}

// scriptTime is how long a call of a script took since the last RESETSTAT, in
// microseconds, as the server counts it.
func scriptTime(server *redistest.Server) float64 {
	for field := range strings.SplitSeq(parseInfo(server.Do("INFO", "commandstats").(string))["cmdstat_evalsha"], ",") {
		if text, ok := strings.CutPrefix(field, "usec_per_call="); ok {
			n, _ := strconv.ParseFloat(text, 64)
			return n
		}
	}
	return 0
}

// BenchmarkNotice reports the time from an append on one edge to its notice on
// another, at a fixed rate, one record of 120 bytes a call over 1000 threads.
func BenchmarkNotice(b *testing.B) {
	for _, rate := range []int{2000, 20000} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			const threads = 1000
			server := redistest.Start(b, "appendonly no")
			writer := mustOpen(b, Options{Addresses: []string{server.Addr()}})
			reader := mustOpen(b, Options{Addresses: []string{server.Addr()}})
			took, arrived := make([]time.Duration, b.N), atomic.Int64{}
			list := flows(b, threads, writer, []*Journal{reader}, func(r *chat.Record) {
				number, _, _ := strings.Cut(r.Body.(*chat.DeltaBody).Text, " ")
				sent, _ := strconv.ParseInt(number, 10, 64)
				took[arrived.Add(1)-1] = time.Duration(time.Now().UnixNano() - sent)
			})
			server.Do("CONFIG", "RESETSTAT")
			before := busy(server)
			measureNotices(b, list, writer, rate)
			b.ReportMetric((busy(server)-before)/b.Elapsed().Seconds()*100, "redis-%")
			slices.Sort(took)
			at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) }
			b.ReportMetric(at(0.5), "p50-µs")
			b.ReportMetric(at(0.99), "p99-µs")
			b.ReportMetric(scriptTime(server), "script-µs/call")
		})
	}
}

// measureNotices says b.N records at a rate, in turn through all flows, and
// waits until each was heard. A record's time begins when it is due to be said,
// so that a writer that falls behind does not hide it.
func measureNotices(b *testing.B, list []*flow, j *Journal, rate int) {
	said := make([]chan time.Time, len(list))
	done := make(chan error, len(list))
	fill := strings.Repeat("t", 100)
	for i, f := range list {
		said[i] = make(chan time.Time, b.N/len(list)+1)
		go func() {
			for due := range said[i] {
				err := f.say(b.Context(), j, strconv.FormatInt(due.UnixNano(), 10)+" "+fill)
				if err == nil {
					err = f.hear(1)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	b.ResetTimer()
	began := time.Now()
	for n := range b.N {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		said[n%len(list)] <- due
	}
	for i := range list {
		close(said[i])
	}
	for range list {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
}

// BenchmarkCommit is people who write in 64 threads at once. A server that does
// not know WAITAOF syncs before each answer.
func BenchmarkCommit(b *testing.B) {
	for _, bb := range []struct {
		name, fsync string
		sync        Sync
	}{{"sync-none", "everysec", Sync{}}, {"sync-fsync", "always", Sync{Fsync: true}}} {
		b.Run(bb.name, func(b *testing.B) {
			const threads = 64
			server := redistest.Start(b, "appendfsync "+bb.fsync)
			j := mustOpen(b, Options{Addresses: []string{server.Addr()}, Sync: bb.sync})
			commits := make([]journal.Commit, threads)
			for i := range commits {
				c := opening(chat.Key{Realm: "r", Thread: fmt.Sprint("t", i)})
				done := mustCommit(b, j, c)
				commits[i] = journal.Commit{Key: c.Key, Epoch: done.Epoch, Rev: done.Rev}
			}
			b.ReportAllocs()
			server.Do("CONFIG", "RESETSTAT")
			share(b, threads, func(i int) error {
				c := &commits[i]
				n := serial.Add(1)
				c.Command.ID = [16]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
				c.Tag = n << 20
				c.Entries = []chat.Entry{chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: &chat.Message{
					ID: fmt.Sprint("m", n), Role: chat.User, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("a few words")}},
				}})}
				res, err := j.Commit(b.Context(), *c)
				if err == nil && res.Result != journal.Done {
					err = fmt.Errorf("a commit was %s", res.Result)
				}
				c.Rev = res.Rev
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(scriptTime(server), "script-µs/call")
		})
	}
}
