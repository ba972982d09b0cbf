package smooth

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// Webhook is a Codes behind two addresses of a back end. Each call is a POST of
// JSON that is signed: Parlance-Signature is the hex HMAC-SHA256, by Secret, of
// the header Parlance-Timestamp (Unix seconds), a dot and the body. A call that
// failed on the way, or got 429 or 5xx, is repeated under the same
// Idempotency-Key: the challenge's id for a send, one of its own for each code.
type Webhook struct {
	SendURL, VerifyURL string
	Secret             []byte
	// Timeout bounds a call with its repetitions (default 5 s).
	Timeout time.Duration
	// Transport is what calls are made by (default http.DefaultTransport).
	Transport http.RoundTripper
}

const (
	webhookTimeout = 5 * time.Second
	webhookTries   = 3
	webhookPause   = 200 * time.Millisecond
	// maxVerdict bounds a back end's answer, in bytes.
	maxVerdict = 4 << 10
)

// webhookCall is what a back end is sent.
type webhookCall struct {
	Challenge   string `json:"challengeId"`
	Session     string `json:"sessionId"`
	Channel     string `json:"channel"`
	Destination string `json:"destination"`
	Tool        string `json:"toolId"`
	Code        string `json:"code,omitempty"`
}

// Send asks the back end to send a code; any 2xx says that it is on its way.
func (w *Webhook) Send(ctx context.Context, c Challenge) error {
	_, err := w.post(ctx, w.SendURL, c.ID, webhookCall{c.ID, c.Session, c.Channel, c.Destination, c.Tool, ""})
	return err
}

// Verify asks the back end for a verdict: {"verified": true}, or {"verified":
// false, "error": "INVALID_CODE", "attemptsRemaining": 2}.
func (w *Webhook) Verify(ctx context.Context, c Challenge, code string) (Verdict, error) {
	b, err := w.post(ctx, w.VerifyURL, uuid.NewString(), webhookCall{c.ID, c.Session, c.Channel, c.Destination, c.Tool, code})
	if err != nil {
		return Verdict{}, err
	}
	var v struct {
		Verified  bool   `json:"verified"`
		Error     string `json:"error"`
		Remaining int    `json:"attemptsRemaining"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return Verdict{}, errors.New("smooth: the verifier of codes answered with no verdict")
	}
	return Verdict{v.Verified, v.Error, v.Remaining}, nil
}

// post makes a call, and repeats it where that may help. No error shows the body
// or the address.
func (w *Webhook) post(ctx context.Context, address, key string, call webhookCall) ([]byte, error) {
	body, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	timeout := w.Timeout
	if timeout <= 0 {
		timeout = webhookTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for n := 1; ; n++ {
		answer, again, err := w.try(ctx, address, key, body)
		if err == nil || !again || n == webhookTries {
			return answer, err
		}
		select {
		case <-time.After(webhookPause << (n - 1)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (w *Webhook) try(ctx context.Context, address, key string, body []byte) (answer []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, false, errors.New("smooth: the address of the service for codes is no URL")
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Parlance-Timestamp", at)
	r.Header.Set("Parlance-Signature", hex.EncodeToString(sign(w.Secret, at+"."+string(body))))
	// A redirect would send a code to where nobody said that it may go.
	client := http.Client{Transport: w.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, true, fmt.Errorf("smooth: calling the service for codes: %w", err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxVerdict))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return nil, true, fmt.Errorf("smooth: the service for codes answered %d", resp.StatusCode)
	case resp.StatusCode < 200, resp.StatusCode > 299:
		return nil, false, fmt.Errorf("smooth: the service for codes answered %d", resp.StatusCode)
	case err != nil:
		return nil, true, errors.New("smooth: the service for codes broke off its answer")
	}
	return answer, false, nil
}
