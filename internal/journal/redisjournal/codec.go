package redisjournal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// What the scripts read and write is binary, big-endian, so that they need no
// parser: numbers that stay small in 6 bytes, tags and what is only compared in
// 8. A stored record is its numbers, then the entry as the writer gave it:
//
//	at w log seq sum (6 bytes each), tag prev (8 each), flags (1), n (4), JSON
//
// In the stream the numbers are the field and the rest is the value: a script
// would pay for joining them, since each string that it makes is hashed whole.
// sum is the size of all records that the thread ever had up to this one. The
// JSON is a chat.Record's without its numbers. A notice is
//
//	flags (1), epoch rev.n rev.tag (8 each), first position (6), count (4)
//
// then the records' lengths (4 each), then the records.
const (
	sizeNumbers = 5*6 + 2*8
	sizePrefix  = 1 + 4
	sizeNotice  = 1 + 3*8 + 6 + 4
	// max6 is the largest number that 6 bytes hold; a Lua number holds it too.
	max6 = 1<<48 - 1
)

// Flags of an entry; scripts read them.
const (
	flagLogged = 1 << iota
	flagOpens
	flagStreams
)

// Flags of a notice; scripts write them.
const (
	flagResync = 1 << iota
	flagReset
	flagDeleted
)

// errDamaged: Redis has something that no script of ours has written.
var errDamaged = errors.New("redisjournal: a value in Redis is damaged")

// packer builds what a script reads.
type packer []byte

func (p packer) u8(n uint8) packer   { return append(p, n) }
func (p packer) u16(n uint16) packer { return binary.BigEndian.AppendUint16(p, n) }
func (p packer) u32(n uint32) packer { return binary.BigEndian.AppendUint32(p, n) }
func (p packer) u64(n uint64) packer { return binary.BigEndian.AppendUint64(p, n) }

// u48 writes the number, or the largest one that there is room for.
func (p packer) u48(n uint64) packer {
	n = min(n, max6)
	return append(p, byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func (p packer) flag(b bool) packer {
	if b {
		return append(p, 1)
	}
	return append(p, 0)
}

// text writes a length in 2 bytes and the text.
func (p packer) text(s string) packer { return append(p.u16(uint16(len(s))), s...) }

// parser reads what a script wrote; bad says that something was not there.
type parser struct {
	b   string
	bad bool
}

func (p *parser) take(n int) string {
	if n > len(p.b) {
		p.bad, p.b = true, ""
		return ""
	}
	s := p.b[:n]
	p.b = p.b[n:]
	return s
}

func (p *parser) number(size int) (n uint64) {
	for _, c := range []byte(p.take(size)) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (p *parser) u8() uint8   { return uint8(p.number(1)) }
func (p *parser) u16() uint16 { return uint16(p.number(2)) }
func (p *parser) u32() uint32 { return uint32(p.number(4)) }
func (p *parser) u48() uint64 { return p.number(6) }
func (p *parser) u64() uint64 { return p.number(8) }

func (p *parser) rev() journal.Rev { return journal.Rev{N: p.u64(), Tag: p.u64()} }

// encodeEntry writes an entry as it is stored behind its numbers, or fails
// with journal.ErrTooLarge.
func encodeEntry(e chat.Entry) ([]byte, error) {
	if e.N < 0 || e.N > 1<<31 {
		return nil, fmt.Errorf("redisjournal: a %s record of %d envelopes", e.Kind, e.N)
	}
	var flags uint8
	if e.Logged {
		flags |= flagLogged
	}
	if e.Opens {
		flags |= flagOpens
	}
	if e.Kind.Streams() {
		flags |= flagStreams
	}
	var b [sizePrefix]byte
	out, err := (&chat.Record{Entry: e}).AppendTo(packer(b[:0]).u8(flags).u32(uint32(e.N)))
	if err != nil {
		return nil, err
	}
	if size := len(out) - sizePrefix; size > journal.MaxRecord {
		return nil, fmt.Errorf("%w: a %s record of %d bytes", journal.ErrTooLarge, e.Kind, size)
	}
	return out, nil
}

// maxWriteBytes bounds the records of one append or commit.
const maxWriteBytes = journal.MaxRecord + 8<<20

// encodeEntries is encodeEntry for a write, with the size of all.
func encodeEntries(entries []chat.Entry) (out [][]byte, size int, err error) {
	out = make([][]byte, len(entries))
	for i, e := range entries {
		if out[i], err = encodeEntry(e); err != nil {
			return nil, 0, err
		}
		if size += len(out[i]); size > maxWriteBytes {
			return nil, 0, fmt.Errorf("%w: a write of more than %d bytes", journal.ErrTooLarge, maxWriteBytes)
		}
	}
	return out, size, nil
}

// lengths are those of the records as they are stored and published.
func lengths(entries [][]byte) []byte {
	p := packer(make([]byte, 0, 4*len(entries)))
	for _, e := range entries {
		p = p.u32(uint32(sizeNumbers + len(e)))
	}
	return p
}

// numbers reads what the store gave to a record.
func (p *parser) numbers(r *chat.Record) {
	r.At = int64(p.u48())
	r.W, r.Log, r.Seq = p.u48(), p.u48(), p.u48()
	p.u48() // the sum
	r.Tag, r.Prev = p.u64(), p.u64()
}

// decodeRecord reads a stored record.
func decodeRecord(pos uint64, b string) (*chat.Record, error) {
	p := parser{b: b}
	var n chat.Record
	p.numbers(&n)
	p.take(sizePrefix)
	if p.bad {
		return nil, errDamaged
	}
	r, err := chat.ParseRecord([]byte(p.b))
	if err != nil {
		return nil, err
	}
	r.Pos, r.At, r.W, r.Log, r.Seq, r.Tag, r.Prev = pos, n.At, n.W, n.Log, n.Seq, n.Tag, n.Prev
	return r, nil
}

// numbered makes records of entries and of the numbers that a script answered
// with: the first position, then each record's numbers.
func (p *parser) numbered(entries []chat.Entry) ([]*chat.Record, error) {
	first := p.u48()
	out := make([]*chat.Record, len(entries))
	recs := make([]chat.Record, len(entries))
	for i := range entries {
		r := &recs[i]
		r.Pos, r.Entry = first+uint64(i), entries[i]
		p.numbers(r)
		out[i] = r
	}
	if p.bad || p.b != "" {
		return nil, errAnswer
	}
	return out, nil
}

// errAnswer: a script answered what this build does not understand. The
// outcome is unknown.
var errAnswer = errors.New("redisjournal: Redis gave an answer that is none")

// decodeNotice reads what a script published.
func decodeNotice(payload string) (journal.Notice, error) {
	p := parser{b: payload}
	flags := p.u8()
	n := journal.Notice{
		Epoch: p.u64(), Rev: p.rev(),
		Resync: flags&flagResync != 0, Reset: flags&flagReset != 0, Deleted: flags&flagDeleted != 0,
	}
	first, count := p.u48(), p.u32()
	if p.bad || uint64(count)*(4+sizeNumbers+sizePrefix) > uint64(len(p.b)) {
		return journal.Notice{}, errDamaged
	}
	lengths := parser{b: p.take(4 * int(count))}
	for i := range uint64(count) {
		b := p.take(int(lengths.u32()))
		if p.bad {
			return journal.Notice{}, errDamaged
		}
		r, err := decodeRecord(first+i, b)
		if err != nil {
			return journal.Notice{}, err
		}
		n.Records = append(n.Records, r)
	}
	if p.b != "" {
		return journal.Notice{}, errDamaged
	}
	return n, nil
}
