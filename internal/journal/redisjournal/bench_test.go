package redisjournal

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// BenchmarkAppend is 256 runs that stream at once, two records a call, with
// what the server's main thread spends on each call.
func BenchmarkAppend(b *testing.B) {
	server := redistest.Start(b, "appendonly no")
	j := mustOpen(b, Options{Addresses: []string{server.Addr()}})
	var threads atomic.Int64
	b.SetParallelism(128) // per processor
	b.ReportAllocs()
	before := busy(server)
	b.RunParallel(func(pb *testing.PB) {
		key := chat.Key{Realm: "r", Thread: fmt.Sprint(threads.Add(1))}
		c := opening(key)
		if _, err := j.Commit(b.Context(), c); err != nil {
			b.Error(err)
			return
		}
		a := appendOf(key, 0, 0, strings.Repeat("t", 40), strings.Repeat("t", 40))
		for pb.Next() {
			a.Tag += 1 << 20
			if _, err := j.Append(b.Context(), a); err != nil {
				b.Error(err)
				return
			}
			a.W += 2
		}
	})
	b.StopTimer()
	b.ReportMetric((busy(server)-before)*1e6/float64(b.N), "redis-us/op")
}

// busy is the processor time of the server's main thread, in seconds.
func busy(server *redistest.Server) (total float64) {
	for line := range strings.Lines(server.Do("INFO", "cpu").(string)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasSuffix(name, "_main_thread") {
			n, _ := strconv.ParseFloat(text, 64)
			total += n
		}
	}
	return total
}
