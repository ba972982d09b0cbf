package smooth

import (
	"context"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// action is one of the protocol's nine (SMO-003).
type action struct {
	do     func(*conn, context.Context, *object, string) error
	fields []string
}

var actions = map[string]action{
	"create_conversation_session": {(*conn).create, []string{
		"agentId", "userName", "userEmail", "browserFingerprint", "supports", "metadata", "authContext", "conversationId",
	}},
	"get_session":               {(*conn).get, []string{"sessionId"}},
	"get_conversation_messages": {(*conn).messages, []string{"sessionId", "limit", "cursor"}},
	"send_message":              {(*conn).message, []string{"sessionId", "message", "stream", "model", "skill", "images", "files"}},
	"confirm_tool_action":       {(*conn).confirm, []string{"sessionId", "approved"}},
	"submit_interaction":        {(*conn).submit, []string{"sessionId", "interactionId", "kind", "values", "declined"}},
	"verify_otp":                {(*conn).verify, []string{"sessionId", "code"}},
	"cancel":                    {(*conn).cancel, []string{"sessionId"}},
	"ping":                      {(*conn).ping, nil},
}

// frame carries out a text frame (SMO-009 to SMO-014).
func (c *conn) frame(b []byte) {
	if !c.check() {
		return
	}
	soon := c.limited()
	refuse := func(request string, err *Error) {
		if soon {
			c.conn.Limited()
			err = &Error{CodeRate, "Too many frames; slow down."}
		} else {
			c.conn.Refuse(string(err.Code))
		}
		c.refuse("frame", request, err)
	}
	if !utf8.Valid(b) {
		refuse("", invalid("Invalid JSON frame"))
		return
	}
	o := read(b)
	if o == nil {
		refuse("", invalid("Invalid JSON frame"))
		return
	}
	request, ok := o.requestID()
	if !ok {
		refuse("", invalid("'requestId' must be a string of at most %d characters", MaxRequestID))
		return
	}
	name, isText := "", false
	if o.has("action") {
		name, isText = unquote(o.members["action"])
	}
	a, known := actions[name]
	cfg := c.config()
	if !known && cfg != nil && cfg.Extras {
		a, known = extras[name]
	}
	switch {
	case soon:
		refuse(request, nil)
		return
	case !o.has("action") || isText && name == "":
		refuse(request, invalid("Missing 'action'"))
		return
	case !isText:
		refuse(request, invalid("'action' must be a string"))
		return
	case !known:
		refuse(request, &Error{CodeUnsupported, "There is no such action."})
		return
	}
	if cfg != nil && cfg.Strict {
		if o.only(a.fields...); o.err != nil {
			c.refuse(name, request, o.err)
			return
		}
	}
	ctx, noted := c.conn.Begin(c.server.ctx, name)
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	err := safely(func() error { return a.do(c, ctx, o, request) })
	noted.Done(codeOf(err))
	if err != nil {
		c.refuse(name, request, err)
	}
}

// safely keeps a panic within the frame that led to it: other connections of the
// process go on.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("smooth: a panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// limited says that a frame comes too soon after others.
func (c *conn) limited() bool {
	if c.pace == nil {
		r := c.site.Rules()
		if r.CommandsPerSecond == 0 {
			r.CommandsPerSecond = defaultRate
		}
		if r.CommandBurst == 0 {
			r.CommandBurst = max(defaultBurst, int(r.CommandsPerSecond))
		}
		c.pace = rate.NewLimiter(rate.Limit(r.CommandsPerSecond), r.CommandBurst)
	}
	if c.pace.AllowN(c.server.o.Now(), 1) {
		return false
	}
	c.server.o.Counts.OverCommands.Add(1)
	return true
}

// ping is answered at once, also while a turn runs (SMO-030 to SMO-033).
func (c *conn) ping(_ context.Context, _ *object, request string) error {
	c.out.send(pong(request, c.server.now()))
	return nil
}
