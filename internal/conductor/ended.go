package conductor

import (
	"context"
	"log/slog"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// logEnds says in one line each that runs have ended, on the edge that ended
// them. Of what was said it tells the size alone.
func (c *Conductor) logEnds(key chat.Key, st *chat.State, entries []chat.Entry) {
	for _, e := range entries {
		b, ok := e.Body.(*chat.RunEndBody)
		if !ok {
			continue
		}
		r := runOf(e.Run, st, entries)
		if r == nil {
			continue
		}
		reason, level := string(b.Cause), slog.LevelInfo
		if reason == "" {
			reason = known(b.Code)
		}
		if b.Status == chat.RunError {
			level = slog.LevelWarn
		}
		var took time.Duration
		if r.Started != 0 {
			took = time.Duration(max(0, c.o.Now()-r.Started)) * time.Millisecond
		}
		bytes := 0
		for _, p := range r.Parts {
			bytes += len(p.Text)
		}
		by := identity.Principal{Realm: key.Realm, Tenant: key.Tenant, Subject: identity.Subject(r.Origin.By)}
		c.o.Logger.LogAttrs(context.Background(), level, "run ended",
			slog.String("realm", key.Realm), slog.String("thread", key.Thread), slog.String("run", r.ID),
			slog.String("principal", by.Hash()), slog.String("dialect", r.Origin.Dialect), slog.String("edge", c.o.Name),
			slog.String("trace_id", TraceID(r.Trace)), slog.String("agent", r.Agent),
			slog.String("outcome", string(b.Status)), slog.String("reason", reason),
			slog.Int("segments", len(r.Segments)), slog.Int("questions", len(r.Interrupts)),
			slog.Int("parts", len(r.Parts)), slog.Int("text_bytes", bytes), slog.Duration("duration", took))
	}
}

// TraceID is that of a W3C traceparent, or "".
func TraceID(traceparent string) string {
	if len(traceparent) != 55 {
		return ""
	}
	return traceparent[3:35]
}

// runOf finds a run in a state, or among the entries of a commit that begins and
// ends it at once.
func runOf(id string, st *chat.State, entries []chat.Entry) *chat.Run {
	if r := st.Run(id); r != nil {
		return r
	}
	for _, e := range entries {
		if b, ok := e.Body.(*chat.RunPendingBody); ok && e.Run == id {
			return b.Run
		}
	}
	return nil
}
