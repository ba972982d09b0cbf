package caddymodule

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// The exit codes of parlance-chat, beside 0 and, for what kept it from talking at
// all, 1.
const (
	exitFailed  = 2   // a run failed, or a message was refused
	exitAsked   = 3   // a question was left open
	exitStopped = 130 // as a shell has it for Ctrl-C
)

// chatToken names the variable that a token is read from.
const chatToken = "PARLANCE_TOKEN"

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-chat",
		Usage: "<url> [--thread <id>] [--list] [--token <token>] [--socket-path <path>]",
		Short: "Talks to a gateway from a terminal",
		Long: `
Opens a conversation at a gateway that speaks Pilotoo and talks in it: a line is a
message, the answer is shown as it comes. Ctrl-C stops the answer; a second one,
or one while nothing is being answered, leaves, and the run goes on elsewhere as
long as it was not stopped. An agent's question is answered with y, n, or a value
in JSON. Where the connection breaks, the command goes on where it was.

The address is the site's, with the path of its routes if they have one. Without
--thread one can be picked from a list; --list prints that and ends. Without a
token every start is a new visitor, who has no conversations yet.

A token is better given as $` + chatToken + ` than as --token, which other users of
the machine can see.

If the input is no terminal, each line of it is a message, or the answer to a
question; they are sent one after the other, and the answers are all that is
written to the output. A thread that is not named is new, and its id is written to
the error output. The exit code is 0 when all was answered, 1 if the gateway could
not be talked to, 2 if a run failed or a message was refused, 3 if the input ended
before a question was answered, and 130 after Ctrl-C.
`,
		CobraFunc: chatCommand,
	})
}

func chatCommand(cmd *cobra.Command) {
	var site chatSite
	var thread string
	var list bool
	flags := cmd.Flags()
	flags.StringVar(&thread, "thread", "", "The conversation to talk in")
	flags.BoolVar(&list, "list", false, "List the conversations and end")
	flags.StringVar(&site.token, "token", "", "The token to be admitted by, else $"+chatToken)
	flags.StringVar(&site.socketPath, "socket-path", "/socket.io/", "The path of the Socket.IO endpoint")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		site.token = cmp.Or(site.token, os.Getenv(chatToken))
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) {
			if err := site.parse(args[0]); err != nil {
				return 1, err
			}
			code, err := runChat(cmd.Context(), &site, thread, list)
			if err != nil {
				err = errors.New(field(err.Error())) // some of it may be the gateway's words
			}
			return code, err
		})(cmd, args)
	}
}

// runChat talks until the input ends or somebody leaves, and says how to exit.
func runChat(ctx context.Context, site *chatSite, thread string, list bool) (int, error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)

	screen := newChatScreen(os.Stdout, os.Stderr, isTerminal(os.Stdin) && isTerminal(os.Stdout))
	if list {
		threads, err := site.threads(ctx)
		if err != nil {
			return 1, err
		}
		for _, t := range threads {
			screen.text(t.line() + "\n")
		}
		return 0, screen.err
	}
	lines := make(chan string)
	go readLines(ctx, os.Stdin, lines) // ends with the process: a read of a terminal cannot be taken back
	if thread == "" {
		var err error
		var left bool
		if thread, left, err = pickThread(ctx, site, screen, lines, signals); err != nil || left {
			return boolCode(err != nil, 1, 0), err
		}
	}
	c := newChatTalk(site, screen, thread)
	code, err := c.talk(ctx, &wg, lines, signals)
	screen.rest()
	return code, errors.Join(err, screen.err)
}

func boolCode(b bool, yes, no int) int {
	if b {
		return yes
	}
	return no
}

// maxTyped bounds a line of input, in bytes.
const maxTyped = 256 << 10

// readLines gives lines on, one at a time, until the input ends.
func readLines(ctx context.Context, r io.Reader, lines chan<- string) {
	defer close(lines)
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxTyped)
	for in.Scan() {
		select {
		case lines <- in.Text():
		case <-ctx.Done():
			return
		}
	}
}

// shownThreads bounds the conversations that are offered.
const shownThreads = 20

// pickThread asks which conversation to talk in; with nobody to ask it makes a
// new one. left says that the person left instead.
func pickThread(ctx context.Context, site *chatSite, screen *chatScreen, lines <-chan string, signals <-chan os.Signal) (thread string, left bool, err error) {
	if screen.interactive {
		threads, err := site.threads(ctx)
		if err != nil {
			return "", false, err
		}
		threads = threads[:min(len(threads), shownThreads)]
		for i, t := range threads {
			screen.note(strconv.Itoa(i+1) + "  " + t.line())
		}
		for len(threads) > 0 {
			screen.prompt("number, or return for a new conversation: ")
			select {
			case line, ok := <-lines:
				n, bad := strconv.Atoi(strings.TrimSpace(line))
				switch {
				case !ok:
					return "", true, nil
				case strings.TrimSpace(line) == "":
					threads = nil
				case bad == nil && n >= 1 && n <= len(threads):
					return threads[n-1].ID, false, nil
				}
			case <-signals:
				return "", true, nil
			}
		}
	}
	if thread, err = site.create(ctx); err != nil {
		return "", false, err
	}
	screen.note("thread " + thread)
	return thread, false, nil
}

// isTerminal says whether a file is one that a person sits at.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// parse reads the site's address.
func (s *chatSite) parse(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("the address is no URL that begins with http:// or https://") // it may hold a secret
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the address has a user, a query or a fragment; give a token as $" + chatToken)
	}
	if !strings.HasPrefix(s.socketPath, "/") {
		return fmt.Errorf("--socket-path %q does not begin with /", s.socketPath)
	}
	s.origin, s.routes = u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	s.socketPath = strings.TrimSuffix(s.socketPath, "/") + "/"
	return s.open()
}
