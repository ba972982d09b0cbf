package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Defaults of an Upstream.
const (
	DefaultConnect   = 10 * time.Second
	DefaultFirstByte = time.Minute
	DefaultIdle      = 2 * time.Minute
	DefaultMaxEvent  = 10 << 20
	DefaultMaxBody   = 256 << 20

	maxHeader  = 64 << 10
	drainBytes = 64 << 10
	drainTime  = 100 * time.Millisecond
	// idleConn is below the five seconds after which the usual servers close a
	// kept connection: a request must not race with that, it is sent once.
	idleConn = 4 * time.Second
)

// Limits bound one call of an agent over HTTP; a zero field is its default.
type Limits struct {
	// Connect is for the connection, FirstByte from the request to the first
	// byte of the answer's body, Idle between bytes: a comment is life enough.
	Connect, FirstByte, Idle time.Duration
	// MaxEvent is for one event, MaxBody for the whole stream, in bytes.
	MaxEvent int
	MaxBody  int64
}

// Upstream is an HTTP endpoint that answers a POST with server-sent events. It
// sends each request once, follows no redirect, asks for no compression, and
// tells neither addresses nor bodies to anybody but its log, which gets no
// header and no body either. Safe for concurrent use; connections are reused.
type Upstream struct {
	url    string
	header http.Header
	limits Limits
	client *http.Client
	log    *slog.Logger
}

// NewUpstream makes an endpoint. The header goes with every request; a nil log
// discards.
func NewUpstream(address string, header http.Header, l Limits, log *slog.Logger) *Upstream {
	orTime(&l.Connect, DefaultConnect)
	orTime(&l.FirstByte, DefaultFirstByte)
	orTime(&l.Idle, DefaultIdle)
	if l.MaxEvent <= 0 {
		l.MaxEvent = DefaultMaxEvent
	}
	if l.MaxBody <= 0 {
		l.MaxBody = DefaultMaxBody
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Upstream{
		url: address, header: header.Clone(), limits: l, log: log,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DialContext:            (&net.Dialer{Timeout: l.Connect}).DialContext,
				TLSHandshakeTimeout:    l.Connect,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true,
				MaxIdleConns:           256,
				MaxIdleConnsPerHost:    64,
				IdleConnTimeout:        idleConn,
				MaxResponseHeaderBytes: maxHeader,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func orTime(d *time.Duration, otherwise time.Duration) {
	if *d <= 0 {
		*d = otherwise
	}
}

// Close closes idle connections.
func (u *Upstream) Close() { u.client.CloseIdleConnections() }

// The ways in which an answer fails to come.
var (
	errFirstByte = errors.New("no answer in time")
	errIdle      = errors.New("the answer stood still")
	errTooLong   = errors.New("the answer's body is longer than it may be")
	errAborted   = errors.New("nobody reads the answer any more")
)

// Stream is an answer being read.
type Stream struct {
	*EventStream
	up     *Upstream
	ctx    context.Context // the caller's
	cancel context.CancelCauseFunc
	why    context.Context
	body   *watched
}

// Open posts a JSON body. Where no stream of events comes back the outcome
// says why; else it is nil and the stream is to be closed.
func (u *Upstream) Open(ctx context.Context, body []byte, traceparent string) (*Stream, *Outcome) {
	s := &Stream{up: u, ctx: ctx}
	s.why, s.cancel = context.WithCancelCause(ctx)
	first := &alarm{timer: time.AfterFunc(u.limits.Connect+u.limits.FirstByte, func() { s.cancel(errFirstByte) })}
	defer first.end()
	trace := &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { first.restart(u.limits.FirstByte) },
		WroteRequest: func(httptrace.WroteRequestInfo) { first.restart(u.limits.FirstByte) },
	}
	fail := func(o Outcome) (*Stream, *Outcome) {
		s.cancel(nil)
		return nil, &o
	}
	req, err := u.request(httptrace.WithClientTrace(s.why, trace), u.url, body, traceparent)
	if err != nil {
		return fail(s.Failed(err))
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := u.client.Do(req)
	if err != nil {
		return fail(s.failed(err, true))
	}
	s.body = &watched{body: resp.Body, wait: u.limits.FirstByte, then: u.limits.Idle, left: u.limits.MaxBody, stop: s.cancel, cause: errFirstByte}
	if o := u.refused(resp); o != nil {
		s.Close()
		return nil, o
	}
	s.EventStream = NewEventStream(s.body, u.limits.MaxEvent)
	return s, nil
}

// alarm is a timer that the transport's own goroutines may restart, but not
// once the answer has come.
type alarm struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func (a *alarm) restart(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.timer.Reset(d)
	}
}

func (a *alarm) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.timer.Stop()
}

func (u *Upstream) request(ctx context.Context, address string, body []byte, traceparent string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range u.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	return req, nil
}

// refused says why a response is no stream of events, or nil.
func (u *Upstream) refused(resp *http.Response) *Outcome {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	coding := resp.Header.Get("Content-Encoding")
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream" && (coding == "" || coding == "identity"):
		return nil
	case resp.StatusCode == http.StatusOK:
		u.log.Warn("the agent's answer is no stream of events", "content_type", cut(valid(kind), maxCode), "content_encoding", cut(valid(coding), maxCode))
		o := Failed(chat.CodeAgentError, "the agent did not answer with a stream of events")
		return &o
	}
	u.log.Warn("the agent refused the request", "status", resp.StatusCode)
	o := Failed(chat.CodeAgentError, "the agent refused the request")
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		o = Failed(chat.CodeAgentUnavailable, "the agent is not available now")
	}
	return &o
}

// Failed makes an outcome of what Next returned, io.EOF included: a stream
// that ends before the agent said that it has.
func (s *Stream) Failed(err error) Outcome { return s.failed(err, false) }

func (s *Stream) failed(err error, before bool) Outcome {
	if s.ctx.Err() != nil {
		return Outcome{Status: chat.RunCancelled}
	}
	cause := context.Cause(s.why)
	var wait net.Error
	o := Failed(chat.CodeAgentTruncated, "the agent's answer broke off")
	switch {
	case errors.Is(cause, errFirstByte), errors.Is(cause, errIdle):
		err = cause
		o = Failed(chat.CodeAgentTimeout, "the agent did not answer in time")
	case errors.Is(err, ErrEventTooLong), errors.Is(err, errTooLong), errors.Is(cause, errTooLong):
		o = Failed(chat.CodeAgentError, "the agent sent more than it may")
	case before && errors.As(err, &wait) && wait.Timeout():
		o = Failed(chat.CodeAgentTimeout, "the agent could not be reached in time")
	case before:
		o = Failed(chat.CodeAgentUnavailable, "the agent could not be reached")
	}
	s.up.log.Warn("the agent's answer failed", "code", o.Code, "error", bare(err))
	return o
}

// bare is an error's text without the address, which may hold a secret.
func bare(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// Abort ends the request at once; Close is still to be called.
func (s *Stream) Abort() { s.cancel(errAborted) }

// Close ends the request. A stream that was read up to the agent's last event
// is read to its end first, for a moment, so that the connection can be reused.
func (s *Stream) Close() {
	if s.ctx.Err() == nil && context.Cause(s.why) == nil {
		s.body.rest(drainTime)
		limit := time.AfterFunc(drainTime, func() { s.cancel(errIdle) })
		io.Copy(io.Discard, io.LimitReader(s.body, drainBytes)) //nolint:errcheck // nothing of it matters
		limit.Stop()
	}
	s.body.end()
	s.body.body.Close()
	s.cancel(nil)
}

// watched is a body whose reads must not take too long. Between reads no time
// counts: it is ours, while the journal is behind. One timer watches all reads,
// since a body may bring a token with each.
type watched struct {
	body io.ReadCloser
	left int64
	any  bool
	stop context.CancelCauseFunc

	mu    sync.Mutex
	wait  time.Duration // for the read that is under way
	then  time.Duration // for those after the first that brought something
	cause error         // of a read that takes longer
	began time.Time     // of the read that is under way; zero between reads
	timer *time.Timer   // nil until the first read
	over  bool
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		w.stop(errTooLong)
		return 0, errTooLong
	}
	if int64(len(p)) > w.left {
		p = p[:w.left]
	}
	w.begin()
	n, err := w.body.Read(p)
	w.done(n > 0)
	w.left -= int64(n)
	return n, err
}

func (w *watched) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
	if w.timer == nil && !w.over {
		w.timer = time.AfterFunc(w.wait, w.look)
	}
}

func (w *watched) done(some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Time{}
	if some && !w.any {
		w.any, w.cause = true, errIdle
		w.limit(w.then)
	}
}

// limit bounds each read from now on; w.mu is held.
func (w *watched) limit(d time.Duration) {
	if w.wait = d; w.timer != nil && !w.over {
		w.timer.Reset(d)
	}
}

// look ends a read that has taken too long, or looks again when it will have.
func (w *watched) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	left := w.wait
	if !w.began.IsZero() {
		left -= time.Since(w.began)
	}
	if left <= 0 {
		w.stop(w.cause)
		return
	}
	w.timer.Reset(left)
}

// rest bounds the reads that are left, those of the body's end.
func (w *watched) rest(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.then = d
	w.limit(d)
}

// end stops the watch.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.timer != nil {
		w.timer.Stop()
	}
}

// Tell posts a JSON body to another address of the agent, with its header, and
// waits for no more than the status. It is for hooks; the error names no address.
func (u *Upstream) Tell(ctx context.Context, address string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, u.limits.Connect)
	defer cancel()
	req, err := u.request(ctx, address, body, "")
	if err != nil {
		return errors.New(bare(err))
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return errors.New(bare(err))
	}
	io.CopyN(io.Discard, resp.Body, drainBytes) //nolint:errcheck // only the connection profits
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}
