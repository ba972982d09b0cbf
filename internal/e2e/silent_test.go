package e2e

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// F12: an agent thinks for so long that all that expires in the store has gone.
// None of it is what a run needs.
func TestStoreForgetsWhileAnAgentThinks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	c := f.store.Client()
	defer c.Close()
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 12, Threads: 4, Windows: 4, Polling: 2, Kinds: []string{"think"}})
	<-s.begun
	f.until("a run in each thread", func() bool { return f.bot.at() >= 4 })
	for range 3 {
		pause(t.Context(), seconds(2))
		f.expire(c)
	}
	s.healed()
	s.stop()
	s.mustHold(f)
}

// at is how many requests the agent answers right now.
func (b *bot) at() int {
	_, open := b.books()
	return open
}

// expire lets everything go that has a time to live, and looks at what that is.
func (f *fleet) expire(c *redis.Client) {
	f.t.Helper()
	keys := c.Scan(f.t.Context(), 0, "*", 1000).Iterator()
	for keys.Next(f.t.Context()) {
		name := keys.Val()
		ttl, err := c.TTL(f.t.Context(), name).Result()
		if err != nil {
			f.t.Fatal(err)
		}
		if ttl < 0 { // it stays, or it has gone
			continue
		}
		commands, rooms := strings.Contains(name, ":k:"), strings.Contains(name, ":a:")
		if !commands && !rooms && !strings.HasPrefix(name, "parlance:{edges}:") {
			f.t.Errorf("%s expires", name)
		}
		// A command is forgotten after a minute in which no other came, so not here.
		if !commands {
			c.Del(f.t.Context(), name)
		}
	}
	if err := keys.Err(); err != nil {
		f.t.Fatal(err)
	}
}

// F5, F10: a store that takes no writes for longer than an edge owns its runs, and
// then does. Nobody was lost, so no run ends but by its agent.
func TestStoreThatTakesNoWritesEndsNobodysRun(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]string{"for want of replicas": "min-replicas-to-write", "because its memory is full": "maxmemory"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			s := startSwarm(t, crowd{Edges: f.bases(), Seed: 10, Threads: 4, Windows: 4, Polling: 2, Kinds: []string{"think"}})
			<-s.begun
			f.until("a run in each thread", func() bool { return f.bot.at() >= 4 })
			f.store.Do("CONFIG", "SET", refuse, "1")
			pause(t.Context(), seconds(17))
			f.store.Do("CONFIG", "SET", refuse, "0")
			f.serving()
			s.healed()
			s.stop()
			s.mustHold(f)
			for i, e := range f.edges {
				if strings.Contains(e.log.String(), "a run that cannot go on is ended") {
					t.Errorf("edge %d has ended a run", i)
				}
			}
		})
	}
}
