package caddymodule

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// readAgent reads:
//
//	agent <name> agui <url> {
//		header          <field> <value>
//		timeout         connect|first_byte|idle <duration>
//		history         all|none|<n>
//		thread          per_branch|same
//		todos           <pointer>|off
//		todos           activity <type>|off
//		tools           <name...>
//		confirm_tools   <pattern...>
//		cancel_hook     <url>
//		forward         <json>
//		max_event       <size>
//		max_body        <size>
//		max_attachments <size>
//		retry
//		legacy
//	}
//	agent <name> echo {
//		delay  <duration>|none
//		thread per_branch|same
//	}
//	agent <name> socket {
//		idle   <duration>|none
//		thread per_branch|same
//		wake   <url> {
//			secret  <secret>
//			timeout <duration>
//		}
//	}
func (h *Handler) readAgent(d *caddyfile.Dispenser) error {
	a := new(Agent)
	for _, v := range []*string{&a.Name, &a.Kind} {
		if !d.NextArg() || d.Val() == "" {
			return d.ArgErr()
		}
		*v = d.Val()
	}
	h.Agents = append(h.Agents, a)
	switch a.Kind {
	case kindAGUI:
		return a.readAGUI(d)
	case kindEcho:
		if d.NextArg() {
			return d.ArgErr()
		}
		return readBlock(d, "an echo agent", map[string]option{
			"delay":  duration(d, &a.Delay, true),
			"thread": text(d, &a.Thread),
		}, nil)
	case kindSocket:
		if d.NextArg() {
			return d.ArgErr()
		}
		return a.readSocket(d)
	case "openai":
		return d.Err(noKind(a.Kind))
	}
	return d.Errf("unknown kind of agent %q: this version has agui, socket and echo", a.Kind)
}

func (a *Agent) readAGUI(d *caddyfile.Dispenser) error {
	if !d.NextArg() || d.Val() == "" {
		return d.ArgErr()
	}
	a.URL = d.Val()
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "an agui agent", map[string]option{
		"header":          many(func() error { return a.readHeader(d) }),
		"timeout":         many(func() error { return a.readTimeout(d) }),
		"history":         text(d, &a.History),
		"thread":          text(d, &a.Thread),
		"todos":           many(func() error { return a.readTodos(d) }),
		"cancel_hook":     text(d, &a.CancelHook),
		"forward":         once(func() error { return a.readForward(d) }),
		"max_event":       size(d, &a.MaxEvent),
		"max_body":        size(d, &a.MaxBody),
		"max_attachments": size(d, &a.MaxAttachments),
		"tools":           once(func() error { return a.readTools(d) }),
		"confirm_tools":   texts(d, &a.ConfirmTools),
		"retry":           flag(&a.Retry),
		"legacy":          flag(&a.Legacy),
	}, nil)
}

// readHeader does not repeat a value in an error: it may be a secret.
func (a *Agent) readHeader(d *caddyfile.Dispenser) error {
	var name, value string
	if !d.Args(&name, &value) {
		return d.Err("header needs a name and a value")
	}
	if d.NextArg() {
		return d.Err("header has one value: put it in quotes")
	}
	if !validHeader(name) {
		return d.Err("header: what stands first is no name of a header")
	}
	if a.Headers == nil {
		a.Headers = make(map[string][]string)
	}
	a.Headers[name] = append(a.Headers[name], value)
	return nil
}

func (a *Agent) readTools(d *caddyfile.Dispenser) error {
	if a.Tools = d.RemainingArgs(); len(a.Tools) == 0 {
		return d.Err("tools needs the name of one or more tools")
	}
	return nil
}

func (a *Agent) readTimeout(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if a.Timeouts == nil {
		a.Timeouts = new(Timeouts)
	}
	v := &a.Timeouts.Connect
	switch kind := d.Val(); kind {
	case "connect":
	case "first_byte":
		v = &a.Timeouts.FirstByte
	case "idle":
		v = &a.Timeouts.Idle
	default:
		return d.Errf("unknown timeout %q: there are connect, first_byte and idle", kind)
	}
	if *v != 0 {
		return d.Errf("timeout %s is there twice", d.Val())
	}
	return duration(d, v, false).read()
}

func (a *Agent) readTodos(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	v := &a.TodosPointer
	if d.Val() == "activity" {
		v = &a.TodosActivity
		if !d.NextArg() {
			return d.ArgErr()
		}
	}
	if *v != "" {
		return d.Err("todos is there twice")
	}
	if *v = d.Val(); *v == "off" {
		*v = "-"
	}
	return nil
}

func (a *Agent) readForward(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if !json.Valid([]byte(d.Val())) {
		return d.Err("forward: not a JSON object; put it in backquotes")
	}
	a.Forward = json.RawMessage(d.Val())
	return nil
}
