package filejournal

import (
	"context"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Append implements journal.Journal: acknowledged and shown once the log's
// write has returned.
func (j *Journal) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	if err := a.Check(); err != nil {
		return journal.Appended{}, err
	}
	s, t, err := j.hold(ctx, a.Key, true)
	if err != nil {
		return journal.Appended{}, err
	}
	before := t.image()
	res := t.ledger.Append(a, j.now())
	if res.Result != journal.Stored {
		j.letGo(s, t)
		return res, nil
	}
	recs, err := t.encodeRecords(res.Records)
	if err != nil {
		t.restore(before)
		j.letGo(s, t)
		return journal.Appended{}, err
	}
	m := &t.ledger.Meta
	run := m.Runs[a.Run]
	e := streamed{key: a.Key, epoch: m.Epoch, run: a.Run, w: run.W, tag: run.WTag, seq: run.Seq}
	size := 256
	for _, r := range recs {
		e.records = append(e.records, r.data)
		size += len(r.data) + 4
	}
	note := journal.Notice{Epoch: m.Epoch, Rev: m.Rev, Records: res.Records}
	err = j.finish(ctx, s, t, s.appends, op{frame: e.frame(make([]byte, 0, size))}, func() {
		t.tail = append(t.tail, recs...)
		s.stained(t)
		j.followers.publish(t.key, note)
	})
	if err != nil {
		return journal.Appended{}, err
	}
	return res, nil
}

// Commit implements journal.Journal: acknowledged and shown once the bbolt
// file is synced.
func (j *Journal) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	if err := checkCommit(&c); err != nil {
		return journal.Committed{}, err
	}
	nodes, err := encodeNodes(c.Nodes)
	if err != nil {
		return journal.Committed{}, err
	}
	s, t, err := j.hold(ctx, c.Key, false)
	if err != nil {
		return journal.Committed{}, err
	}
	before := t.image()
	res := t.ledger.Commit(c, j.now())
	if res.Result != journal.Done {
		t.restore(before)
		j.letGo(s, t)
		return res, nil
	}
	ch, err := j.encodeCommit(t, before, res)
	if err != nil {
		t.restore(before)
		j.letGo(s, t)
		return journal.Committed{}, err
	}
	ch.adds, ch.nodes, ch.segments = 1, nodes, c.Segments
	note := journal.Notice{Epoch: res.Epoch, Rev: res.Rev, Records: res.Records}
	err = j.finish(ctx, s, t, s.commits, op{write: ch}, func() {
		j.followers.publish(t.key, note)
	})
	if err != nil {
		return journal.Committed{}, err
	}
	return res, nil
}

func (j *Journal) encodeCommit(t *thread, before image, res journal.Committed) (*change, error) {
	if !before.ledger.Exists {
		t.sizes = nil
	}
	recs, err := t.encodeRecords(res.Records)
	if err != nil {
		return nil, err
	}
	return t.prepare(before, recs, j.opts.idleTrim().Milliseconds())
}

func checkCommit(c *journal.Commit) error {
	if err := c.Check(); err != nil {
		return err
	}
	for id := range c.Nodes {
		if err := checkNames(id); err != nil {
			return err
		}
	}
	for _, segment := range c.Segments {
		if segment == "" {
			return fmt.Errorf("filejournal: a segment without an id")
		}
		if err := checkNames(segment); err != nil {
			return err
		}
	}
	return nil
}

// decide runs a decision that adds no records, writes what it changed, and
// shows what it gives to show.
func (j *Journal) decide(ctx context.Context, key chat.Key, f func(*thread) (ok bool, note *journal.Notice)) error {
	s, t, err := j.hold(ctx, key, false)
	if err != nil {
		return err
	}
	before := t.image()
	ok, note := f(t)
	if !ok {
		j.letGo(s, t)
		return nil
	}
	t.fitSizes()
	ch, err := t.prepare(before, nil, j.opts.idleTrim().Milliseconds())
	if err != nil {
		t.restore(before)
		j.letGo(s, t)
		return err
	}
	return j.finish(ctx, s, t, s.commits, op{write: ch}, func() {
		if note != nil {
			j.followers.publish(t.key, *note)
		}
	})
}

// Trim implements journal.Journal. It also forgets commands that are old.
func (j *Journal) Trim(ctx context.Context, q journal.Trim) (res journal.Result, err error) {
	err = j.decide(ctx, q.Key, func(t *thread) (bool, *journal.Notice) {
		if res = t.ledger.Trim(q); res != journal.OK {
			return false, nil
		}
		t.ledger.Forget(j.now())
		return true, nil
	})
	return answer(res, err)
}

// Reset implements journal.Journal.
func (j *Journal) Reset(ctx context.Context, q journal.Reset) (res journal.Result, err error) {
	err = j.decide(ctx, q.Key, func(t *thread) (bool, *journal.Notice) {
		was := t.ledger.Meta.Epoch
		if res = t.ledger.Reset(q); res != journal.OK || was == q.NewEpoch {
			return false, nil
		}
		return true, &journal.Notice{Epoch: q.NewEpoch, Rev: t.ledger.Meta.Rev, Reset: true}
	})
	return answer(res, err)
}

// Delete implements journal.Journal.
func (j *Journal) Delete(ctx context.Context, key chat.Key, epoch uint64) (res journal.Result, err error) {
	err = j.decide(ctx, key, func(t *thread) (bool, *journal.Notice) {
		was, m := t.ledger.Exists, t.ledger.Meta
		if res = t.ledger.Delete(epoch, j.now()); res != journal.OK || !was {
			return false, nil
		}
		t.tail = nil
		return true, &journal.Notice{Epoch: m.Epoch, Rev: m.Rev, Deleted: true}
	})
	return answer(res, err)
}

// Claim implements journal.Journal.
func (j *Journal) Claim(ctx context.Context, q journal.Claim) (fence uint64, rev journal.Rev, res journal.Result, err error) {
	err = j.decide(ctx, q.Key, func(t *thread) (bool, *journal.Notice) {
		now := j.now()
		was := t.ledger.Meta.Rev
		lapsed := t.ledger.Meta.Runs[q.Run].Lapsed(now)
		if fence, rev, res = t.ledger.Claim(q, lapsed, now); res != journal.OK || rev == was {
			return false, nil
		}
		return true, &journal.Notice{Epoch: t.ledger.Meta.Epoch, Rev: rev}
	})
	if res, err = answer(res, err); err != nil {
		return 0, journal.Rev{}, res, err
	}
	return fence, rev, res, nil
}

// answer keeps a result from being taken for one when the write failed.
func answer(res journal.Result, err error) (journal.Result, error) {
	if err != nil {
		return 0, err
	}
	return res, nil
}
