package edge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// The kinds of values that an edge keeps on the shelf.
const (
	shelfThread = "thread"
	shelfFile   = "file"
)

// listTries bounds how often a thread is put into a list that others change.
const listTries = 4

// desk is what a hub does for its dialects.
type desk struct{ h *Hub }

var _ dialect.Desk = desk{}

// listed is a thread as its owner's list keeps it.
type listed struct {
	Title   string `json:"title,omitempty"`
	Created int64  `json:"created"`
}

func (d desk) Create(ctx context.Context, p identity.Principal, t dialect.NewThread) (dialect.Thread, error) {
	if t.ID == "" {
		t.ID = conductor.NewID()
	}
	info, err := d.h.conductor.Create(ctx, p, t.ID, chat.Info{Title: t.Title, Agent: t.Agent})
	if err != nil {
		return dialect.Thread{}, err
	}
	out := dialect.Thread{ID: t.ID, Title: t.Title, Created: info.Created}
	data, err := json.Marshal(listed{Title: t.Title, Created: out.Created})
	if err != nil {
		return dialect.Thread{}, err
	}
	return out, d.list(ctx, journal.Put{
		Realm: p.Realm, Kind: shelfThread, ID: shelfID(p.Tenant, t.ID), Data: data, Owner: p.Key(),
	})
}

// list puts a new thread into its owner's list, in place of one of that id which
// was deleted and is listed yet.
func (d desk) list(ctx context.Context, put journal.Put) error {
	shelf := d.h.journal.Shelf()
	for range listTries {
		_, ok, err := shelf.Put(ctx, put)
		if err != nil || ok {
			return err
		}
		v, err := shelf.Get(ctx, put.Realm, put.Kind, put.ID)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		put.Version = v.Version
	}
	return conductor.ErrBusy
}

// unlist takes a deleted thread off its owner's list, if that has not a new one
// in its place meanwhile.
func (d desk) unlist(ctx context.Context, realm string, v journal.Value) error {
	_, _, err := d.h.journal.Shelf().Put(ctx, journal.Put{
		Realm: realm, Kind: shelfThread, ID: v.ID, Version: v.Version, TTL: time.Millisecond,
	})
	return err
}

// shelfID is injective in its parts.
func shelfID(tenant, id string) string { return strconv.Quote(tenant) + id }

func (d desk) Get(ctx context.Context, p identity.Principal, thread string) (dialect.Thread, error) {
	st, err := d.h.conductor.Load(ctx, p, identity.Subscribe, conductor.Key(p, thread))
	if err != nil {
		return dialect.Thread{}, err
	}
	return dialect.Thread{ID: thread, Title: st.Info.Title, Created: st.Info.Created, Agent: st.Info.Agent}, nil
}

func (d desk) List(ctx context.Context, p identity.Principal, after string, limit int) ([]dialect.Thread, bool, error) {
	prefix := shelfID(p.Tenant, "")
	if after != "" {
		after = prefix + after
	}
	shelf := d.h.journal.Shelf()
	values, err := shelf.List(ctx, p.Realm, shelfThread, p.Key(), after, limit+1)
	if err != nil {
		return nil, false, err
	}
	if after != "" && len(values) == 0 {
		// The end of the list, or a thread that was deleted since: nobody shall
		// take the one for the other.
		v, err := shelf.Get(ctx, p.Realm, shelfThread, after)
		if errors.Is(err, journal.ErrNotFound) || err == nil && v.Owner != p.Key() {
			return nil, false, chat.ErrNoThread
		}
		if err != nil {
			return nil, false, err
		}
	}
	more := len(values) > limit
	values = values[:min(limit, len(values))]
	threads := make([]dialect.Thread, 0, len(values))
	for _, v := range values {
		var l listed
		if err := json.Unmarshal(v.Data, &l); err != nil {
			continue
		}
		threads = append(threads, dialect.Thread{ID: strings.TrimPrefix(v.ID, prefix), Title: l.Title, Created: l.Created})
	}
	return threads, more, nil
}

func (d desk) Delete(ctx context.Context, p identity.Principal, thread string) error {
	entry, err := d.h.journal.Shelf().Get(ctx, p.Realm, shelfThread, shelfID(p.Tenant, thread))
	listed := err == nil
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	files, err := d.h.conductor.Delete(ctx, p, thread)
	if err != nil {
		return err
	}
	d.dropFiles(ctx, p, thread, files)
	if !listed {
		return nil
	}
	return d.unlist(ctx, p.Realm, entry)
}

func (d desk) Join(ctx context.Context, p identity.Principal, thread string, v room.Variant, m room.Member) (dialect.Seat, error) {
	key := conductor.Key(p, thread)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	seat, err := d.h.rooms.Join(ctx, key, v, m)
	if err != nil {
		return nil, errors.Join(conductor.ErrUnavailable, err)
	}
	if err := conductor.Allow(p, identity.Subscribe, key, seat.State(), chat.Subject{}); err != nil {
		seat.Leave()
		return nil, err
	}
	who := journal.Attending{Subject: chat.Subject(p.Subject), Since: d.h.now()}
	if n, ok := v.(dialect.Named); ok {
		who.Dialect = n.Dialect()
	}
	seat.Attend(who)
	return seat, nil
}

func (d desk) Presence(ctx context.Context, p identity.Principal, thread string) (dialect.Presence, error) {
	key := conductor.Key(p, thread)
	if _, err := d.h.conductor.Load(ctx, p, identity.Subscribe, key); err != nil {
		return dialect.Presence{}, err
	}
	there, err := d.h.journal.Roster().Present(ctx, key)
	if err != nil {
		return dialect.Presence{}, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	names, err := d.h.edgeNames(ctx)
	if err != nil {
		return dialect.Presence{}, err
	}
	var out dialect.Presence
	for _, a := range there {
		out.Count += a.Count
		for _, m := range a.Members {
			out.Members = append(out.Members, dialect.Present{
				Self: m.Subject == chat.Subject(p.Subject), Dialect: m.Dialect, Edge: names.of(a.Boot), Since: m.Since,
			})
		}
	}
	return out, nil
}

func (d desk) History(ctx context.Context, p identity.Principal, thread string, st *chat.State, limit int) ([]*chat.Message, error) {
	key := conductor.Key(p, thread)
	if err := conductor.Allow(p, identity.Subscribe, key, st, chat.Subject{}); err != nil {
		return nil, err
	}
	return d.h.conductor.History(ctx, key, st, limit)
}

func (d desk) Start(ctx context.Context, p identity.Principal, s dialect.Start) (dialect.Started, error) {
	s.Origin.Dialect = s.Dialect
	run, segment, err := d.h.conductor.StartRun(ctx, p, s.Thread, chat.Start{
		Message: s.Message, Fork: s.Fork, Tools: s.Tools, OneRun: s.OneRun, RefuseWaiting: s.RefuseWaiting,
		Origin: s.Origin,
	})
	return dialect.Started{Run: run, Segment: segment}, err
}

func (d desk) Answer(ctx context.Context, p identity.Principal, a dialect.Answer) (dialect.Answered, error) {
	check := func(q *chat.Interrupt) error {
		answers := a.Status == "" || a.Status == chat.InterruptAnswered
		if answers && !a.Verified && d.needsCode(p, q) {
			return chat.ErrNotWaiting
		}
		if a.Check != nil {
			return a.Check(q)
		}
		return nil
	}
	r, err := d.h.conductor.AnswerQuestion(ctx, p, a.Thread, chat.Answer{
		Interrupt: a.Interrupt, Value: a.Value, Status: a.Status, Tools: a.Tools,
	}, check)
	return dialect.Answered{Run: r.Run, Segment: r.Segment}, err
}

// needsCode says that only a checked code answers the question.
func (d desk) needsCode(p identity.Principal, q *chat.Interrupt) bool {
	return d.h.current.Load().codes[p.Realm] && smooth.WantsCode(q)
}

func (d desk) Cancel(ctx context.Context, p identity.Principal, segment string, suspended bool) error {
	return d.h.conductor.Cancel(ctx, p, segment, suspended)
}

func (d desk) Detach(ctx context.Context, p identity.Principal, segment, call string) error {
	return d.h.conductor.DetachCalls(ctx, p, segment, call)
}
