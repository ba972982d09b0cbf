package e2e

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// TestCardsOfAllDialects lets a question of one dialect be answered in another, by
// the published clients of those that have them: on one edge, and with
// smooth-operator on another edge than the rest.
func TestCardsOfAllDialects(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"file", "two edges"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor()
			agent := httptest.NewServer(a)
			t.Cleanup(func() {
				agent.CloseClientConnections()
				agent.Close()
			})
			n, journal := 1, `file "DIR"`
			if name != "file" {
				n, journal = 2, "redis "+redistest.Start(t).URL()
			}
			f := fleetOn(t, n, journal, "agent bot agui AGENT",
				"name chat\n\t\tagent bot agui "+agent.URL+"\n\t\tapp pk_live_x {\n\t\t\tsecret "+appSecret+"\n\t\t}\n\t\tsmooth")
			var now *part
			load := func(s stage, lines ...line) func() any {
				return func() any {
					now = a.load(s, lines)
					return true
				}
			}
			script(t, "cards.mjs", map[string]func() any{
				"approval": load(deletes(), line{Kind: "toolCall", Name: "delete_record", Arguments: `{"id":"42"}`}, line{Kind: "text", Text: "done"}),
				"both":     load(deletes(), line{Kind: "toolCall", Name: "delete_record", Arguments: `{}`}, intakeCall, line{Kind: "text", Text: "thanks"}),
				"form": load(stage{}, line{
					Kind: "ask", Value: json.RawMessage(`{"reason":"input_required","message":"How many?"}`),
					Arguments: `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`,
				}, line{Kind: "text", Text: "thanks"}),
				"answers": func() any {
					given := []any{}
					for _, in := range now.inputs() {
						for _, r := range in.Resume {
							given = append(given, r)
						}
					}
					return given
				},
			}, f.env("SECRET="+appSecret, "SMOOTH="+f.edges[n-1].base)...)
		})
	}
}
