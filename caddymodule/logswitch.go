package caddymodule

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// logSwitch is a log handler whose end can be changed: a hub outlives the
// configuration that it was opened by, and that configuration's log files.
type logSwitch struct {
	current *atomic.Pointer[slog.Handler]
	// with is what was put on top of the end: attributes and groups, in order.
	with []func(slog.Handler) slog.Handler
}

// agentLog is where agents log to: a run keeps the agent that it began with,
// whatever configuration there is by then.
var agentLog = newLogSwitch(slog.DiscardHandler)

func newLogSwitch(h slog.Handler) *logSwitch {
	s := &logSwitch{current: new(atomic.Pointer[slog.Handler])}
	s.to(h)
	return s
}

// to changes the end of s and of all that was derived from it.
func (s *logSwitch) to(h slog.Handler) { s.current.Store(&h) }

func (s *logSwitch) Enabled(ctx context.Context, level slog.Level) bool {
	return (*s.current.Load()).Enabled(ctx, level)
}

func (s *logSwitch) Handle(ctx context.Context, r slog.Record) error {
	h := *s.current.Load()
	for _, f := range s.with {
		h = f(h)
	}
	return h.Handle(ctx, r)
}

func (s *logSwitch) WithAttrs(attrs []slog.Attr) slog.Handler {
	return s.derive(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (s *logSwitch) WithGroup(name string) slog.Handler {
	return s.derive(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (s *logSwitch) derive(f func(slog.Handler) slog.Handler) slog.Handler {
	return &logSwitch{current: s.current, with: append(s.with[:len(s.with):len(s.with)], f)}
}

// Interface guard
var _ slog.Handler = (*logSwitch)(nil)
