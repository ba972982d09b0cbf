package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

var errUnknownNamespace = &ConnectError{Message: "Invalid namespace"}

// connect handles a CONNECT packet. The decision may take long; with may it is
// left to another goroutine, so that the reader notices the client's leaving.
func (c *conn) connect(p *packet, may bool) (handed bool, err error) {
	c.mu.Lock()
	twice := c.find(p.namespace) != nil
	c.mu.Unlock()
	switch {
	case twice:
		return false, errConnectTwice
	case !slices.Contains(c.srv.o.Namespaces, p.namespace):
		// The client may try another: the connection lives until its deadline.
		c.refuse(p.namespace, errUnknownNamespace)
		return false, nil
	case may:
		job := *p
		return c.srv.eio.Go(func() {
			if err := c.decide(&job); err != nil {
				c.violation(err)
			}
			c.finish()
		}), nil
	}
	return false, c.decide(p)
}

// decide asks the handler and tells the client.
func (c *conn) decide(p *packet) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.o.ConnectTimeout)
	defer cancel()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.cancel = cancel
	c.mu.Unlock()

	s := &Socket{id: engineio.NewID(), namespace: p.namespace, conn: c}
	var auth json.RawMessage
	if len(p.payload) > 0 {
		auth = json.RawMessage(p.payload)
	}
	var refused error
	err := c.guard(func() { refused = c.srv.h.Connect(ctx, s, auth) })

	c.mu.Lock()
	c.cancel = nil
	if err != nil || refused != nil || c.closed {
		gone := c.closed
		if !gone {
			c.leftBehind(p.namespace)
		}
		c.mu.Unlock()
		if refused != nil && !gone {
			c.refuse(p.namespace, refused)
		}
		return err
	}
	c.sockets = append(c.sockets, s)
	s.live.Store(true)
	c.inside() // before the client can know
	f := plain(typeConnect, s.namespace, []byte(`{"sid":"`+s.id+`"}`))
	_ = c.eio.Send(&f.packet)
	c.mu.Unlock()
	return c.guard(func() { c.srv.h.Connected(s) })
}

// refuse sends a CONNECT_ERROR. What the client may not know is only logged.
func (c *conn) refuse(namespace string, err error) {
	var shown *ConnectError
	if !errors.As(err, &shown) {
		c.srv.o.Logger.Error("connect failed", "namespace", namespace, "error", err)
		shown = &ConnectError{Message: "internal error"}
	}
	b := appendString([]byte(`{"message":`), shown.Message)
	if len(shown.Data) > 0 {
		b = append(append(b, `,"data":`...), shown.Data...)
	}
	f := plain(typeConnectError, namespace, append(b, '}'))
	_ = c.eio.Send(&f.packet)
}
