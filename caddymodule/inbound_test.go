package caddymodule

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

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

// TestExampleApps holds the commented sites of Caddyfile.example to what caddy fmt
// writes and validates.
func TestExampleApps(t *testing.T) {
	for _, name := range []string{"AGENT_TOKEN", "APP_SECRET", "WAKE_SECRET"} {
		t.Setenv(name, testSecret)
	}
	data, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	sites := regexp.MustCompile(`(?m)^\t#\tparlance \{\n(?:\t#\t\t.*\n)+\t#\t\}\n`).FindAllString(string(data), -1)
	if len(sites) < 2 {
		t.Fatalf("%d commented sites", len(sites))
	}
	if !strings.Contains(sites[len(sites)-1], "agent worker socket") {
		t.Error("no agent that dials in")
	}
	for _, s := range sites {
		in := "http://chat.example.com {\n" + strings.ReplaceAll(s, "\t#\t", "\t") + "}\n"
		if formatted := string(caddyfile.Format([]byte(in))); formatted != in {
			t.Errorf("caddy fmt would write it so:\n%s", formatted)
		}
		if err := validate(t, in); err != nil {
			t.Errorf("%v in\n%s", err, in)
		}
	}
}
