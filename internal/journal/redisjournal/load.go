package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

const (
	// loadRecords bounds the records that one command reads.
	loadRecords = 1024
	// loadTries is how often a load begins again because the thread was trimmed,
	// reset or deleted while its records were read.
	loadTries = 8
	// idsAtOnce bounds the ids that one load looks up.
	idsAtOnce = 4096
)

// errMoved: what was read belongs to two instants.
var errMoved = errors.New("redisjournal: the thread changed while it was read")

// image is what one transaction reads of a thread.
type image struct {
	meta    map[string]string
	now     int64
	base    string
	hasBase bool
	records []redis.XMessage
	nodes   []any
}

// Load implements journal.Journal. All but the further records of a long
// thread is read in one transaction; those are taken only if they continue what
// was read, up to its position.
func (j *Journal) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	return promptly(ctx, j, func() (journal.Snapshot, error) { return j.load(ctx, q) })
}

func (j *Journal) load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	k, err := j.enter(ctx, q.Key)
	if err != nil {
		return journal.Snapshot{}, err
	}
	defer j.leave()
	if len(q.IDs) > idsAtOnce {
		return journal.Snapshot{}, fmt.Errorf("redisjournal: a load of more than %d ids", idsAtOnce)
	}
	for range loadTries {
		var s journal.Snapshot
		s, err = j.loadOnce(ctx, k, q, q.From.Epoch != 0)
		if !errors.Is(err, errMoved) {
			return s, err
		}
	}
	return journal.Snapshot{}, err
}

// loadOnce reads the thread, with goOn first only what follows q.From.
func (j *Journal) loadOnce(ctx context.Context, k threadKeys, q journal.Load, goOn bool) (journal.Snapshot, error) {
	from := uint64(0)
	if goOn {
		from = q.From.Pos
	}
	im, err := j.read(ctx, k, q.IDs, from, !goOn)
	if err != nil {
		return journal.Snapshot{}, err
	}
	s, h, err := im.snapshot()
	if err != nil || !s.Exists {
		return s, err
	}
	if err := im.addNodes(&s, q.IDs); err != nil {
		return s, err
	}
	m := &s.Meta
	if !goOn {
		return j.whole(ctx, k, im, h, s)
	}
	records := im.records
	if q.From.Epoch == m.Epoch && from >= m.Floor && from <= m.Pos {
		tag := m.FloorTag
		if from > m.Floor {
			first, err := parseFirst(records, from)
			if err != nil {
				return s, err
			}
			tag, records = first.Tag, records[1:]
		} else if len(records) > 0 && records[0].ID == streamID(from) {
			return s, errDamaged
		}
		if tag == q.From.Tag {
			s.Continues = true
			s.Records, err = j.rest(ctx, k, records, from, tag, m)
			return s, err
		}
	}
	s, err = j.loadOnce(ctx, k, q, false)
	if err == nil && s.Exists && q.From.Epoch == s.Meta.Epoch && q.From.Pos < s.Meta.Floor {
		s.Behind = true
	}
	return s, err
}

// parseFirst is the record at pos, which must be the first.
func parseFirst(records []redis.XMessage, pos uint64) (*chat.Record, error) {
	if len(records) == 0 || records[0].ID != streamID(pos) {
		return nil, errDamaged
	}
	return decodeRecord(pos, value(records[0]))
}

// whole makes the snapshot of a thread that is read from its floor.
func (j *Journal) whole(ctx context.Context, k threadKeys, im *image, h threadHead, s journal.Snapshot) (journal.Snapshot, error) {
	m := &s.Meta
	var err error
	switch {
	case h.origin != nil:
		s.Base = &chat.State{Schema: chat.SchemaVersion, Pos: m.Floor, Log: h.origin.log, At: h.origin.at, Tag: m.FloorTag}
	case !im.hasBase:
		return s, fmt.Errorf("%w: a thread lacks its base", errDamaged)
	default:
		if s.Base, err = chat.ParseState([]byte(im.base)); err != nil {
			return s, err
		}
		if s.Base.Pos != m.Floor || s.Base.Tag != m.FloorTag {
			return s, fmt.Errorf("%w: a thread's base is another's", errDamaged)
		}
	}
	s.Records, err = j.rest(ctx, k, im.records, m.Floor, m.FloorTag, m)
	return s, err
}

// rest decodes the records and reads those that did not come with them. Each
// must follow the one before it, up to where the thread was.
func (j *Journal) rest(ctx context.Context, k threadKeys, records []redis.XMessage, pos, tag uint64, m *journal.Meta) ([]*chat.Record, error) {
	out := make([]*chat.Record, 0, min(m.Pos-pos, 1<<20))
	for further := false; ; further = true {
		for _, r := range records {
			if pos == m.Pos {
				break
			}
			if r.ID != streamID(pos+1) {
				return nil, broken(further)
			}
			rec, err := decodeRecord(pos+1, value(r))
			if err != nil {
				return nil, err
			}
			if rec.Prev != tag {
				return nil, broken(further)
			}
			out = append(out, rec)
			pos, tag = rec.Pos, rec.Tag
		}
		if pos == m.Pos {
			if tag != m.Tag {
				return nil, broken(further)
			}
			return out, nil
		}
		if len(records) == 0 {
			return nil, broken(further)
		}
		var err error
		records, err = j.link.read.XRangeN(ctx, k.stream, streamID(pos+1), "+", loadRecords).Result()
		if err != nil {
			return nil, fmt.Errorf("redisjournal: load: %w", err)
		}
	}
}

// broken is what a hole means: damage within one instant, else a change.
func broken(further bool) error {
	if further {
		return errMoved
	}
	return fmt.Errorf("%w: a thread's records do not follow one another", errDamaged)
}

func streamID(pos uint64) string { return strconv.FormatUint(pos, 10) + "-0" }

// value is a record as it is published: its numbers are the field, its entry
// is the value.
func value(m redis.XMessage) string {
	for numbers, entry := range m.Values {
		s, _ := entry.(string)
		return numbers + s
	}
	return ""
}

// read is the transaction.
func (j *Journal) read(ctx context.Context, k threadKeys, ids []string, from uint64, base bool) (*image, error) {
	var (
		meta    *redis.MapStringStringCmd
		text    *redis.StringCmd
		records *redis.XMessageSliceCmd
		nodes   *redis.SliceCmd
		clock   *redis.TimeCmd
	)
	_, err := j.link.read.TxPipelined(ctx, func(p redis.Pipeliner) error {
		meta = p.HGetAll(ctx, k.meta)
		records = p.XRangeN(ctx, k.stream, streamID(from), "+", loadRecords)
		if base {
			text = p.Get(ctx, k.base)
		}
		if len(ids) > 0 {
			nodes = p.HMGet(ctx, k.nodes, ids...)
		}
		clock = p.Time(ctx)
		return nil
	})
	if full(err) {
		return j.readFull(ctx, k, ids, from, base)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("redisjournal: load: %w", err)
	}
	im := &image{meta: meta.Val(), records: records.Val(), now: clock.Val().UnixMilli() + int64(j.shift())}
	for _, e := range []error{meta.Err(), records.Err(), clock.Err()} {
		if e != nil {
			return nil, fmt.Errorf("redisjournal: load: %w", e)
		}
	}
	if nodes != nil {
		if im.nodes, err = nodes.Result(); err != nil {
			return nil, fmt.Errorf("redisjournal: load: %w", err)
		}
	}
	if text != nil {
		im.base, err = text.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("redisjournal: load: %w", err)
		}
		im.hasBase = err == nil
	}
	return im, nil
}

func (im *image) addNodes(s *journal.Snapshot, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	s.Nodes = make(map[string]chat.Node, len(ids))
	for i, id := range ids {
		text, ok := im.nodes[i].(string)
		if !ok {
			continue
		}
		var n chat.Node
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return fmt.Errorf("redisjournal: a node of the index: %w", err)
		}
		s.Nodes[id] = n
	}
	return nil
}

// snapshot reads the meta.
func (im *image) snapshot() (journal.Snapshot, threadHead, error) {
	var s journal.Snapshot
	if len(im.meta) == 0 {
		return s, threadHead{}, nil
	}
	h, err := decodeHead(im.meta)
	if err != nil {
		return s, h, err
	}
	s.Exists, s.Deleted = h.deleted == 0, h.deleted > im.now
	if !s.Exists {
		return s, h, nil
	}
	if h.schema > uint16(chat.SchemaVersion) {
		return s, h, errNewer(h.schema)
	}
	s.Meta = h.meta
	s.Meta.Runs = map[string]journal.RunMeta{}
	for field, text := range im.meta {
		run, ok := strings.CutPrefix(field, "r")
		if !ok {
			continue
		}
		if s.Meta.Runs[run], err = decodeRun(text, im.meta["w"+run]); err != nil {
			return s, h, err
		}
	}
	return s, h, nil
}
