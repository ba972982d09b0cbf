package redisjournal

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// largeNotice is when a notice is sent without its records, as a Resync: each
// edge then reads them from the stream, when it likes.
const largeNotice = 64 << 10

// Flags of how a script publishes.
const (
	publishSharded = 1 << iota
	publishHint
)

func (j *Journal) publish(size int) (how uint8) {
	if j.opts.Cluster {
		how = publishSharded
	}
	if size > largeNotice {
		how |= publishHint
	}
	return how
}

// appendHead is what the script reads first.
func (j *Journal) appendHead(a *journal.Append, size int) []byte {
	return packer(make([]byte, 0, 64)).u64(a.Epoch).u64(a.Fence).u48(a.W).u64(a.Tag).u64(a.Tag).
		u48(j.shift()).u8(j.publish(size)).u16(uint16(j.schema.writes.Load()))
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	if err := a.Check(); err != nil {
		return journal.Appended{}, err
	}
	k, err := j.enter(ctx, a.Key)
	if err != nil {
		return journal.Appended{}, err
	}
	defer j.leave()
	entries, size, err := encodeEntries(a.Entries)
	if err != nil {
		return journal.Appended{}, err
	}
	var owner packer // with its length, as the meta has it
	if a.Owner != "" {
		owner = owner.text(a.Owner)
	}
	args := make([]any, 0, 5+len(entries))
	args = append(args, j.appendHead(&a, size), a.Run, []byte(owner), k.channel, lengths(entries))
	for _, e := range entries {
		args = append(args, e)
	}
	text, err := j.lane(k).do(ctx, appendScript, size, []string{k.meta, k.stream}, args...)
	if err != nil {
		return journal.Appended{}, err
	}
	code, p, err := open(text)
	if err != nil {
		return journal.Appended{}, err
	}
	switch code {
	case answerOK:
		recs := appended(&p, &a)
		if p.bad || p.b != "" {
			return journal.Appended{}, errAnswer
		}
		return journal.Appended{Result: journal.Stored, Records: recs}, nil
	case answerGap:
		return journal.Appended{Result: journal.Gap, W: p.u48()}, nil
	}
	if r := plainResults[code]; r != 0 {
		return journal.Appended{Result: r}, nil
	}
	return journal.Appended{}, errAnswer
}

// appended numbers the records of an append that was stored, from where the
// script says that they begin.
func appended(p *parser, a *journal.Append) []*chat.Record {
	pos, at, log, seq, prev := p.u48(), int64(p.u48()), p.u48(), p.u48(), p.u64()
	out := make([]*chat.Record, len(a.Entries))
	recs := make([]chat.Record, len(a.Entries))
	for i, e := range a.Entries {
		r := &recs[i]
		*r = chat.Record{Pos: pos + uint64(i), At: at, W: a.W + uint64(i), Tag: journal.ChainTag(prev, a.Tag+uint64(i)), Prev: prev, Entry: e}
		if e.Logged {
			log++
			r.Log = log
		}
		if e.N > 0 {
			if e.Opens {
				seq = 0
			}
			r.Seq = seq + 1
			seq += uint64(e.N)
		}
		prev = r.Tag
		out[i] = r
	}
	return out
}
