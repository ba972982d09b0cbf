package conductor

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// An archive's blob is its pages, one behind the other as a journal would write
// them, then a list of the attachments that their messages name, then an index:
// for each of these parts its length and its SHA-256. The stub's sum is made of
// the index, the thread and the first page's number, so that neither a damaged
// blob nor that of another thread or place can be taken for this one.
const (
	indexEntry = 8 + sha256.Size
	// archiveBytes is how much one blob takes before the rest goes to the next.
	archiveBytes = 32 << 20
	// archiveLimit bounds a blob with its last page.
	archiveLimit = 4 << 30
)

// errSpoilt: what an archive was kept in is gone, damaged, or not its own.
// Trying again does not help.
var errSpoilt = errors.New("an archive is damaged")

// packing is pages on their way into a blob: it makes its bytes as they are
// read, with one page in memory.
type packing struct {
	page       func(n int) ([]*chat.Message, error)
	first, end int // the pages that it may take

	next  int // the page that comes
	files []string
	index []byte
	size  int64
	rest  []byte // made and not read yet
	done  bool
}

func (p *packing) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.done {
			return 0, io.EOF
		}
		if err := p.more(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *packing) more() error {
	if p.next < p.end && p.size < archiveBytes {
		list, err := p.page(p.next)
		if err != nil {
			return err
		}
		for _, m := range list {
			for _, a := range m.Attachments {
				p.files = append(p.files, a.ID)
			}
		}
		p.next++
		return p.add(list)
	}
	if len(p.index) == (p.next-p.first)*indexEntry {
		return p.add(p.files)
	}
	p.rest, p.done = p.index, true
	return nil
}

func (p *packing) add(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	sum := sha256.Sum256(b)
	p.index = append(binary.BigEndian.AppendUint64(p.index, uint64(len(b))), sum[:]...)
	p.size += int64(len(b))
	p.rest = b
	return nil
}

// stub is what the thread must know of the blob, once all of it was read.
func (p *packing) stub(key chat.Key, born uint64, blob string) chat.Archive {
	return chat.Archive{Blob: blob, First: p.first, Pages: p.next - p.first, Sum: archiveSum(key, born, p.first, p.index)}
}

// archiveSum binds an index to a thread, which its birth tells from others of
// its id, and to a place in it.
func archiveSum(key chat.Key, born uint64, first int, index []byte) string {
	h := sha256.New()
	for _, s := range []string{"parlance archive 1", key.Realm, key.Tenant, key.Thread} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		io.WriteString(h, s)
	}
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, born), uint64(first)))
	h.Write(index)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// unpacking is an archive that is open for reading.
type unpacking struct {
	stub  chat.Archive
	blob  io.ReadSeekCloser
	index []byte
	// starts are where the parts begin.
	starts []int64
}

// unpack opens a stub's blob and checks that it is the one. The error is
// errSpoilt if it is not.
func unpack(ctx context.Context, blobs journal.Blobs, key chat.Key, born uint64, a chat.Archive) (*unpacking, error) {
	r, size, err := blobs.OpenBlob(ctx, key.Realm, a.Blob)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, fmt.Errorf("%w: it is not there", errSpoilt)
	}
	if err != nil {
		return nil, err
	}
	u := &unpacking{stub: a, blob: r, index: make([]byte, (a.Pages+1)*indexEntry)}
	if err := u.open(key, born, size); err != nil {
		_ = r.Close()
		return nil, err
	}
	return u, nil
}

func (u *unpacking) open(key chat.Key, born uint64, size int64) error {
	at := size - int64(len(u.index))
	if at < 0 {
		return fmt.Errorf("%w: it is cut off", errSpoilt)
	}
	if err := u.read(at, u.index); err != nil {
		return err
	}
	if sum := archiveSum(key, born, u.stub.First, u.index); subtle.ConstantTimeCompare([]byte(sum), []byte(u.stub.Sum)) != 1 {
		return fmt.Errorf("%w: it is another's, or was changed", errSpoilt)
	}
	start := int64(0)
	for i := 0; i < len(u.index); i += indexEntry {
		u.starts = append(u.starts, start)
		start += int64(binary.BigEndian.Uint64(u.index[i:]))
	}
	if start != at {
		return fmt.Errorf("%w: it has another length", errSpoilt)
	}
	return nil
}

func (u *unpacking) read(at int64, b []byte) error {
	if _, err := u.blob.Seek(at, io.SeekStart); err != nil {
		return err
	}
	_, err := io.ReadFull(u.blob, b)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is cut off", errSpoilt)
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Errorf("%w: a piece of it is not there", errSpoilt)
	}
	return err
}

// part reads the n-th part into v.
func (u *unpacking) part(n int, v any) error {
	entry := u.index[n*indexEntry:]
	b := make([]byte, binary.BigEndian.Uint64(entry))
	if err := u.read(u.starts[n], b); err != nil {
		return err
	}
	if sum := sha256.Sum256(b); subtle.ConstantTimeCompare(sum[:], entry[8:indexEntry]) != 1 {
		return fmt.Errorf("%w: a page was changed", errSpoilt)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errSpoilt, err)
	}
	return nil
}

// page is one page of the thread, by its number there.
func (u *unpacking) page(n int) (list []*chat.Message, err error) {
	err = u.part(n-u.stub.First, &list)
	return list, err
}

// files are the attachments that the archive's messages name.
func (u *unpacking) files() (ids []string, err error) {
	err = u.part(u.stub.Pages, &ids)
	return ids, err
}

func (u *unpacking) close() { _ = u.blob.Close() }
