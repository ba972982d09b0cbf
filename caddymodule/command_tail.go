package caddymodule

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-tail",
		Usage: "<thread> [--realm <realm>] [--tenant <tenant>] [--from <cursor>] [--no-follow] [--json]",
		Short: "Shows a thread's records as they come",
		Long: `
Prints the records that the journal has of a thread, and then those that come:
when, where, what, whose, and how many bytes of content; never the content.
Where the admin endpoint goes away, as it does at a reload, the command goes on
where it was once that is back.

--from takes a cursor, as the first column shows it: what follows that record is
printed. With --json each record is a line of JSON.
`,
		CobraFunc: tailCommand,
	})
}

// tail is what the command shows and how far it has come.
type tail struct {
	adminFlags
	realm, tenant, from string
	once, json          bool
	out                 io.Writer
}

func tailCommand(cmd *cobra.Command) {
	var t tail
	t.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&t.realm, "realm", "default", "The thread's realm")
	flags.StringVar(&t.tenant, "tenant", "", "The thread's tenant")
	flags.StringVar(&t.from, "from", "", "The cursor to begin after")
	flags.BoolVar(&t.once, "no-follow", false, "End with the newest record")
	flags.BoolVar(&t.json, "json", false, "Print each record as JSON")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		t.out = cmd.OutOrStdout()
		for first := true; ; first = false {
			err := t.read(args[0])
			var broken *writeError
			switch {
			case errors.As(err, &broken):
				return err // whoever read our output is gone
			case t.once, first && err != nil, err != nil && strings.Contains(err.Error(), "HTTP 404"):
				return err // the thread was never there, or is not any more
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(time.Second):
			}
		}
	}
}

// writeError is that the command's own output does not go on.
type writeError struct{ error }

// maxLine bounds a record's line, in bytes.
const maxLine = 1 << 20

// read prints records until the endpoint ends the answer.
func (t *tail) read(thread string) error {
	q := url.Values{}
	if t.tenant != "" {
		q.Set("tenant", t.tenant)
	}
	if t.from != "" {
		q.Set("from", t.from)
	}
	if !t.once {
		q.Set("follow", "1")
	}
	body, err := t.ask(http.MethodGet, "/parlance/realms/"+url.PathEscape(t.realm)+"/threads/"+url.PathEscape(thread)+"/records?"+q.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var v edge.RecordView
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("the admin endpoint's answer: %w", err)
		}
		line := plainJSON(lines.Text())
		if !t.json {
			line = recordLine(&v)
		}
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return &writeError{err}
		}
		t.from = v.Cursor()
	}
	return lines.Err()
}

// recordLine is a record for people. Its words are quoted where a writer chose
// them, so that they cannot steer a terminal.
func recordLine(v *edge.RecordView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %s %-18s", v.Cursor(), time.UnixMilli(v.At).UTC().Format("15:04:05.000"), v.Kind)
	word := func(name, value string) {
		if value == "" {
			return
		}
		if q := fmt.Sprintf("%q", value); q[1:len(q)-1] != value || strings.ContainsRune(value, ' ') {
			value = q
		}
		fmt.Fprintf(&b, " %s=%s", name, value)
	}
	word("run", v.Run)
	word("segment", v.Segment)
	word("message", v.Message)
	word("role", v.Role)
	word("agent", v.Agent)
	word("dialect", v.Dialect)
	word("status", v.Status)
	word("cause", v.Cause)
	word("code", v.Code)
	word("question", v.Question)
	word("interrupt", v.Interrupt)
	word("tool", v.Tool)
	word("call", v.Call)
	if v.By != nil {
		word("by", v.By.ID)
	}
	if v.Size > 0 {
		fmt.Fprintf(&b, " bytes=%d", v.Size)
	}
	return b.String()
}
