package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// counted are the counters of these families that have counted something, with
// their labels but for the journal's.
func counted(t *testing.T, e *edge, families ...string) map[string]string {
	t.Helper()
	resp, err := http.Get(e.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^parlance_(\w+)\{(.*?),?journal="[^"]*",?(.*?)\} (.+)$`).FindAllStringSubmatch(string(b), -1) {
		if slices.Contains(families, m[1]) && m[4] != "0" {
			name := m[1] + " " + strings.Trim(m[2]+","+m[3], ",")
			if got[name] != "" {
				t.Errorf("%s is there twice", name)
			}
			got[name] = m[4]
		}
	}
	return got
}

// hour is what people do in an hour, of each dialect, at an edge; somebody looks in
// from another one.
func (f *fleet) hour(e, other *edge, name string) {
	f.t.Helper()
	cookie := browserCookie(f.t, e.gateway)
	thread := newThread(f.t, e.gateway, cookie)
	p, err := openPane(f.t.Context(), e.base, cookie)
	if err != nil {
		f.t.Fatal(err)
	}
	defer p.close()
	n := 0
	command := func(p *pane, what string, arg map[string]any) error {
		n++
		return p.command(n, what, arg)
	}
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	must(command(p, "thread:messages", map[string]any{"threadId": thread}))
	start := func(id, input string) error {
		return command(p, "run:start", map[string]any{"threadId": thread, "messageId": id, "input": input})
	}
	must(start("one", "n=2 d=1"))
	must(p.until("RUN_FINISHED"))
	if err := start("one", "n=2 d=1"); err == nil || !strings.Contains(err.Error(), "DUPLICATE_MESSAGE") {
		f.t.Errorf("a message twice: %v", err)
	}
	must(start("two", "n=2 d=1 ask"))
	must(p.until("INTERRUPT"))
	var asked struct {
		Event struct{ InterruptID string }
	}
	must(json.Unmarshal(p.buf[strings.IndexByte(string(p.buf), ',')+1:len(p.buf)-1], &asked))
	must(p.until("RUN_FINISHED"))
	must(command(p, "run:resume", map[string]any{"threadId": thread, "interruptId": asked.Event.InterruptID, "answer": true}))
	must(p.until("RUN_FINISHED"))
	must(start("three", "n=2 d=1 hang"))
	run := regexp.MustCompile(`"runId":"([^"]+)"`).FindStringSubmatch(string(p.buf))[1]
	must(p.until("TEXT_MESSAGE_CONTENT"))
	second, err := openPane(f.t.Context(), other.base, cookie)
	must(err)
	defer second.close()
	must(command(second, "thread:messages", map[string]any{"threadId": thread}))
	must(command(p, "run:cancel", map[string]any{"runId": run}))
	if err := command(p, "run:cancel", map[string]any{"runId": run}); err == nil {
		f.t.Error("a run is stopped twice")
	}

	f.channel(e, "pingerchips-"+name)

	o := operate(f.t, e.base, nil)
	session := o.session(nil).text("data.sessionId")
	o.say(session, "one", "n=2 d=1")
	o.until("eventual_response")
	o.hangUp()
}

// limits has an edge refuse what is one too many.
func (f *fleet) limits(e *edge) {
	f.t.Helper()
	e.change("connections_per_client 4000", "connections_per_client 1\n\t\t\trooms_per_connection 1")
	if err := e.reload(); err != nil {
		f.t.Fatal(err)
	}
	cookie := browserCookie(f.t, e.gateway)
	p, err := openPane(f.t.Context(), e.base, cookie)
	if err != nil {
		f.t.Fatal(err)
	}
	defer p.close()
	ws, _, err := websocket.Dial(f.t.Context(), e.base+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {cookie}}})
	if err != nil {
		f.t.Fatal(err)
	}
	defer ws.CloseNow() //nolint:errcheck // it is over
	err = ws.Write(f.t.Context(), websocket.MessageText, []byte("40"))
	for said := []byte("0"); err == nil && said[0] == '0'; {
		if _, said, err = ws.Read(f.t.Context()); err == nil && said[0] != '0' && !strings.HasPrefix(string(said), "44") {
			f.t.Errorf("a client has two connections: %s", said)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range 2 {
		err := p.command(i, "thread:messages", map[string]any{"threadId": newThread(f.t, e.gateway, cookie)})
		if (err != nil) != (i == 1) {
			f.t.Errorf("room %d of a connection: %v", i, err)
		}
	}
	want := map[string]string{`refused_total dialect="pilotoo",limit="connections_per_client"`: "1", `refused_total dialect="pilotoo",limit="rooms_per_connection"`: "1"}
	if got := counted(f.t, e, "refused_total"); !maps.Equal(got, want) {
		f.t.Errorf("refused are %v, want %v", got, want)
	}
}

// channel sends one message in a thread of the app and waits for the run's end.
func (f *fleet) channel(e *edge, thread string) {
	f.t.Helper()
	ws, _, err := websocket.Dial(f.t.Context(), e.base+"/socket/websocket?vsn=2.0.0", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer ws.CloseNow() //nolint:errcheck // it is over
	topic := "chat:v1:app:pk_live_x:thread:" + thread
	auth := minted(f.t, "--thread", thread, "--client", "ada", "--can", "subscribe", "--can", "publish:user_message")
	for i, push := range []struct {
		event, until string
		payload      map[string]any
	}{
		{"phx_join", "phx_reply", map[string]any{"auth": auth}},
		{"send", `"run:end"`, map[string]any{"messageId": "m", "runId": "r", "text": "n=2 d=1"}},
	} {
		b, err := json.Marshal([]any{"1", fmt.Sprint(i), topic, push.event, push.payload})
		if err == nil {
			err = ws.Write(f.t.Context(), websocket.MessageText, b)
		}
		for found := false; !found; {
			if err != nil {
				f.t.Fatal(err)
			}
			_, b, err = ws.Read(f.t.Context())
			if strings.Contains(string(b), `"status":"error"`) {
				f.t.Fatalf("%s: %s", push.event, b)
			}
			found = strings.Contains(string(b), push.until)
		}
	}
}

// TestCountsOfAScriptedHour: what was done is counted, on the edge where it was
// done, once, through reloads.
func TestCountsOfAScriptedHour(t *testing.T) {
	t.Parallel()
	f := fleetOn(t, 2, "redis "+redistest.Start(t).URL(),
		"\t\tlimits {", "\t\tapp pk_live_x {\n\t\t\tsecret "+appSecret+"\n\t\t}\n\t\tsmooth {\n\t\t\tanonymous\n\t\t}\n\t\tlimits {")
	families := []string{
		"commands_total", "command_seconds_count", "runs_ended_total", "run_seconds_count", "agent_first_event_seconds_count",
		"sockets_opened_total", "sockets_slow_total", "refused_total", "replays_total", "members_closed_total",
	}
	hour := map[string]int{
		`commands_total command="create",outcome="ok"`:                  2,
		`commands_total command="send",outcome="ok"`:                    5,
		`commands_total command="send",outcome="repeated"`:              1,
		`commands_total command="answer",outcome="ok"`:                  1,
		`commands_total command="cancel",outcome="ok"`:                  1,
		`commands_total command="cancel",outcome="unknown"`:             1,
		`command_seconds_count command="create"`:                        2,
		`command_seconds_count command="send"`:                          6,
		`command_seconds_count command="answer"`:                        1,
		`command_seconds_count command="cancel"`:                        2,
		`runs_ended_total agent="bot",reason="",status="complete"`:      4,
		`runs_ended_total agent="bot",reason="user",status="cancelled"`: 1,
		`run_seconds_count agent="bot"`:                                 5,
		`agent_first_event_seconds_count agent="bot"`:                   6, // one run has two calls
		`sockets_opened_total dialect="pilotoo"`:                        2, // one of them for the other edge's hour
		`sockets_opened_total dialect="pingerchips"`:                    1,
		`sockets_opened_total dialect="smooth"`:                         1,
		`replays_total from="run"`:                                      1, // who looks in from the other edge
	}
	check := func(when string, times int) {
		t.Helper()
		want := map[string]string{}
		for name, n := range hour {
			want[name] = fmt.Sprint(n * times)
		}
		for i, e := range f.edges {
			var got map[string]string
			// Who sees the end of a run may do so before it is counted.
			eventually(t, func() bool { got = counted(t, e, families...); return maps.Equal(got, want) }, func() string {
				var wrong []string
				for name := range got {
					if got[name] != want[name] {
						wrong = append(wrong, fmt.Sprintf("%s is %s, want %q", name, got[name], want[name]))
					}
				}
				for name := range want {
					if got[name] == "" {
						wrong = append(wrong, fmt.Sprintf("%s is missing, want %s", name, want[name]))
					}
				}
				slices.Sort(wrong)
				return fmt.Sprintf("%s, on edge %d:\n%s", when, i, strings.Join(wrong, "\n"))
			})
		}
	}
	do := func(name string) {
		f.hour(f.edges[0], f.edges[1], name)
		f.hour(f.edges[1], f.edges[0], name+"-there")
	}
	do("first")
	check("after an hour", 1)
	for range 25 {
		for _, e := range f.edges {
			if err := e.reload(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("after 50 reloads", 1)
	do("second")
	check("after another hour", 2)
	f.limits(f.edges[0])
	for i, e := range f.edges {
		for name, n := range counted(t, e, "received_bytes_total", "sent_bytes_total", "pubsub_age_seconds") {
			if strings.HasPrefix(n, "-") {
				t.Errorf("edge %d: %s is %s", i, name, n)
			}
		}
	}
}
