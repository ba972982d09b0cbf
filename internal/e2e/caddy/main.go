// Command caddy is Caddy's standard build with Parlance in it, for tests that
// need a whole process. Users get theirs from xcaddy.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/parlance-gateway/parlance/caddymodule"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
)

func main() {
	if text := os.Getenv("PARLANCE_E2E_CLOCK"); text != "" {
		clock, err := wrong(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		edge.Wall = clock
	}
	if text := os.Getenv("PARLANCE_E2E_HOLD"); text != "" {
		hold, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		smooth.CallHold = hold
	}
	caddycmd.Main()
}

// wrong is a clock that is wrong by the first duration, and by each further one
// from when it says: "5m" is ahead, "0s,-5m@10s" is set back after 10 s.
func wrong(text string) (func() time.Time, error) {
	type step struct{ by, after time.Duration }
	var steps []step
	for part := range strings.SplitSeq(text, ",") {
		by, after, later := strings.Cut(part, "@")
		if !later {
			after = "0s"
		}
		var s step
		var err error
		if s.by, err = time.ParseDuration(by); err != nil {
			return nil, err
		}
		if s.after, err = time.ParseDuration(after); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	began := time.Now()
	return func() time.Time {
		now, by := time.Now(), time.Duration(0)
		for _, s := range steps {
			if now.Sub(began) >= s.after {
				by = s.by
			}
		}
		return now.Add(by)
	}, nil
}
