package caddymodule

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// TestAppsKeepLogsLonger is PIN-067: clients of an app come back to a log that is
// a day old; a reload that takes the last app away ends that.
func TestAppsKeepLogsLonger(t *testing.T) {
	var p pooled
	plain, app := &edge.Site{}, &edge.Site{Apps: []identity.App{{Key: "k"}}}
	for _, c := range []struct {
		sites []*edge.Site
		want  time.Duration
	}{{nil, 0}, {[]*edge.Site{plain}, 0}, {[]*edge.Site{plain, app}, 24 * time.Hour}, {[]*edge.Site{plain}, 0}} {
		if p.keep(c.sites); p.redis.keepIdle() != c.want {
			t.Errorf("of %d sites logs are kept for %v, want %v", len(c.sites), p.redis.keepIdle(), c.want)
		}
	}
}
