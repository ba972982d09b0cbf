package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestWhatIsStartedServes(t *testing.T) {
	t.Run("a server that was killed has what it had", func(t *testing.T) {
		s := Start(t)
		s.Do("SET", "k", "v")
		s.Kill()
		s.Run()
		if v := s.Do("GET", "k"); v != "v" {
			t.Errorf("got %v", v)
		}
		s.Shutdown()
		s.Wipe()
		s.Run()
		if v := s.Do("GET", "k"); v != nil {
			t.Errorf("after a wipe: %v", v)
		}
	})
	t.Run("a cluster takes each key", func(t *testing.T) {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: StartCluster(t).Addrs()})
		defer c.Close()
		for _, k := range []string{"a", "b", "c", "d"} {
			if err := c.Set(context.Background(), k, k, 0).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Sentinels change the master", func(t *testing.T) {
		s := StartSentinel(t)
		c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs()})
		defer c.Close()
		if err := c.Set(context.Background(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.Failover()
	})
}

func TestPortsAreGivenOutOnce(t *testing.T) {
	mine := map[int]bool{}
	for range 3 * blockSize {
		p := FreePort(t)
		if mine[p] || p <= firstPort || p >= lastPort {
			t.Errorf("%d was given out, after %d others", p, len(mine))
		}
		mine[p] = true
	}
}
