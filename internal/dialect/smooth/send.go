package smooth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

var skillName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// turnRequest is a send_message as it was read.
type turnRequest struct {
	session, text string
	stream        bool
	props         props
	images        []attachment
}

// props are what an agent is given with a turn.
type props struct {
	Model   string         `json:"model,omitempty"`
	Skill   string         `json:"skill,omitempty"`
	Images  []imageLink    `json:"images,omitempty"`
	Files   []fileLink     `json:"files,omitempty"`
	User    *user          `json:"user,omitempty"`
	Session jsontext.Value `json:"metadata,omitzero"`
}

type user struct {
	// ID is what the back end vouches for, where it does; then nobody has looked
	// at the address.
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
	Phone string `json:"phone,omitempty"`
	// Verified says that the back end or a one-time code vouches for the person.
	Verified bool `json:"verified,omitzero"`
}

type imageLink struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type fileLink struct {
	Name      string `json:"name"`
	MediaType string `json:"mimeType,omitempty"`
	URL       string `json:"url,omitempty"`
}

// attachment is a file that came inline.
type attachment struct {
	name, media string
	data        []byte
}

// message begins a turn (SMO-085 to SMO-104).
func (c *conn) message(ctx context.Context, o *object, request string) error {
	if c.busy() {
		return errBusy
	}
	r, err := parseTurn(o)
	if err != nil {
		return err
	}
	s, err := c.session(ctx, r.session)
	if err != nil {
		return err
	}
	cfg := c.config()
	switch {
	case cfg == nil || len(cfg.Agents) == 0:
		return &Error{CodeUnavailable, "No agent is available."}
	case r.props.Model != "" && !allows(cfg.Models, r.props.Model):
		return &Error{CodeNoModel, "This model cannot be chosen."}
	case r.props.Skill != "" && !allows(cfg.Skills, r.props.Skill):
		return &Error{CodeNoSkill, "There is no such skill."}
	}
	if request == "" {
		request = "srv-" + uuid.NewString()
	}
	if n := (user{s.VouchedID, s.UserName, first(s.Email, s.UserEmail), s.Phone, s.Vouched || s.Verified}); n != (user{}) {
		r.props.User = &n
	}
	r.props.Session = s.Metadata
	t := &turn{
		conn: c, request: request, thread: s.Thread, session: s.ID, stream: r.stream, done: make(chan struct{}),
	}
	if t.supports, err = c.supports(ctx, s.Thread); err != nil {
		return err
	}
	c.hold(s)
	v, err := c.view(ctx, s.Thread)
	if err != nil {
		return err
	}
	defer v.done()
	return c.begin(ctx, cfg, r, t)
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// begin starts the run and says so, before anything of it is delivered.
func (c *conn) begin(ctx context.Context, cfg *Config, r *turnRequest, t *turn) error {
	id := uuid.Must(uuid.NewV7()).String()
	m := &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(r.text)}}}
	drop := func() {
		for _, a := range m.Attachments {
			_ = c.server.o.Desk.DropFile(context.WithoutCancel(ctx), c.who, a.ID)
		}
	}
	for _, a := range r.images {
		f, err := c.server.o.Desk.PutFile(ctx, c.who, t.thread, chat.Attachment{MediaType: a.media, Name: a.name}, bytes.NewReader(a.data), maxImage)
		if err != nil {
			drop()
			return err
		}
		m.Attachments = append(m.Attachments, f)
	}
	start := dialect.Start{
		Thread: t.thread, Dialect: Name, Message: m, Tools: cfg.tools(),
		Origin: chat.Origin{Standing: true, Finished: true, Session: t.origin(), Request: t.request, Park: cfg.park().Milliseconds(), Site: c.site.Name(), Supports: t.supports},
	}
	var err error
	if start.Origin.Props, err = json.Marshal(r.props); err != nil {
		return err
	}
	started, err := c.server.o.Desk.Start(ctx, c.who, start)
	if errors.Is(err, chat.ErrToolName) {
		start.Tools = nil // the agent raises cards of these names by itself
		started, err = c.server.o.Desk.Start(ctx, c.who, start)
	}
	if err != nil {
		if !fault(err) {
			drop() // a fault may hide a success: then the files are in use
		}
		return err
	}
	t.run = started.Run
	c.mu.Lock()
	c.turn = t
	t.startTimers(cfg)
	c.mu.Unlock()
	c.server.know(t)
	c.out.send(immediate(t.request, 202, "Processing your request...", []byte("{}"), c.server.now()))
	return nil
}

func parseTurn(o *object) (*turnRequest, error) {
	r := &turnRequest{session: o.session(), text: o.required("message", MaxFrame)}
	r.stream, _ = o.boolean("stream", true)
	r.props.Model, r.props.Skill = o.text("model", maxName), o.text("skill", maxText)
	if o.err == nil {
		switch n := utf8.RuneCountInString(r.text); {
		case strings.TrimSpace(r.text) == "":
			o.fail("'message' must not be empty")
		case n > MaxMessage:
			o.fail("'message' has %d characters, the limit is %d", n, MaxMessage)
		case r.props.Skill != "" && !skillName.MatchString(r.props.Skill):
			o.fail("'skill' is not the name of a skill")
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	r.files(o)
	return r, nil
}

// files reads images and files. What is malformed is left out, and the turn runs
// (SMO-094 to SMO-097).
func (r *turnRequest) files(o *object) {
	for _, v := range some(o.members["images"]) {
		e := entry(v)
		address, ok := e.string("url")
		detail, fine := e.string("detail")
		switch {
		case !ok || !fine || detail != "" && detail != "low" && detail != "high" && detail != "auto":
		case isWeb(address):
			r.props.Images = append(r.props.Images, imageLink{address, detail})
		default:
			if media, data, ok := inline(address); ok && strings.HasPrefix(media, "image/") {
				r.images = append(r.images, attachment{media: media, data: data})
			}
		}
	}
	for _, v := range some(o.members["files"]) {
		e := entry(v)
		name, ok := e.string("name")
		media, fine := e.string("mimeType")
		address, there := e.string("url")
		n := utf8.RuneCountInString(name)
		switch {
		case !ok || !fine || !there || n < 1 || n > 255 || len(media) > maxName:
		case isWeb(address):
			r.props.Files = append(r.props.Files, fileLink{name, media, address})
		default:
			if kind, data, ok := inline(address); ok {
				r.images = append(r.images, attachment{name: name, media: first(media, kind), data: data})
				r.props.Files = append(r.props.Files, fileLink{Name: name, MediaType: first(media, kind)})
			}
		}
	}
}

// some are the first elements of a value that should be a list.
func some(v jsontext.Value) []jsontext.Value {
	if len(v) == 0 || v.Kind() != '[' {
		return nil
	}
	list := elements(v)
	return list[:min(len(list), maxFiles)]
}

// entry reads an element that should be an object.
func entry(v jsontext.Value) *object {
	if v.Kind() != '{' {
		return &object{}
	}
	return members(v)
}

// string is a member that is a string or, like an empty one, missing; ok is
// false for any other.
func (o *object) string(name string) (string, bool) {
	if !o.has(name) {
		return "", name != "url" && name != "name"
	}
	return unquote(o.members[name])
}

func isWeb(address string) bool {
	return strings.HasPrefix(address, "https://") && len(address) > len("https://") && len(address) <= maxURL
}

// inline reads a data URL in base64.
func inline(address string) (media string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(address, "data:")
	head, body, comma := strings.Cut(rest, ",")
	media, coded := strings.CutSuffix(head, ";base64")
	if !ok || !comma || !coded || len(body) > maxImage/3*4+8 || len(media) > maxName {
		return "", nil, false
	}
	data, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(data) == 0 {
		return "", nil, false
	}
	media, _, _ = strings.Cut(media, ";")
	if media == "" {
		media = "application/octet-stream"
	}
	return media, data, true
}

// cancel stops the connection's turn, whatever its id, and returns when its
// terminal frame was queued. Without one it does nothing (SMO-160 to SMO-168).
func (c *conn) cancel(ctx context.Context, _ *object, request string) error {
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	err := c.server.o.Desk.CancelRun(ctx, c.who, t.thread, t.run)
	switch {
	case err == nil, errors.Is(err, chat.ErrRunEnded), errors.Is(err, chat.ErrUnknownRun):
	default:
		c.server.report("cancel", err)
		if request == t.request {
			request = "" // the turn goes on, so it must not look ended
		}
		c.refuse("cancel", request, err)
		return nil
	}
	select {
	case <-t.done:
	case <-c.gone:
	case <-ctx.Done():
	}
	return nil
}
