package socket

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds of a Waker.
const (
	// DefaultWakeTimeout bounds one call.
	DefaultWakeTimeout = 10 * time.Second
	// wakeTries and wakePause: a call that failed is repeated after a pause, which
	// doubles each time.
	wakeTries = 5
	wakePause = time.Second
	// wakeCalls bounds the calls under way, wakeWaiting those that wait for their
	// turn or their next try too. One tenant alone gets half of either.
	wakeCalls   = 64
	wakeWaiting = 2048
	// maxWakeAnswer is how much of an answer is read, in bytes.
	maxWakeAnswer = 16 << 10
)

// ErrWakeFull: too many runs of a tenant, or of all, are being told of; this one
// is not.
var ErrWakeFull = errors.New("too many wake-ups wait for their turn")

// WakeOptions say where an agent is woken. Only what is configured is ever
// called: nothing that a client or an agent says is part of the address.
type WakeOptions struct {
	// URL is called by POST of {"threadId","runId"}.
	URL string
	// Secret signs calls: Parlance-Signature is the hex HMAC-SHA256 of the header
	// Parlance-Timestamp (Unix seconds), a dot and the body.
	Secret []byte
	// Timeout bounds one call; 0 is DefaultWakeTimeout.
	Timeout time.Duration
}

// Waker tells a process by HTTP that a run waits for it, so that it may join the
// thread. Any 2xx is an answer; no redirect is followed, no answer is kept, and
// neither the URL nor the secret is in any error. Safe for concurrent use.
type Waker struct {
	o      WakeOptions
	client *http.Client
	turns  *turns
	pause  time.Duration // before the first repetition
}

// NewWaker makes a Waker; Close ends its idle connections.
func NewWaker(o WakeOptions) *Waker {
	if o.Timeout <= 0 {
		o.Timeout = DefaultWakeTimeout
	}
	return &Waker{
		o: o, turns: newTurns(wakeCalls, wakeWaiting), pause: wakePause,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DialContext:            (&net.Dialer{Timeout: o.Timeout}).DialContext,
				TLSHandshakeTimeout:    o.Timeout,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true,
				MaxIdleConns:           wakeCalls,
				MaxIdleConnsPerHost:    wakeCalls,
				IdleConnTimeout:        4 * time.Second, // below what servers keep: no call may race with a close
				MaxResponseHeaderBytes: 64 << 10,
			},
			// A redirect would sign for whom nobody has configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes idle connections.
func (w *Waker) Close() { w.client.CloseIdleConnections() }

// Wake makes the call, and repeats it up to four times where that may help and
// the run still waits. Tenants take turns: many runs of one hold no other up. It blocks until one is answered or given up; errors are
// ErrWakeFull at once, the context's, or why the last call failed.
func (w *Waker) Wake(ctx context.Context, tenant, thread, run string, waits func(context.Context) bool) error {
	if !w.turns.enter(tenant) {
		return ErrWakeFull
	}
	defer w.turns.leave(tenant)
	body, err := json.Marshal(struct {
		Thread string `json:"threadId"`
		Run    string `json:"runId"`
	}{thread, run})
	if err != nil {
		return err
	}
	pause := w.pause
	for n := 1; ; n++ {
		again, err := w.call(ctx, tenant, body)
		if err == nil || !again || n == wakeTries {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		if pause *= 2; !waits(ctx) {
			return nil
		}
	}
}

// call makes one call, when it is its turn; again says that another may do better.
func (w *Waker) call(ctx context.Context, tenant string, body []byte) (again bool, err error) {
	if err := w.turns.begin(ctx, tenant); err != nil {
		return false, err
	}
	defer w.turns.end(tenant)
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address is no URL")
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, w.o.Secret)
	mac.Write([]byte(at + "."))
	mac.Write(body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Parlance-Timestamp", at)
	r.Header.Set("Parlance-Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := w.client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return true, err
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, maxWakeAnswer) //nolint:errcheck // only the connection profits
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return false, nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500:
		return true, fmt.Errorf("the answer was %d", code)
	default:
		return false, fmt.Errorf("the answer was %d", code)
	}
}
