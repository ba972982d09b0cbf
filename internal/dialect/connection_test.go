package dialect_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A connection has one line, whatever its wire says twice, and tells what came of
// it by counts.
func TestAConnectionHasOneLine(t *testing.T) {
	ann := identity.Principal{Realm: "support", Subject: identity.Subject{Issuer: "test", ID: "ann"}}
	bob := identity.Principal{Realm: "support", Subject: identity.Subject{Issuer: "test", ID: "bob"}}
	for _, c := range []struct {
		name    string
		happens func(*dialect.Connection)
		want    map[string]any
	}{
		{"served", func(c *dialect.Connection) {
			c.Admitted(ann)
			c.Admitted(bob)
			_, m := c.Begin(t.Context(), "send")
			m.Done("")
			_, m = c.Begin(t.Context(), "send")
			m.Done("invalid payload")
			c.Limited()
			c.Limited()
		}, map[string]any{"outcome": "served", "principal": ann.Hash(), "admitted": 2., "commands": 2., "refused": 1., "limited": 2.}},
		{"denied", func(c *dialect.Connection) { c.Denied() }, map[string]any{"outcome": "denied", "principal": "", "denied": 1.}},
		{"never said who", func(*dialect.Connection) {}, map[string]any{"outcome": "anonymous", "commands": 0.}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			conn := dialect.NewConnection("smooth", "support", "one", slog.New(slog.NewJSONHandler(&out, nil)))
			c.happens(conn)
			conn.Ended("transport closed")
			conn.Ended("client too slow")
			var lines []map[string]any
			for d := json.NewDecoder(&out); d.More(); {
				var v map[string]any
				if err := d.Decode(&v); err != nil {
					t.Fatal(err)
				}
				if v["msg"] == "connection ended" {
					lines = append(lines, v)
				}
			}
			if len(lines) != 1 {
				t.Fatalf("%d lines", len(lines))
			}
			c.want["reason"], c.want["dialect"], c.want["realm"], c.want["edge"] = "transport closed", "smooth", "support", "one"
			for k, want := range c.want {
				if got := lines[0][k]; got != want {
					t.Errorf("%s is %v, want %v", k, got, want)
				}
			}
		})
	}
}

// A connection that nobody notes costs a dialect no question.
func TestNoConnectionNotesNothing(t *testing.T) {
	var c *dialect.Connection
	c.Admitted(identity.Principal{})
	c.Denied()
	c.Limited()
	ctx, m := c.Begin(t.Context(), "send")
	m.Done("invalid")
	c.Refuse("invalid")
	c.Ended("over")
	if ctx != t.Context() || c.Stamp() != "" {
		t.Error("something was noted")
	}
}
