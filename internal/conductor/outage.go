package conductor

import "log/slog"

// outage says once that something fails and once that it is well again, however
// often it is tried meanwhile. It is for one goroutine.
type outage struct {
	what     string
	failures int
}

// note takes the outcome of a try; args are for the log.
func (o *outage) note(l *slog.Logger, err error, args ...any) {
	switch {
	case err != nil:
		if o.failures++; o.failures == 1 {
			l.Warn(o.what, append(args, "error", err)...)
		}
	case o.failures > 0:
		l.Info("well again: "+o.what, append(args, "failures", o.failures)...)
		o.failures = 0
	}
}
