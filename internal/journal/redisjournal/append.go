package redisjournal

import (
	"context"

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
		u48(j.shift()).u8(j.publish(size)).u16(j.schema)
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
	args := make([]any, 0, 4+len(entries))
	args = append(args, j.appendHead(&a, size), a.Run, []byte(owner), k.channel)
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
		recs, err := p.numbered(a.Entries)
		if err != nil {
			return journal.Appended{}, err
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
