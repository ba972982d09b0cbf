package conductor

import "context"

// Note is what comes to be known of a command while it is carried out, for the
// log. It belongs to the goroutine that carries the command out.
type Note struct {
	Thread, Run string
}

type noteKey struct{}

// WithNote has what is done in the context noted.
func WithNote(ctx context.Context, n *Note) context.Context {
	return context.WithValue(ctx, noteKey{}, n)
}

// noted writes down which thread, and which run if one is known, the context's
// command is about.
func noted(ctx context.Context, thread, run string) {
	n, ok := ctx.Value(noteKey{}).(*Note)
	if !ok {
		return
	}
	n.Thread = thread
	if run != "" {
		n.Run = run
	}
}
