package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// Bounds of parlance-chat.
const (
	chatTimeout = 15 * time.Second // of a request, and of connecting
	maxChatBody = 4 << 20          // of an answer over HTTP
	maxChatRead = 64 << 20         // of one packet: a history has 32 MiB at most
)

// chatSite is a gateway as its clients see it.
type chatSite struct {
	origin, routes, socketPath string
	token                      string
	client                     *http.Client
}

func (s *chatSite) open() error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	s.client = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

// chatThread is a conversation in a list.
type chatThread struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	CreatedAt time.Time `json:"createdAt"`
}

func (t chatThread) line() string {
	return field(t.ID) + "  " + t.CreatedAt.Local().Format("2006-01-02 15:04") + "  " + field(t.Title)
}

// threads lists the newest conversations.
func (s *chatSite) threads(ctx context.Context) ([]chatThread, error) {
	var page struct {
		Conversations []chatThread `json:"conversations"`
	}
	err := s.ask(ctx, http.MethodGet, "/conversations", nil, &page)
	return page.Conversations, err
}

// create makes a conversation and returns its id.
func (s *chatSite) create(ctx context.Context) (string, error) {
	var made chatThread
	if err := s.ask(ctx, http.MethodPost, "/conversations", []byte(`{}`), &made); err != nil {
		return "", err
	}
	return made.ID, nil
}

func (s *chatSite) ask(ctx context.Context, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, chatTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.origin+s.routes+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("the gateway does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the gateway answers %s %s with %s", method, s.routes+path, plain(resp.Status))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxChatBody)).Decode(into); err != nil {
		return fmt.Errorf("the gateway's answer to %s %s: %w", method, s.routes+path, err)
	}
	return nil
}

// refusedError is that the gateway does not take this client.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return "the gateway refuses the connection: " + e.message }

// chatPacket is what came: an event with its argument, or the answer to a command.
type chatPacket struct {
	event string
	ack   int
	arg   json.RawMessage
}

// chatLine is one Socket.IO connection. One goroutine reads it.
type chatLine struct {
	ws       *websocket.Conn
	patience time.Duration
	packets  chan chatPacket // closed when the connection is over
}

// connect opens a connection in the main namespace; run reads it.
func (s *chatSite) connect(ctx context.Context) (*chatLine, error) {
	ctx, cancel := context.WithTimeout(ctx, chatTimeout)
	defer cancel()
	at := s.origin + s.socketPath + "?" + url.Values{"EIO": {"4"}, "transport": {"websocket"}}.Encode()
	conn, resp, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: s.client})
	if err != nil {
		if resp != nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusNotFound) {
			return nil, &refusedError{plain(resp.Status)}
		}
		return nil, fmt.Errorf("the gateway takes no socket: %w", err)
	}
	conn.SetReadLimit(maxChatRead)
	l := &chatLine{ws: conn, patience: chatTimeout, packets: make(chan chatPacket)}
	if err := l.greet(ctx, s.token); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return l, nil
}

// greet speaks the handshakes of Engine.IO 4 and Socket.IO 5.
func (l *chatLine) greet(ctx context.Context, token string) error {
	_, b, err := l.ws.Read(ctx)
	if err != nil {
		return err
	}
	var hello struct{ PingInterval, PingTimeout int64 }
	if len(b) == 0 || b[0] != '0' || json.Unmarshal(b[1:], &hello) != nil {
		return errors.New("the gateway does not speak Socket.IO")
	}
	connect := []byte("40")
	if token != "" {
		auth, err := json.Marshal(map[string]string{"token": token})
		if err != nil {
			return err
		}
		connect = append(connect, auth...)
	}
	if err := l.ws.Write(ctx, websocket.MessageText, connect); err != nil {
		return err
	}
	b, err = l.next(ctx)
	switch {
	case err != nil:
		return err
	case b[0] == '4':
		var refusal struct{ Message string }
		_ = json.Unmarshal(b[1:], &refusal)
		return &refusedError{plain(refusal.Message)}
	case b[0] != '0':
		return errors.New("the gateway does not speak Socket.IO")
	}
	if wait := time.Duration(hello.PingInterval+hello.PingTimeout) * time.Millisecond; wait > 0 {
		l.patience = min(wait, time.Hour)
	}
	return nil
}

var errChatClosed = errors.New("the gateway closes the connection")

// next is the next packet of Socket.IO, not empty; heartbeats are answered. A
// connection that is silent for longer than they allow is over.
func (l *chatLine) next(ctx context.Context) ([]byte, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, l.patience)
		_, b, err := l.ws.Read(wait)
		cancel()
		switch {
		case err != nil:
			return nil, err
		case len(b) > 0 && b[0] == '2':
			if err := l.write(ctx, "3"); err != nil {
				return nil, err
			}
		case len(b) > 0 && b[0] == '1':
			return nil, errChatClosed
		case len(b) > 1 && b[0] == '4':
			return b[1:], nil
		}
	}
}

func (l *chatLine) write(ctx context.Context, s string) error {
	ctx, cancel := context.WithTimeout(ctx, chatTimeout)
	defer cancel()
	return l.ws.Write(ctx, websocket.MessageText, []byte(s))
}

// read gives packets on until the connection or ctx is over.
func (l *chatLine) read(ctx context.Context) {
	defer close(l.packets)
	defer l.ws.CloseNow() //nolint:errcheck // it is over
	for {
		b, err := l.next(ctx)
		if err != nil || b[0] == '1' || b[0] == '4' {
			return
		}
		if p, ok := parsePacket(b); ok {
			select {
			case l.packets <- p:
			case <-ctx.Done():
				return
			}
		}
	}
}

// parsePacket reads an event or an answer; anything else is not for us.
func parsePacket(b []byte) (p chatPacket, ok bool) {
	kind, b := b[0], b[1:]
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	var list []json.RawMessage
	if json.Unmarshal(b[n:], &list) != nil || len(list) == 0 {
		return p, false
	}
	switch kind {
	case '2':
		if json.Unmarshal(list[0], &p.event) != nil || len(list) < 2 {
			return p, false
		}
		p.arg = list[1]
	case '3':
		var err error
		if p.ack, err = strconv.Atoi(string(b[:n])); err != nil {
			return p, false
		}
		p.arg = list[0]
	default:
		return p, false
	}
	return p, true
}

// send sends a command; its answer comes with the number.
func (l *chatLine) send(ctx context.Context, n int, name string, arg any) error {
	b, err := json.Marshal([]any{name, arg})
	if err != nil {
		return err
	}
	return l.write(ctx, "42"+strconv.Itoa(n)+string(b))
}
