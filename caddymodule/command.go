package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// adminFlags say which Caddy an operator's command asks.
type adminFlags struct{ address, config, adapter string }

func (f *adminFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "address", "", "The address of the admin endpoint to ask")
	flags.StringVarP(&f.config, "config", "c", "", "A configuration file that says the admin endpoint's address")
	flags.StringVarP(&f.adapter, "adapter", "a", "", "The adapter of that file, if it is not JSON")
}

// ask sends a request to the admin endpoint; the caller closes the body.
func (f *adminFlags) ask(method, uri string) (io.ReadCloser, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(f.address, nil, f.config, f.adapter)
	if err != nil {
		return nil, err
	}
	// Caddy sends an Origin, as a browser would, so that the header must say that
	// it is none.
	resp, err := caddycmd.AdminAPIRequest(address, method, uri, http.Header{actHeader: {"act"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("the Caddy at %s: %w (is it running, with Parlance in its configuration? --address names another)", address, err)
	}
	return resp.Body, nil
}

// maxAnswer bounds what a command reads of one answer, in bytes.
const maxAnswer = 64 << 20

func askFor[T any](f *adminFlags, method, uri string) ([]T, error) {
	body, err := f.ask(method, uri)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var list []T
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&list); err != nil {
		return nil, fmt.Errorf("the admin endpoint's answer: %w", err)
	}
	return list, nil
}

// cells makes a row of a table.
func cells(values ...any) string {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = field(fmt.Sprint(v))
	}
	return strings.Join(row, "\t")
}

// show prints a list as a table, of rows made by cells, or each of it as a line
// of JSON.
func show[T any](w io.Writer, asJSON bool, head string, list []T, row func(T) string) error {
	if asJSON {
		for _, v := range list {
			b, err := json.Marshal(v)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, plainJSON(string(b))); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, head)
	for _, v := range list {
		fmt.Fprintln(table, row(v))
	}
	return table.Flush()
}

// ago says how long ago a time was, to the second; "-" for none.
func ago(at int64, now time.Time) string {
	if at == 0 {
		return "-"
	}
	return max(0, now.Sub(time.UnixMilli(at)).Truncate(time.Second)).String()
}

// dash stands for what is not there, so that a column can be cut out.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-threads",
		Usage: "[--json] [--address <admin>]",
		Short: "Lists the threads that are open on an edge",
		Long: `
Lists the threads that somebody watches, or that have a run, on the edge whose
admin endpoint is asked: another edge may have the same thread open, or others.
No text and no title is shown.
`,
		CobraFunc: threadsCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-runs",
		Usage: "[--stuck] [--json] [--address <admin>]",
		Short: "Lists the live runs of an edge",
		Long: `
Lists the live runs of the threads that are open on the edge whose admin
endpoint is asked; all that it owns are among them. With --stuck only those that
somebody should look at: an agent that has said nothing for a minute, a run that
was stopped and has not ended, a question past its time. With --stuck the exit
code is 1 if there is one.

Stop a run with
  curl -X POST http://localhost:2019/parlance/runs/<run>/cancel
`,
		CobraFunc: runsCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-drain",
		Usage: "<edge> [--wait] [--address <admin>]",
		Short: "Lets an edge take no more sockets and runs",
		Long: `
Tells an edge to take no more sockets and runs: its sockets come back on the
other edges, its runs end or are handed over. Nothing takes that back but a
restart. The edge is named, so that a wrong address drains nobody; its admin
endpoint must be the one that is asked. With --wait the command returns when all
was let go, and says meanwhile what is left.
`,
		CobraFunc: drainCommand,
	})
}

func threadsCommand(cmd *cobra.Command) {
	var f adminFlags
	var asJSON bool
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print a line of JSON for each journal")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		list, err := askFor[hubThreads](&f, http.MethodGet, "/parlance/threads")
		if err != nil {
			return err
		}
		now := time.Now()
		if asJSON {
			return show(cmd.OutOrStdout(), true, "", list, nil)
		}
		var rows []string
		for _, h := range list {
			for _, t := range h.Threads {
				rows = append(rows, cells(t.Realm, dash(t.Tenant), t.Thread, t.Members, t.Runs, fmt.Sprintf("%d.%d", t.Epoch, t.Pos), ago(t.At, now)))
			}
		}
		return show(cmd.OutOrStdout(), false, "REALM\tTENANT\tTHREAD\tMEMBERS\tRUNS\tCURSOR\tQUIET", rows, func(s string) string { return s })
	}
}

func runsCommand(cmd *cobra.Command) {
	var f adminFlags
	var asJSON, stuck bool
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print a line of JSON for each journal")
	cmd.Flags().BoolVar(&stuck, "stuck", false, "Only those that somebody should look at")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		uri := "/parlance/runs"
		if stuck {
			uri += "?stuck=1"
		}
		list, err := askFor[hubRuns](&f, http.MethodGet, uri)
		if err != nil {
			return err
		}
		now := time.Now()
		var rows []string
		for _, h := range list {
			for _, r := range h.Runs {
				rows = append(rows, cells(r.Realm, dash(r.Tenant), r.Thread, r.Run, r.Status, r.Agent, dash(r.Dialect), ago(r.Since, now), ago(r.At, now), dash(r.Stuck)))
			}
		}
		if asJSON {
			err = show(cmd.OutOrStdout(), true, "", list, nil)
		} else {
			err = show(cmd.OutOrStdout(), false, "REALM\tTENANT\tTHREAD\tRUN\tSTATUS\tAGENT\tDIALECT\tAGE\tQUIET\tSTUCK", rows, func(s string) string { return s })
		}
		if err == nil && stuck && len(rows) > 0 {
			return fmt.Errorf("%d runs are stuck", len(rows))
		}
		return err
	}
}

func drainCommand(cmd *cobra.Command) {
	var f adminFlags
	var wait bool
	f.register(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "Return when all was let go")
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		for last := ""; ; {
			// Asked again, it says how far it has come.
			list, err := askFor[hubDrain](&f, http.MethodPost, "/parlance/edges/"+url.PathEscape(args[0])+"/drain")
			if err != nil {
				return err
			}
			done, line := true, ""
			for _, d := range list {
				done = done && d.Done
				line += fmt.Sprintf("edge %s: %d sockets and %d runs are left\n", field(d.Edge), d.Sockets, d.Runs)
			}
			if line != last {
				fmt.Fprint(cmd.OutOrStdout(), line)
				last = line
			}
			if done || !wait {
				return nil
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(time.Second):
			}
		}
	}
}
