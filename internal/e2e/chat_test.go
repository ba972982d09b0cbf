package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// terminal is a running parlance-chat whose input is ours.
type terminal struct {
	t         *testing.T
	cmd       *exec.Cmd
	in        io.WriteCloser
	out, said output
}

func openTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c := &terminal{t: t, cmd: exec.CommandContext(ctx, binary, append([]string{"parlance-chat"}, args...)...)}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.said
	c.cmd.Env = append(os.Environ(), "PARLANCE_TOKEN=")
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *terminal) types(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// shows waits until the output has the text.
func (c *terminal) shows(text string) {
	c.t.Helper()
	eventually(c.t, func() bool { return strings.Contains(c.out.String(), text) }, func() string {
		return "of " + text + " is shown: " + c.out.String() + "\n" + c.said.String()
	})
}

// eventually waits for what comes sooner or later.
func eventually(t *testing.T, is func() bool, state func() string) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			t.Fatal(state())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ends closes the input and wants an exit code and all that was shown.
func (c *terminal) ends(code int, shown string) {
	c.t.Helper()
	_ = c.in.Close()
	err := c.cmd.Wait()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != code || c.out.String() != shown {
		c.t.Errorf("the exit code is %d, want %d; shown is\n%q, want\n%q\n%s", got, code, c.out.String(), shown, c.said.String())
	}
}

// words are those of a call, from one to before another, as they are shown.
func words(call, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(word(call, i))
	}
	return b.String()
}

// TestChatCommand: whoever has a shell can talk to a gateway, and so can a script.
func TestChatCommand(t *testing.T) {
	t.Parallel()
	bot := newBot(t)
	g := start(t, site("\t\tagent bot agui "+bot.srv.URL))
	zerolog.SetGlobalLevel(zerolog.Disabled)
	line := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "line", "127.0.0.1:0", strings.TrimPrefix(g.base, "http://"))
	if err := line.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Stop)
	base := "http://" + line.Listen
	call := 0 // the bot's next

	t.Run("messages are answered in turn, a failed one is told by the exit code", func(t *testing.T) {
		c := openTerminal(t, base)
		c.types("n=5 d=1")
		c.types("n=4 d=1 fail")
		c.types("n=3 d=1")
		c.ends(2, words(0, 0, 5)+"\n"+words(1, 0, 2)+"\n"+words(2, 0, 3)+"\n")
		if !strings.Contains(c.said.String(), "AS_ASKED") {
			t.Errorf("of the failure it says %q", c.said.String())
		}
		call = 3
	})

	t.Run("a question is answered, or left open", func(t *testing.T) {
		c := openTerminal(t, base)
		c.types("n=6 d=1 ask")
		c.types("y")
		c.types("n=4 d=1 ask")
		c.types("n")
		c.types("n=2 d=1 ask")
		c.ends(3, words(3, 0, 3)+"\n"+words(4, 0, 3)+"\n"+words(5, 0, 2)+"\n"+words(6, 0, 2)+"\n"+words(7, 0, 1)+"\n")
		calls, _ := bot.books()
		for i, want := range map[int]string{4: "true", 6: "false"} {
			if i >= len(calls) || len(calls[i].Answers) != 1 || !strings.Contains(string(calls[i].Answers[0].Payload), want) {
				t.Errorf("the agent was answered %+v, want %s", calls[min(i, len(calls)-1)].Answers, want)
			}
		}
		call = 8
	})

	t.Run("Ctrl-C stops the run", func(t *testing.T) {
		c := openTerminal(t, base)
		c.types("n=4 d=1 hang")
		c.shows(words(call, 0, 2))
		if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { calls, _ := bot.books(); return calls[call].Over }, func() string { return "the agent goes on" })
		c.ends(130, words(call, 0, 2)+"\n")
		call++
	})

	t.Run("it comes back to where it was", func(t *testing.T) {
		c := openTerminal(t, base)
		c.types("n=20 d=1 hold=10")
		c.shows(words(call, 0, 10))
		line.Stop()
		bot.release() // the rest is said while it is away
		eventually(t, func() bool { calls, _ := bot.books(); return calls[call].Whole }, func() string { return "the agent did not end" })
		if err := line.Start(); err != nil {
			t.Fatal(err)
		}
		c.types("n=20 d=1 hold=10")
		c.shows(words(call+1, 0, 10))
		line.Stop()
		if err := line.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return strings.Count(c.said.String(), "the connection is lost") == 2 }, func() string { return c.said.String() })
		bot.release()
		c.shows(words(call+1, 10, 20))
		g.kill()
		g.run() // another process, which knows the visitor
		c.types("n=3 d=1")
		c.ends(0, words(call, 0, 20)+"\n"+words(call+1, 0, 20)+"\n"+words(call+2, 0, 3)+"\n")
	})

	t.Run("what cannot be is said", func(t *testing.T) {
		for _, args := range [][]string{{base, "--thread", "none"}, {"http://127.0.0.1:1"}, {"ftp://x"}, {base + "/elsewhere"}} {
			c := openTerminal(t, args...)
			c.ends(1, "")
			if c.said.String() == "" {
				t.Errorf("%v: nothing is said", args)
			}
		}
		c := openTerminal(t, base, "--list")
		c.ends(0, "")
	})
}
