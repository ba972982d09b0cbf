package redisjournal

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Bits of a run's change; scripts read them.
const (
	changeEnd = 1 << iota
	changeNew
	changeCounts
	changeOwner
	changeSealed
)

// Commit implements journal.Journal.
func (j *Journal) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	if err := checkCommit(&c); err != nil {
		return journal.Committed{}, err
	}
	k, err := j.enter(ctx, c.Key)
	if err != nil {
		return journal.Committed{}, err
	}
	defer j.leave()
	args, size, err := j.commitArgs(k, &c)
	if err != nil {
		return journal.Committed{}, err
	}
	names := []string{
		k.meta, k.stream, k.commands, k.nodes, j.keys.due(k.partition), j.keys.idle(k.partition),
		j.keys.segment(k.partition), k.segments,
	}
	text, err := j.lane(k).do(ctx, commitScript, size, names, args...)
	if err != nil {
		return journal.Committed{}, err
	}
	res, err := readCommitted(text, &c)
	if err == nil && (res.Result == journal.Done || res.Result == journal.DoneBefore) {
		// One that was done before may not have been waited for.
		err = j.link.sync(ctx, j.keys.tag(k.partition), k.commands, commandField(c.Command))
	}
	if err != nil {
		return journal.Committed{}, err
	}
	return res, nil
}

func checkCommit(c *journal.Commit) error {
	if err := c.Check(); err != nil {
		return err
	}
	for _, ch := range c.Runs {
		if len(ch.Owner) > maxName || len(ch.Run) > maxName || len(ch.Agent) > maxName {
			return fmt.Errorf("%w: a run's name", journal.ErrTooLarge)
		}
	}
	for _, segment := range c.Segments {
		if segment == "" {
			return fmt.Errorf("redisjournal: a segment without an id")
		}
		if len(segment) > maxName {
			return fmt.Errorf("%w: a segment's id", journal.ErrTooLarge)
		}
	}
	return nil
}

// runIndex numbers the runs that a commit speaks of, from 1.
type runIndex struct {
	ids []string
	at  map[string]uint32
}

func (x *runIndex) of(run string) uint32 {
	if n, ok := x.at[run]; ok {
		return n
	}
	x.ids = append(x.ids, run)
	x.at[run] = uint32(len(x.ids))
	return x.at[run]
}

// commitArgs writes what the script reads.
func (j *Journal) commitArgs(k threadKeys, c *journal.Commit) (args []any, size int, err error) {
	entries, size, err := encodeEntries(c.Entries)
	if err != nil {
		return nil, 0, err
	}
	runs := runIndex{at: map[string]uint32{}}
	guards := make([]any, len(c.Guards))
	for i, g := range c.Guards {
		guards[i] = []byte(packer(nil).u32(runs.of(g.Run)).u64(g.Fence).u48(g.W).flag(g.Owner))
	}
	changes := make([]any, len(c.Runs))
	for i := range c.Runs {
		changes[i] = encodeChange(&c.Runs[i], &runs)
	}
	links := packer(make([]byte, 0, 4*len(c.Entries)))
	for _, e := range c.Entries {
		if e.N > 0 {
			links = links.u32(runs.of(e.Run))
		} else {
			links = links.u32(0)
		}
	}
	head := packer(make([]byte, 0, 128)).u64(c.Epoch).u64(c.Rev.N).u64(c.Rev.Tag).u64(c.NewEpoch).u64(c.Tag).u64(c.Tag).
		u48(j.shift()).u48(uint64(j.opts.idleTrim().Milliseconds())).u8(j.publish(size)).u16(uint16(j.schema.writes.Load()))
	for _, n := range []int{len(runs.ids), len(guards), len(changes), len(entries), len(c.Nodes), len(c.Segments)} {
		head = head.u32(uint32(n))
	}
	args = []any{[]byte(head), commandField(c.Command), c.Result, k.name, k.channel, []byte(links), lengths(entries)}
	for _, id := range runs.ids {
		args = append(args, id)
	}
	args = append(append(args, guards...), changes...)
	for _, e := range entries {
		args = append(args, e)
	}
	for id, n := range c.Nodes {
		b, err := json.Marshal(n)
		if err != nil {
			return nil, 0, fmt.Errorf("redisjournal: a node of the index: %w", err)
		}
		args = append(args, id, b)
		size += len(id) + len(b)
	}
	for _, segment := range c.Segments {
		args = append(args, segment)
	}
	return args, size, nil
}

// commandField is where a thread's commands hold one.
func commandField(c journal.CommandID) []byte {
	return append(append(make([]byte, 0, len(c.ID)+1), c.ID[:]...), c.Step)
}

func encodeChange(ch *journal.RunChange, runs *runIndex) []byte {
	var bits uint8
	for _, b := range []struct {
		set bool
		bit uint8
	}{{ch.End, changeEnd}, {ch.New, changeNew}, {ch.Counts, changeCounts}, {ch.NewOwner, changeOwner}, {ch.Sealed, changeSealed}} {
		if b.set {
			bits |= b.bit
		}
	}
	due := uint64(ch.Due)
	if ch.Due < 0 { // long due
		due = 1
	}
	p := packer(nil).u32(runs.of(ch.Run)).u8(bits).u48(due).text(ch.Owner)
	return append(p, ch.Agent...)
}

func readCommitted(text string, c *journal.Commit) (journal.Committed, error) {
	code, p, err := open(text)
	if err != nil {
		return journal.Committed{}, err
	}
	if code != answerOK && code != answerBefore {
		if r := plainResults[code]; r != 0 {
			return journal.Committed{Result: r}, nil
		}
		return journal.Committed{}, errAnswer
	}
	res := journal.Committed{Result: journal.Done, Epoch: p.u64(), Rev: p.rev(), Fences: map[string]uint64{}}
	for _, ch := range c.Runs {
		if f := p.u64(); f != 0 {
			res.Fences[ch.Run] = f
		}
	}
	if code == answerBefore {
		if p.bad {
			return journal.Committed{}, errAnswer
		}
		res.Result, res.Before = journal.DoneBefore, []byte(p.b)
		return res, nil
	}
	res.Records, err = p.numbered(c.Entries)
	return res, err
}
