package redisjournal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

const (
	// remembered is how long an edge whose lease has run out is still known, so
	// that one that was only slow finds what it said of its rooms.
	remembered = time.Minute
	// attendanceLife is when Redis drops what nobody has said again, and
	// attendanceAge when it is said again, at most atOnce at each announcement.
	attendanceLife = time.Hour
	attendanceAge  = 10 * time.Minute
	atOnce         = 64
	// maxAttendance bounds what one edge says of one thread, in bytes.
	maxAttendance = 256 << 10
)

var announceScript = load("announce")

// roster is one lease for each edge, and for each thread a hash of who is in
// its rooms, by edge. What a dead edge left in a hash goes when somebody reads
// it.
type roster struct {
	j    *Journal
	link *link
	keys keyspace

	mu   sync.Mutex
	said map[attended]*saying
}

type attended struct {
	key  chat.Key
	boot string
}

// saying is what this edge has said of a thread.
type saying struct {
	text []byte
	at   time.Time // zero: to be said again
}

// leases are the names of the edges and of their deadlines; both in one slot.
func (r *roster) leases() []string {
	head := r.keys.prefix + ":{edges}:"
	return []string{head + "edges", head + "lease"}
}

func (r *roster) attendance(key chat.Key) string {
	n := name(key)
	return r.keys.heads[r.keys.hash(n)] + "a:" + n
}

// Announce implements journal.Roster.
func (r *roster) Announce(ctx context.Context, e journal.Edge) error {
	_, err := promptly(ctx, r.j, func() (struct{}, error) { return struct{}{}, r.register(ctx, e) })
	return err
}

func (r *roster) register(ctx context.Context, e journal.Edge) error {
	if e.Boot == "" {
		return fmt.Errorf("redisjournal: an edge without a boot id")
	}
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("redisjournal: an edge: %w", err)
	}
	if err := r.j.begin(ctx); err != nil {
		return err
	}
	defer r.j.leave()
	answer, err := r.announce(ctx, e.Boot, text)
	if err != nil {
		return err
	}
	return r.again(ctx, e.Boot, answer == string(answerLost))
}

func (r *roster) announce(ctx context.Context, boot string, text []byte) (string, error) {
	answer, err := r.link.run(ctx, r.link.read, announceScript, r.leases(),
		r.link.shift().Milliseconds(), boot, text, journal.OwnerDeadline.Milliseconds(), remembered.Milliseconds()).Text()
	if err != nil {
		return "", fmt.Errorf("redisjournal: the roster: %w", err)
	}
	return answer, nil
}

// leave ends an edge's lease at once.
func (r *roster) leave(ctx context.Context, boot string) error {
	r.mu.Lock()
	for a := range r.said {
		if a.boot == boot {
			delete(r.said, a)
		}
	}
	r.mu.Unlock()
	_, err := r.announce(ctx, boot, nil)
	return err
}

// again says of some rooms what was said long ago; of all that an edge has, one
// after the other, if Redis had forgotten it.
func (r *roster) again(ctx context.Context, boot string, forgotten bool) error {
	texts := map[attended][]byte{}
	now := time.Now()
	r.mu.Lock()
	for a, s := range r.said {
		if a.boot != boot {
			continue
		}
		if forgotten {
			s.at = time.Time{}
		}
		if len(texts) < atOnce && now.Sub(s.at) > attendanceAge {
			texts[a], s.at = s.text, now
		}
	}
	r.mu.Unlock()
	if len(texts) == 0 {
		return nil
	}
	pipe := r.link.read.Pipeline()
	for a, text := range texts {
		name := r.attendance(a.key)
		pipe.HSet(ctx, name, a.boot, text)
		pipe.PExpire(ctx, name, attendanceLife)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		r.sayAgain(maps.Keys(texts))
		return fmt.Errorf("redisjournal: the roster: %w", err)
	}
	return r.takeBack(ctx, texts)
}

// sayAgain has what is still said of some rooms said at the next announcement.
func (r *roster) sayAgain(list iter.Seq[attended]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range list {
		if s := r.said[a]; s != nil {
			s.at = time.Time{}
		}
	}
}

// takeBack mends what was said again too late: of a room that everybody had
// left meanwhile, or of which something newer had been said.
func (r *roster) takeBack(ctx context.Context, texts map[attended][]byte) error {
	var gone, newer []attended
	r.mu.Lock()
	for a, text := range texts {
		switch s := r.said[a]; {
		case s == nil:
			gone = append(gone, a)
		case !bytes.Equal(s.text, text):
			newer = append(newer, a)
		}
	}
	r.mu.Unlock()
	r.sayAgain(slices.Values(newer))
	if len(gone) == 0 {
		return nil
	}
	pipe := r.link.read.Pipeline()
	for _, a := range gone {
		pipe.HDel(ctx, r.attendance(a.key), a.boot)
	}
	_, err := pipe.Exec(ctx)
	r.sayAgain(slices.Values(gone)) // somebody may have come back
	if err != nil {
		return fmt.Errorf("redisjournal: the roster: %w", err)
	}
	return nil
}

// edges are the living ones, and the boots of all that are known.
func (r *roster) edges(ctx context.Context) (living []journal.Edge, known map[string]bool, err error) {
	names := r.leases()
	var texts *redis.MapStringStringCmd
	var leases *redis.ZSliceCmd
	// Not a transaction, which a server that is full refuses. An edge that comes
	// between the two is not yet one of the living.
	clock, err := r.link.timed(ctx, names[0], func(p redis.Pipeliner) {
		texts = p.HGetAll(ctx, names[0])
		leases = p.ZRangeWithScores(ctx, names[1], 0, -1)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("redisjournal: the roster: %w", err)
	}
	now := float64(clock.Add(r.link.shift()).UnixMilli())
	known = map[string]bool{}
	for _, z := range leases.Val() {
		boot, _ := z.Member.(string)
		known[boot] = true
		if z.Score <= now {
			continue
		}
		var e journal.Edge
		// What cannot be read is not an edge that we know anything of.
		if json.Unmarshal([]byte(texts.Val()[boot]), &e) == nil && e.Boot == boot {
			living = append(living, e)
		}
	}
	slices.SortFunc(living, func(a, b journal.Edge) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot))
	})
	return living, known, nil
}

// Edges implements journal.Roster.
func (r *roster) Edges(ctx context.Context) ([]journal.Edge, error) {
	if err := r.j.begin(ctx); err != nil {
		return nil, err
	}
	defer r.j.leave()
	living, _, err := r.edges(ctx)
	return living, err
}

// Attend implements journal.Roster. Members beyond MaxAttending are counted
// only.
func (r *roster) Attend(ctx context.Context, key chat.Key, a journal.Attendance) error {
	_, err := promptly(ctx, r.j, func() (struct{}, error) { return struct{}{}, r.attend(ctx, key, a) })
	return err
}

func (r *roster) attend(ctx context.Context, key chat.Key, a journal.Attendance) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := r.j.begin(ctx); err != nil {
		return err
	}
	defer r.j.leave()
	name, at := r.attendance(key), attended{key, a.Boot}
	if a.Count <= 0 {
		r.mu.Lock()
		delete(r.said, at)
		r.mu.Unlock()
		if err := r.link.read.HDel(ctx, name, a.Boot).Err(); err != nil {
			return fmt.Errorf("redisjournal: the roster: %w", err)
		}
		return nil
	}
	if len(a.Members) > journal.MaxAttending {
		a.Members = a.Members[:journal.MaxAttending]
	}
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("redisjournal: an attendance: %w", err)
	}
	if len(text) > maxAttendance {
		return fmt.Errorf("%w: an attendance of %d bytes", journal.ErrTooLarge, len(text))
	}
	r.mu.Lock()
	if r.said == nil {
		r.said = map[attended]*saying{}
	}
	s := &saying{text, time.Now()}
	r.said[at] = s
	r.mu.Unlock()
	pipe := r.link.read.Pipeline()
	pipe.HSet(ctx, name, a.Boot, text)
	pipe.PExpire(ctx, name, attendanceLife)
	if _, err := pipe.Exec(ctx); err != nil {
		r.mu.Lock()
		s.at = time.Time{}
		r.mu.Unlock()
		return fmt.Errorf("redisjournal: the roster: %w", err)
	}
	return nil
}

// Present implements journal.Roster.
func (r *roster) Present(ctx context.Context, key chat.Key) ([]journal.Attendance, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := r.j.begin(ctx); err != nil {
		return nil, err
	}
	defer r.j.leave()
	name := r.attendance(key)
	texts, err := r.link.read.HGetAll(ctx, name).Result()
	if err != nil {
		return nil, fmt.Errorf("redisjournal: the roster: %w", err)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	living, known, err := r.edges(ctx)
	if err != nil {
		return nil, err
	}
	lives := map[string]bool{}
	for _, e := range living {
		lives[e.Boot] = true
	}
	var there []journal.Attendance
	var gone []string
	for boot, text := range texts {
		var a journal.Attendance
		switch {
		case !known[boot]:
			gone = append(gone, boot)
		case lives[boot] && json.Unmarshal([]byte(text), &a) == nil && a.Boot == boot:
			there = append(there, a)
		}
	}
	if len(gone) > 0 {
		// Only tidying: the next reader does it if this one cannot.
		_ = r.link.read.HDel(ctx, name, gone...).Err()
	}
	slices.SortFunc(there, func(a, b journal.Attendance) int { return cmp.Compare(a.Boot, b.Boot) })
	return there, nil
}
