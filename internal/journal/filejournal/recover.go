package filejournal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// layoutVersion is that of the folder.
const layoutVersion = 1

// marker says how the folder was left.
type marker struct {
	Version int `json:"version"`
	// Clean says that all is in the bbolt file.
	Clean bool `json:"clean,omitempty"`
	// Machine is the boot of the machine that has it open, "" if unknown.
	Machine string `json:"machine,omitempty"`
}

var markerKey = []byte("marker")

// machine names this boot of the machine, or is "" where the system does not.
func machine() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// isLocked says that another process has the file.
func isLocked(err error) bool { return errors.Is(err, bolterrors.ErrTimeout) }

// recover brings what the log has into the bbolt file, begins new epochs where
// something may be lost, and begins a new log.
func (s *store) recover() error {
	segments, err := logSegments(s.opts.Dir)
	if err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	var threads map[chat.Key]*thread
	err = s.db.Update(func(tx *bolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		m := marker{Version: layoutVersion, Clean: true}
		if raw := tx.Bucket(bucketMeta).Get(markerKey); raw != nil {
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
		}
		if m.Version > layoutVersion {
			return fmt.Errorf("the folder is of layout %d, this build knows %d: use a newer one", m.Version, layoutVersion)
		}
		r := replay{tx: tx, threads: map[chat.Key]*thread{}, before: map[*thread]image{}, lost: map[*thread]bool{}}
		if err := r.open(); err != nil {
			return err
		}
		whole, err := r.read(s.opts.Dir, segments)
		if err != nil {
			return err
		}
		if !m.Clean && (s.opts.machine == "" || m.Machine != s.opts.machine) || !whole {
			for _, t := range r.threads {
				r.lost[t] = true
			}
		}
		if err := r.save(s.opts); err != nil {
			return err
		}
		if n := len(r.lost); n > 0 {
			s.opts.Logger.Warn("threads that were live begin a new epoch: the machine stopped before what they streamed was safe",
				"threads", n, "dir", s.opts.Dir)
		}
		threads = r.threads
		return putMarker(tx, marker{Version: layoutVersion, Machine: s.opts.machine})
	})
	if err != nil {
		return fmt.Errorf("filejournal: recovering %s: %w", s.opts.Dir, err)
	}
	for _, t := range threads {
		s.index(t)
	}
	if len(segments) > 0 {
		s.log.segment = segments[len(segments)-1]
	}
	return s.reclaim(s.log.segment + 1)
}

func putMarker(tx *bolt.Tx, m marker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return put(tx, bucketMeta, markerKey, b)
}

func (s *store) markClean() error {
	return s.db.Update(func(tx *bolt.Tx) error {
		return putMarker(tx, marker{Version: layoutVersion, Clean: true, Machine: s.opts.machine})
	})
}

// replay is the log on its way into the bbolt file. Only threads with live
// runs can have something in it that the file has not.
type replay struct {
	tx      *bolt.Tx
	threads map[chat.Key]*thread
	before  map[*thread]image
	lost    map[*thread]bool
}

// open loads the threads with live runs.
func (r *replay) open() (err error) {
	scan(r.tx, bucketLive, nil, func(k, _ []byte) bool {
		key, ok := decodeKey(k)
		if !ok {
			err = fmt.Errorf("a key of the index of live runs is damaged")
			return false
		}
		t := newThread(key)
		if err = t.load(r.tx); err != nil {
			return false
		}
		r.threads[key], r.before[t] = t, t.image()
		return true
	})
	return err
}

// read applies the log's files in their order. whole is false if something in
// them does not check: not merely a last record that was cut off.
func (r *replay) read(dir string, segments []uint64) (whole bool, err error) {
	whole = true
	for i, n := range segments {
		rest, err := os.ReadFile(logName(dir, n))
		if err != nil {
			return false, err
		}
		for len(rest) > 0 {
			var e streamed
			e, rest, err = nextFrame(rest)
			if err != nil {
				if !errors.Is(err, errTorn) || i < len(segments)-1 {
					whole = false
				}
				break
			}
			if err := r.apply(e); err != nil {
				return false, err
			}
		}
	}
	return whole, nil
}

// apply puts an append behind what the thread has, unless the file has it.
func (r *replay) apply(e streamed) error {
	t := r.threads[e.key]
	if t == nil || t.ledger.Meta.Epoch != e.epoch || r.lost[t] {
		return nil
	}
	m := &t.ledger.Meta
	run, live := m.Runs[e.run]
	for _, raw := range e.records {
		rec, err := chat.ParseRecord(raw)
		if err != nil {
			return err
		}
		if rec.Pos <= m.Pos {
			continue
		}
		if rec.Pos != m.Pos+1 || rec.Prev != m.Tag || !live {
			r.lost[t] = true
			return nil
		}
		m.Pos, m.Tag, m.At = rec.Pos, rec.Tag, rec.At
		m.Log = max(m.Log, rec.Log)
		m.Bytes += int64(len(raw))
		t.ledger.Records = append(t.ledger.Records, rec)
		t.sizes = append(t.sizes, len(raw))
		t.tail = append(t.tail, encoded{rec.Pos, bytes.Clone(raw)})
		run.W, run.WTag, run.Seq = e.w, e.tag, e.seq
	}
	if live {
		m.Runs[e.run] = run
	}
	return nil
}

// save writes what changed.
func (r *replay) save(opts Options) error {
	for _, t := range r.threads {
		if r.lost[t] {
			r.reset(t)
		} else if len(t.tail) == 0 {
			continue
		}
		c, err := t.prepare(r.before[t], nil, opts.idleTrim().Milliseconds())
		if err != nil {
			return err
		}
		if err := c.write(r.tx); err != nil {
			return err
		}
		c.done()
	}
	return nil
}

// reset begins a new epoch with what is left, beyond anything that was shown.
func (r *replay) reset(t *thread) {
	l := t.ledger
	seen := journal.Cursor{Epoch: l.Meta.Epoch, Pos: l.Meta.Pos, Tag: l.Meta.Tag}
	snap := l.Load(journal.Load{Key: t.key}, 0)
	base := *snap.State(nil)
	base.Pos, base.Log, base.Tag = l.Meta.Pos+journal.PositionJump, l.Meta.Log+journal.PositionJump, fresh()
	l.Reset(journal.Reset{Key: t.key, Seen: seen, NewEpoch: fresh(), Tag: fresh(), Base: &base})
	t.fitSizes()
}

// fresh draws a number for an epoch or a tag: not 0, and far enough below the
// top for the records of a write.
func fresh() uint64 { return rand.Uint64()>>1 + 1 }
