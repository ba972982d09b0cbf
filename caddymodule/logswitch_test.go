package caddymodule

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogSwitch(t *testing.T) {
	var before, after bytes.Buffer
	plain := func(b *bytes.Buffer) slog.Handler {
		return slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelInfo})
	}
	s := newLogSwitch(plain(&before))
	root := slog.New(s)
	derived := root.With("realm", "a").WithGroup("g").With("x", 1)
	root.Info("one")
	s.to(plain(&after))
	root.Info("two")
	derived.Info("three", "y", 2)
	derived.Debug("four")
	if got := before.String(); !strings.Contains(got, "msg=one") || strings.Contains(got, "two") {
		t.Errorf("before: %s", got)
	}
	if got := after.String(); !strings.Contains(got, "msg=three realm=a g.x=1 g.y=2") || strings.Contains(got, "four") {
		t.Errorf("after: %s", got)
	}
}
