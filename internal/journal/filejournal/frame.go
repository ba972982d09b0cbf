package filejournal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

const (
	// maxWriteBytes bounds the records of one append or commit.
	maxWriteBytes = journal.MaxRecord + 8<<20
	// maxFrame bounds a frame's payload: such a write, its key and its numbers.
	maxFrame = maxWriteBytes + 1<<20
	// frameHead is a frame's length and checksum, 4 bytes each.
	frameHead = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamed is one append as the log has it: what it did to the thread.
type streamed struct {
	key   chat.Key
	epoch uint64
	run   string
	// w, tag and seq are the run's after the append.
	w, tag, seq uint64
	records     [][]byte
}

// frame adds the append to b: length, checksum, payload.
func (s *streamed) frame(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHead)...)
	for _, x := range []string{s.key.Realm, s.key.Tenant, s.key.Thread, s.run} {
		b = binary.AppendUvarint(b, uint64(len(x)))
		b = append(b, x...)
	}
	for _, n := range []uint64{s.epoch, s.w, s.tag, s.seq, uint64(len(s.records))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, r := range s.records {
		b = binary.AppendUvarint(b, uint64(len(r)))
		b = append(b, r...)
	}
	payload := b[start+frameHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(payload, castagnoli))
	return b
}

var (
	// errTorn: the bytes end within a frame, as after a write that was cut off.
	errTorn = errors.New("filejournal: the log ends within a record")
	// errCorrupt: the bytes are no frame.
	errCorrupt = errors.New("filejournal: the log is damaged")
)

// nextFrame reads one frame and returns what follows it, or errTorn or
// errCorrupt.
func nextFrame(b []byte) (s streamed, rest []byte, err error) {
	if len(b) < frameHead {
		return s, b, errTorn
	}
	size := binary.LittleEndian.Uint32(b)
	if size == 0 || size > maxFrame {
		return s, b, errCorrupt
	}
	if uint64(len(b)-frameHead) < uint64(size) {
		return s, b, errTorn
	}
	payload, rest := b[frameHead:frameHead+size], b[frameHead+size:]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return s, b, errCorrupt
	}
	r := reader{b: payload}
	s.key = chat.Key{Realm: r.text(), Tenant: r.text(), Thread: r.text()}
	s.run = r.text()
	s.epoch, s.w, s.tag, s.seq = r.number(), r.number(), r.number(), r.number()
	for n := r.number(); n > 0 && !r.bad; n-- {
		s.records = append(s.records, r.bytes())
	}
	if r.bad || len(r.b) > 0 {
		return s, b, errCorrupt
	}
	return s, rest, nil
}

// reader takes values from a payload; bad says that one was not there.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	n, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[k:]
	return n
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) text() string { return string(r.bytes()) }
