package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-doctor",
		Usage: "[<config>] [--adapter <name>]",
		Short: "Looks for what is wrong with a configuration and with what it needs",
		Long: `
Loads a configuration, as caddy validate does, and then asks what it names: the
journal's folder or Redis, the agents, the key sets, Caddy's storage, the clock.
It says of each whether it is well, and of what is not how to mend it. It starts
no run and changes nothing but a file of its own, which it deletes; it may run
beside the server.

Without an argument it takes the Caddyfile of this folder. The exit code is 1 if
something is wrong; what is only unwise (warn) leaves it at 0.
`,
		CobraFunc: doctorCommand,
	})
}

// doctorPatience bounds each of the doctor's questions.
const doctorPatience = 8 * time.Second

func doctorCommand(cmd *cobra.Command) {
	var adapter string
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "The adapter of the file, if it is not JSON")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		file := ""
		if len(args) > 0 {
			file = args[0]
		}
		out := cmd.OutOrStdout()
		d := &doctor{out: out, color: terminal(out)}
		d.visit(cmd.Context(), file, adapter)
		if d.wrong > 0 {
			return fmt.Errorf("%d wrong, %d unwise", d.wrong, d.unwise)
		}
		fmt.Fprintf(out, "nothing is wrong, %d unwise\n", d.unwise)
		return nil
	}
}

// terminal says whether colours are wanted.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	s, err := f.Stat()
	return err == nil && s.Mode()&os.ModeCharDevice != 0
}

// doctor tells what it finds, as it finds it.
type doctor struct {
	out           io.Writer
	color         bool
	wrong, unwise int
}

func (d *doctor) tell(word, color, subject, text, mend string) {
	if d.color {
		word = color + word + "\x1b[0m"
	}
	fmt.Fprintf(d.out, "%s  %s: %s\n", word, subject, text)
	if mend != "" {
		fmt.Fprintf(d.out, "      %s\n", mend)
	}
}

// well, warn and fail say what was found of a subject; a mend is a whole sentence.
func (d *doctor) well(subject, text string) { d.tell("ok  ", "\x1b[32m", subject, text, "") }

func (d *doctor) warn(subject, text, mend string) {
	d.unwise++
	d.tell("warn", "\x1b[33m", subject, text, mend)
}

func (d *doctor) fail(subject, text, mend string) {
	d.wrong++
	d.tell("FAIL", "\x1b[31m", subject, text, mend)
}

// visit looks at a configuration and at all that it names.
func (d *doctor) visit(ctx context.Context, file, adapter string) {
	const subject = "configuration"
	raw, used, _, err := caddycmd.LoadConfig(file, adapter)
	switch {
	case err != nil:
		d.fail(subject, err.Error(), "Mend what it names; README.md has every option.")
		return
	case used == "":
		d.fail(subject, "there is none", "Name a file, or go to the folder of your Caddyfile.")
		return
	}
	cfg := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(raw, cfg); err != nil {
		d.fail(subject, err.Error(), "Mend what it names; caddy validate says the same.")
		return
	}
	logging := cfg.Logging
	cfg.Logging = silent()
	c, err := caddy.ProvisionContext(cfg)
	if err != nil {
		d.fail(subject, cause(err), "Mend what it names; README.md has every option.")
		return
	}
	module, err := c.App("parlance")
	app, ok := module.(*App)
	if err != nil || !ok || len(app.handlers) == 0 {
		d.fail(subject, "no site has the parlance directive", "Write `parlance URL` or `parlance echo` into a site's block.")
		return
	}
	d.well(subject, fmt.Sprintf("%s is sound, and %d of its handlers are Parlance's", used, len(app.handlers)))
	d.admin(cfg.Admin)
	d.literals(raw)
	d.journal(ctx, app)
	d.storage(ctx, c.Storage())
	servers := map[string]*caddyhttp.Server{}
	if module, err := c.App("http"); err == nil {
		for _, s := range module.(*caddyhttp.App).Servers {
			servers[strings.Join(s.Listen, ",")] = s
		}
	}
	for _, h := range app.handlers {
		d.handler(ctx, h, servers[h.server], logging)
	}
	d.descriptors()
}

// silent lets nothing be logged while the configuration is looked at.
func silent() *caddy.Logging {
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{
		"default": {BaseLog: caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)}},
	}}
}

// cause is what our own modules said, without the way of Caddy's to them.
func cause(err error) string {
	text := err.Error()
	for _, module := range []string{"provision http.handlers.parlance: ", "provision parlance: "} {
		if i := strings.LastIndex(text, module); i >= 0 {
			return text[i+len(module):]
		}
	}
	return text
}
