package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// fault is one way to break something. It is done to an edge, or to the store
// if it is none's, blocks until it is over and leaves everything whole.
type fault struct {
	kind    string
	ids     string // of the fault catalogue
	edge    bool
	heavy   bool // takes seconds; drawn less often
	proxied bool // needs an edge with a proxy
	alone   bool // needs a store that is no cluster
	do      func(ctx context.Context, f *fleet, e *edge, r *rand.Rand) error
}

// between draws a time of low to high ms.
func between(r *rand.Rand, low, high int) time.Duration {
	return time.Duration(low+r.IntN(high-low+1)) * time.Millisecond
}

// pause waits as a fault lasts.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// toxic is a fault on an edge's way to the store: some of proxy's toxics, for
// low to high ms.
func toxic(kind, ids string, low, high int, toxics func(r *rand.Rand) []string) fault {
	return fault{kind: kind, ids: ids, edge: true, proxied: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		list := toxics(r)
		lasts := between(r, low, high)
		var names []string
		for _, conf := range list {
			w, err := e.proxy.Toxics.AddToxicJson(strings.NewReader(conf))
			if err != nil {
				return err
			}
			names = append(names, w.Name)
		}
		pause(ctx, lasts)
		for _, n := range names {
			if err := e.proxy.Toxics.RemoveToxic(zerolog.Nop().WithContext(context.Background()), n); err != nil {
				return err
			}
		}
		return nil
	}}
}

// poison is the JSON of a toxic.
func poison(kind, stream, attributes string) string {
	return fmt.Sprintf(`{"type":%q,"stream":%q,"toxicity":1,"attributes":{%s}}`, kind, stream, attributes)
}

// onStore is a fault that some commands make.
func onStore(kind, ids string, do func(ctx context.Context, c *redis.Client, r *rand.Rand) error) fault {
	return fault{kind: kind, ids: ids, do: func(ctx context.Context, f *fleet, _ *edge, r *rand.Rand) error {
		c := f.server(r).Client()
		defer c.Close()
		return do(ctx, c, r)
	}}
}

// ofOne is a fault that a cluster does not know.
func ofOne(f fault) fault {
	f.alone = true
	return f
}

// server is the fleet's store, or one of the cluster's servers.
func (f *fleet) server(r *rand.Rand) *redistest.Server {
	if f.nodes != nil {
		return f.nodes[r.IntN(len(f.nodes))]
	}
	return f.store
}

// faults are all that a store with an append-only file must bear without a loss.
var faults = []fault{
	toxic("latency", "F7", 500, 3000, func(r *rand.Rand) []string {
		ms := 20 + r.IntN(780)
		return []string{poison("latency", "downstream", fmt.Sprintf(`"latency":%d,"jitter":%d`, ms, ms/2))}
	}),
	toxic("latency both ways", "F7", 500, 3000, func(r *rand.Rand) []string {
		ms := 20 + r.IntN(480)
		return []string{
			poison("latency", "upstream", fmt.Sprintf(`"latency":%d,"jitter":%d`, ms, ms)),
			poison("latency", "downstream", fmt.Sprintf(`"latency":%d`, ms)),
		}
	}),
	toxic("bandwidth", "F7", 500, 3000, func(r *rand.Rand) []string {
		return []string{poison("bandwidth", "downstream", fmt.Sprintf(`"rate":%d`, 4+r.IntN(40)))}
	}),
	toxic("torn frames", "F9", 500, 2500, func(r *rand.Rand) []string {
		return []string{poison("slicer", "downstream", fmt.Sprintf(`"average_size":%d,"size_variation":8,"delay":200`, 16+r.IntN(48)))}
	}),
	toxic("partition", "F20", 500, 6000, func(*rand.Rand) []string {
		return []string{poison("timeout", "upstream", `"timeout":0`), poison("timeout", "downstream", `"timeout":0`)}
	}),
	toxic("replies do not come", "F21", 500, 6000, func(*rand.Rand) []string {
		return []string{poison("timeout", "downstream", `"timeout":0`)}
	}),
	toxic("connections reset", "F9", 300, 2000, func(r *rand.Rand) []string {
		return []string{poison("reset_peer", "downstream", fmt.Sprintf(`"timeout":%d`, r.IntN(150)))}
	}),
	toxic("reply cut off", "F9", 300, 2000, func(r *rand.Rand) []string {
		return []string{poison("limit_data", "downstream", fmt.Sprintf(`"bytes":%d`, 40+r.IntN(4000)))}
	}),
	toxic("command cut off", "F9", 300, 2000, func(r *rand.Rand) []string {
		return []string{poison("limit_data", "upstream", fmt.Sprintf(`"bytes":%d`, 40+r.IntN(8000)))}
	}),
	{kind: "connections refused", ids: "F20", edge: true, proxied: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		e.proxy.Stop()
		pause(ctx, between(r, 300, 5000))
		return e.proxy.Start()
	}},
	{kind: "edge killed", ids: "F22 F54", edge: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		e.kill()
		pause(ctx, between(r, 0, 1500))
		return e.boot()
	}},
	{kind: "edge drained", ids: "F43", edge: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		e.stop()
		pause(ctx, between(r, 0, 1000))
		return e.boot()
	}},
	{kind: "edge reloaded", ids: "F43", edge: true, do: func(_ context.Context, _ *fleet, e *edge, _ *rand.Rand) error {
		return e.reload()
	}},
	{kind: "edge stands still", ids: "F52", edge: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		return e.freeze(ctx, between(r, 300, 4000))
	}},
	{kind: "edge comes back a zombie", ids: "F23 F42 F53", edge: true, heavy: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		return e.freeze(ctx, between(r, 11_000, 17_000))
	}},
	{kind: "edge starves", ids: "F52", edge: true, do: func(ctx context.Context, _ *fleet, e *edge, r *rand.Rand) error {
		for until := time.Now().Add(between(r, 500, 4000)); time.Now().Before(until) && ctx.Err() == nil; {
			if err := e.freeze(ctx, between(r, 50, 200)); err != nil {
				return err
			}
			pause(ctx, between(r, 5, 40))
		}
		return nil
	}},
	onStore("CLIENT KILL normal", "F9", func(ctx context.Context, c *redis.Client, _ *rand.Rand) error {
		return c.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
	}),
	onStore("CLIENT KILL pubsub", "F18 F19", func(ctx context.Context, c *redis.Client, _ *rand.Rand) error {
		return c.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err()
	}),
	onStore("SCRIPT FLUSH", "F17", func(ctx context.Context, c *redis.Client, _ *rand.Rand) error {
		return c.ScriptFlush(ctx).Err()
	}),
	onStore("FUNCTION FLUSH", "F17", func(ctx context.Context, c *redis.Client, _ *rand.Rand) error {
		return c.FunctionFlush(ctx).Err()
	}),
	onStore("CLIENT PAUSE", "F7", func(ctx context.Context, c *redis.Client, r *rand.Rand) error {
		mode := []string{"ALL", "WRITE"}[r.IntN(2)]
		d := between(r, 50, 2500)
		err := c.Do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), mode).Err()
		pause(ctx, d)
		return err
	}),
	onStore("busy script", "F15", busyScript),
	ofOne(onStore("READONLY", "F15", func(ctx context.Context, c *redis.Client, r *rand.Rand) error {
		// The master of a port where nobody listens: nothing is taken over.
		if err := c.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			return err
		}
		pause(ctx, between(r, 100, 2500))
		return c.Do(context.WithoutCancel(ctx), "REPLICAOF", "NO", "ONE").Err()
	})),
	onStore("OOM", "F10", func(ctx context.Context, c *redis.Client, r *rand.Rand) error {
		return setFor(ctx, c, between(r, 200, 3000), "maxmemory", "1", "0")
	}),
	onStore("NOREPLICAS", "F5 F15", func(ctx context.Context, c *redis.Client, r *rand.Rand) error {
		return setFor(ctx, c, between(r, 200, 3000), "min-replicas-to-write", "1", "0")
	}),
	onStore("NOAUTH", "F14", func(ctx context.Context, c *redis.Client, r *rand.Rand) error {
		if err := c.ConfigSet(ctx, "requirepass", "another").Err(); err != nil {
			return err
		}
		// Who is connected stays who he is, so all must come anew.
		if err := c.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			return err
		}
		pause(ctx, between(r, 200, 3000))
		o := *c.Options()
		o.Password = "another"
		in := redis.NewClient(&o)
		defer in.Close()
		return in.ConfigSet(context.WithoutCancel(ctx), "requirepass", "").Err()
	}),
	{kind: "store hangs", ids: "F8 F19", do: func(ctx context.Context, f *fleet, _ *edge, r *rand.Rand) error {
		s := f.server(r)
		s.Signal(syscall.SIGSTOP)
		pause(ctx, between(r, 200, 8000))
		s.Signal(syscall.SIGCONT)
		return nil
	}},
	{kind: "store restarts", ids: "F1 F15 F17", do: func(ctx context.Context, f *fleet, _ *edge, r *rand.Rand) error {
		s := f.server(r)
		s.Shutdown()
		pause(ctx, between(r, 0, 2000))
		s.Run()
		return nil
	}},
	{kind: "store killed", ids: "F1 F15 F17", do: func(ctx context.Context, f *fleet, _ *edge, r *rand.Rand) error {
		s := f.server(r)
		s.Kill()
		pause(ctx, between(r, 0, 2000))
		s.Run()
		return nil
	}},
}

// busyScript keeps the store in a script that writes nothing, until it is
// killed; meanwhile others are told BUSY.
func busyScript(ctx context.Context, c *redis.Client, r *rand.Rand) error {
	if err := c.ConfigSet(ctx, "busy-reply-threshold", "50").Err(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Eval(context.WithoutCancel(ctx), "while true do end", nil)
	}()
	pause(ctx, between(r, 200, 2500))
	for {
		err := c.ScriptKill(context.WithoutCancel(ctx)).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOTBUSY") {
			break
		}
		pause(context.WithoutCancel(ctx), 20*time.Millisecond)
	}
	<-done
	return nil
}

// setFor gives a setting another value for a while.
func setFor(ctx context.Context, c *redis.Client, d time.Duration, name, value, old string) error {
	if err := c.ConfigSet(ctx, name, value).Err(); err != nil {
		return err
	}
	pause(ctx, d)
	return c.ConfigSet(context.WithoutCancel(ctx), name, old).Err()
}

// freeze stops the process as a debugger or a starved host would, and lets it
// go on as if nothing had been.
func (e *edge) freeze(ctx context.Context, d time.Duration) error {
	if err := e.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, d)
	return e.cmd.Process.Signal(syscall.SIGCONT)
}
