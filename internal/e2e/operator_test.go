package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// call runs a command of the binary and returns what it said.
func (g *gateway) ask(args ...string) (out, failed string, err error) {
	cmd := exec.CommandContext(g.t.Context(), binary, append(args, "--address", strings.TrimPrefix(g.admin, "http://"))...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// TestOperatorCommands: an operator sees threads, runs and records from a shell,
// and none of what people wrote; an edge is drained by its name only.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	g := start(t, wideSite)
	cookie := browserCookie(t, g)
	thread := newThread(t, g, cookie)
	p, err := openPane(t.Context(), g.base, cookie)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	must := func(args ...string) string {
		t.Helper()
		out, failed, err := g.ask(args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, failed)
		}
		return out
	}
	if err := p.command(1, "thread:messages", map[string]any{"threadId": thread}); err != nil {
		t.Fatal(err)
	}
	if out := must("parlance-threads"); !strings.Contains(out, thread) || len(strings.Split(strings.TrimSpace(out), "\n")) != 2 {
		t.Errorf("parlance-threads said %q", out)
	}
	if out := must("parlance-runs", "--stuck"); strings.Contains(out, thread) {
		t.Errorf("a thread without a run has a stuck one: %q", out)
	}

	tail := exec.CommandContext(t.Context(), binary, "parlance-tail", thread, "--json", "--address", strings.TrimPrefix(g.admin, "http://"))
	pipe, err := tail.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = tail.Process.Kill()
			_ = tail.Wait()
		}
	}()
	if err := p.command(2, "run:start", map[string]any{"threadId": thread, "messageId": "m", "input": "the plum is ripe"}); err != nil {
		t.Fatal(err)
	}
	type record struct {
		Epoch, Pos uint64
		Kind, Run  string
		Status     string
		Size       int
	}
	var seen []record
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if len(seen) > 0 && (r.Pos != seen[len(seen)-1].Pos+1 || r.Epoch != seen[0].Epoch) {
			t.Errorf("after record %d comes %d", seen[len(seen)-1].Pos, r.Pos)
		}
		seen = append(seen, r)
		said.WriteString(lines.Text())
		if r.Kind == "run.end" {
			break
		}
	}
	if n := len(seen); n < 5 || seen[n-1].Kind != "run.end" || seen[n-1].Status != "complete" {
		t.Fatalf("the tail showed %+v", seen)
	}
	if strings.Contains(said.String(), "plum") {
		t.Errorf("an operator sees what people write: %s", said.String())
	}
	_ = tail.Process.Kill()
	_ = tail.Wait()
	ended = true

	all := must("parlance-tail", thread, "--no-follow")
	lines := strings.Split(strings.TrimSpace(all), "\n")
	if len(lines) != len(seen) || strings.Contains(all, "plum") || !strings.Contains(all, "bytes=") {
		t.Errorf("%d records, and without following:\n%s", len(seen), all)
	}
	cursor, _, _ := strings.Cut(lines[2], " ")
	if rest := must("parlance-tail", thread, "--no-follow", "--from", cursor); rest != strings.Join(lines[3:], "\n")+"\n" {
		t.Errorf("from %s: %s", cursor, rest)
	}

	// What was counted, before and after reloads.
	counted := func() map[string]string {
		resp, err := http.Get(g.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^(parlance_\w+)\{(.*?),?journal="[^"]*",?(.*?)\} (.+)$`).FindAllStringSubmatch(string(b), -1) {
			got[m[1]+" "+strings.Trim(m[2]+","+m[3], ",")] = m[4]
		}
		return got
	}
	first := counted()
	for name, want := range map[string]string{
		`parlance_commands_total command="create",outcome="ok"`: "1", `parlance_commands_total command="send",outcome="ok"`: "1",
		`parlance_runs_ended_total agent="echo",reason="",status="complete"`: "1",
		`parlance_run_seconds_count agent="echo"`:                            "1", `parlance_agent_first_event_seconds_count agent="echo"`: "1",
		`parlance_journal_calls_total call="append",result="fenced"`: "0",
	} {
		if first[name] != want {
			t.Errorf("%s is %q, want %s", name, first[name], want)
		}
	}
	for range 3 {
		if err := g.reload(); err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range counted() {
		if (strings.Contains(name, "commands") || strings.Contains(name, "runs_ended")) && n != first[name] {
			t.Errorf("after reloads %s is %s, and was %s", name, n, first[name])
		}
	}

	for _, c := range []struct {
		want string
		args []string
	}{
		{"no such thread", []string{"parlance-tail", "none"}},
		{"no such thread", []string{"parlance-tail", thread, "--tenant", "other"}},
		{"not a cursor", []string{"parlance-tail", thread, "--from", "12"}},
		{"no such edge", []string{"parlance-drain", "none"}},
	} {
		if out, failed, err := g.ask(c.args...); err == nil || !strings.Contains(failed, c.want) {
			t.Errorf("%v: %v, said %s%s", c.args, err, out, failed)
		}
	}
	name := must("parlance-threads", "--json")
	var here struct{ Edge string }
	if err := json.Unmarshal([]byte(name), &here); err != nil {
		t.Fatal(err)
	}
	if out := must("parlance-drain", here.Edge, "--wait"); !strings.Contains(out, "0 sockets and 0 runs are left") {
		t.Errorf("the drain said %q", out)
	}
	if _, err := openPane(t.Context(), g.base, cookie); err == nil {
		t.Error("a drained edge takes a socket")
	}
}
