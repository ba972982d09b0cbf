package socket

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flood lets n runs of a tenant call for as long as that; it returns how many
// were let in.
func flood(ctx context.Context, wg *sync.WaitGroup, t *turns, tenant string, n int, call time.Duration) (in int) {
	for range n {
		if !t.enter(tenant) {
			continue
		}
		in++
		wg.Go(func() {
			defer t.leave(tenant)
			if t.begin(ctx, tenant) == nil {
				time.Sleep(call)
				t.end(tenant)
			}
		})
	}
	return in
}

// H: the runs of one tenant, however many, keep another's from nothing.
func TestAFloodOfOneTenantHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		turns := newTurns(64, 2048)
		if n := flood(t.Context(), &wg, turns, "many", 5000, time.Minute); n != 1024 {
			t.Fatalf("%d of a flood are let in", n)
		}
		synctest.Wait()
		began := time.Now()
		for i := range 20 { // others have not a minute to wait
			tenant := strconv.Itoa(i)
			if !turns.enter(tenant) || turns.begin(t.Context(), tenant) != nil {
				t.Fatalf("tenant %d does not get its turn", i)
			}
			turns.end(tenant)
			turns.leave(tenant)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the others waited %v", d)
		}
		// Many others that flood as well: a small one gets the next that is free.
		for i := range 10 {
			flood(t.Context(), &wg, turns, "many"+strconv.Itoa(i), 5000, time.Minute)
		}
		synctest.Wait()
		if !turns.enter("small") || turns.begin(t.Context(), "small") != nil {
			t.Fatal("the small one does not get its turn")
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("the small one waited %v", d)
		}
		turns.end("small")
		turns.leave("small")
		wg.Wait()
		if turns.calls != 0 || turns.taken != 0 || len(turns.ring) != 0 || len(turns.tenants) != 0 {
			t.Errorf("what is left: %+v", turns)
		}
	})
}

// Two that flood get as much each.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		turns := newTurns(64, 2048)
		flood(t.Context(), &wg, turns, "a", 1000, time.Second)
		synctest.Wait()
		flood(t.Context(), &wg, turns, "b", 1000, time.Second)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		turns.mu.Lock()
		if a, b := turns.tenants["a"].calls, turns.tenants["b"].calls; a < 20 || b < 20 || a+b > 64 {
			t.Errorf("%d and %d calls are under way", a, b)
		}
		turns.mu.Unlock()
		wg.Wait()
	})
}

// Whatever comes, goes and gives up: no call is lost and none is made twice.
func TestTurnsBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 1))
			turns := newTurns(4, 40)
			var wg sync.WaitGroup
			for range 200 {
				tenant, call, patience := strconv.Itoa(r.IntN(5)), time.Duration(r.IntN(10))*time.Millisecond, time.Duration(r.IntN(30))*time.Millisecond
				if !turns.enter(tenant) {
					time.Sleep(time.Millisecond)
					continue
				}
				wg.Go(func() {
					defer turns.leave(tenant)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if turns.begin(ctx, tenant) != nil {
						return
					}
					turns.mu.Lock()
					if turns.calls > turns.most {
						t.Errorf("seed %d: %d calls are under way", seed, turns.calls)
					}
					turns.mu.Unlock()
					time.Sleep(call)
					turns.end(tenant)
				})
			}
			wg.Wait()
			if turns.calls != 0 || turns.taken != 0 || len(turns.ring) != 0 || len(turns.tenants) != 0 {
				t.Fatalf("seed %d: what is left: %+v", seed, turns)
			}
		}
	})
}
