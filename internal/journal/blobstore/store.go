// Package blobstore keeps blobs in a file store such as Caddy's storage, which may
// be a folder, a bucket or a database. What is stored under one key is small; so a
// blob is pieces under a random name of their own, then a head that names them.
// Without a head there is no blob: one that was not written to its end is not
// there, and one that is replaced is the old one until then. Who may use the store,
// and whether it is shared by all who must see it, is for its callers to know.
package blobstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// pieceSize is how much of a blob is in memory at once, in bytes.
const pieceSize = 4 << 20

// tidyLimit bounds the removal of what a failure has left.
const tidyLimit = 10 * time.Second

// errDamaged: what the storage gives back is not what was written. Asking again
// does not help, so to a reader it is not there.
var errDamaged = fmt.Errorf("blobstore: a damaged blob: %w", journal.ErrNotFound)

// Storage is a file store; Caddy's storage is one. What is not there is
// fs.ErrNotExist. It may be used from several goroutines at once.
type Storage interface {
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

// Blobs are the blobs below one folder of a storage.
type Blobs struct {
	storage Storage
	folder  string
	log     *slog.Logger
}

// New returns the blobs below a folder, whose name is a key of the storage.
func New(s Storage, folder string, log *slog.Logger) *Blobs {
	return &Blobs{storage: s, folder: folder, log: log}
}

// blobHead is what stands under a blob's name.
type blobHead struct {
	// Set begins the names of the pieces, each of Piece bytes but the last.
	Set   string `json:"set"`
	Size  int64  `json:"size"`
	Piece int64  `json:"piece"`
}

// path is where a blob's head is. Any name gives a path that is safe in every
// storage, and another for another name.
func (b *Blobs) path(realm, id string) string {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, uint32(len(realm)))
	io.WriteString(h, realm+id)
	return b.folder + "/" + hex.EncodeToString(h.Sum(nil))
}

func piecePath(set string, n int64) string { return set + "/" + strconv.FormatInt(n, 10) }

// PutBlob implements journal.Blobs. A blob of that id is replaced.
func (b *Blobs) PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error) {
	if id == "" {
		return 0, errors.New("blobstore: a blob without an id")
	}
	path := b.path(realm, id)
	old, err := b.head(ctx, path)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return 0, err
	}
	h := blobHead{Set: path + "-" + strconv.FormatUint(rand.Uint64(), 36), Piece: pieceSize}
	if h.Size, err = fill(ctx, b.storage, h.Set, r, limit); err == nil {
		var text []byte
		if text, err = json.Marshal(h); err == nil {
			err = b.storage.Store(ctx, path, text)
		}
	}
	if err != nil {
		b.tidy(ctx, h, true)
		return 0, fmt.Errorf("blobstore: writing a blob: %w", err)
	}
	b.tidy(ctx, old, false)
	return h.Size, nil
}

// fill stores pieces until r ends, and returns how much was stored, also if it
// fails.
func fill(ctx context.Context, s Storage, set string, r io.Reader, limit int64) (int64, error) {
	piece := make([]byte, min(pieceSize, max(limit, 0)+1))
	size := int64(0)
	for n := int64(0); ; n++ {
		if err := ctx.Err(); err != nil {
			return size, err
		}
		// One byte beyond the limit is enough to know.
		got, err := io.ReadFull(r, piece[:min(int64(len(piece)), limit-size+1)])
		done := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !done:
			return size, err
		case size+int64(got) > limit:
			return size, journal.ErrTooLarge
		case got > 0:
			if err := s.Store(ctx, piecePath(set, n), piece[:got:got]); err != nil {
				return size + int64(got), err
			}
			size += int64(got)
		}
		if done {
			return size, nil
		}
		piece = make([]byte, len(piece)) // the storage may keep the last one
	}
}

// tidy removes the pieces of a blob, as far as that can be done: without a head
// nothing finds them. An unknown end has one piece more.
func (b *Blobs) tidy(ctx context.Context, h blobHead, unknown bool) {
	if h.Set == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	end := (h.Size + h.Piece - 1) / h.Piece
	if unknown {
		end++
	}
	for n := range end {
		if err := ctx.Err(); err != nil { // a damaged head may name more pieces than there are
			b.log.Warn("pieces of a file may be left in the storage", "error", err)
			return
		}
		if err := b.storage.Delete(ctx, piecePath(h.Set, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.log.Warn("a piece of a file could not be removed from the storage", "error", err)
			return
		}
	}
}

func (b *Blobs) head(ctx context.Context, path string) (h blobHead, err error) {
	text, err := b.storage.Load(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, journal.ErrNotFound
	}
	if err != nil {
		return h, fmt.Errorf("blobstore: a blob: %w", err)
	}
	if err := json.Unmarshal(text, &h); err != nil || h.Set == "" || h.Size < 0 || h.Piece < 1 || h.Piece > pieceSize || h.Size > math.MaxInt64-h.Piece {
		return blobHead{}, errDamaged
	}
	return h, nil
}

// OpenBlob implements journal.Blobs. The reader has one piece in memory; it
// lives as long as its caller keeps it, whatever becomes of ctx.
func (b *Blobs) OpenBlob(ctx context.Context, realm, id string) (io.ReadSeekCloser, int64, error) {
	h, err := b.head(ctx, b.path(realm, id))
	if err != nil {
		return nil, 0, err
	}
	return &blobReader{ctx: context.WithoutCancel(ctx), storage: b.storage, head: h, piece: -1}, h.Size, nil
}

// DeleteBlob implements journal.Blobs. A blob that is not there is no error.
func (b *Blobs) DeleteBlob(ctx context.Context, realm, id string) error {
	path := b.path(realm, id)
	h, err := b.head(ctx, path)
	switch {
	case errors.Is(err, errDamaged): // nobody knows its pieces
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if err := b.storage.Delete(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blobstore: deleting a blob: %w", err)
	}
	b.tidy(ctx, h, false)
	return nil
}

// blobReader reads a blob piece by piece.
type blobReader struct {
	ctx     context.Context
	storage Storage
	head    blobHead
	at      int64
	piece   int64 // that is in data, -1 for none
	data    []byte
}

func (r *blobReader) Read(p []byte) (int, error) {
	if r.at >= r.head.Size {
		return 0, io.EOF
	}
	if want := r.at / r.head.Piece; want != r.piece {
		data, err := r.storage.Load(r.ctx, piecePath(r.head.Set, want))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, errDamaged
		}
		if err != nil {
			return 0, fmt.Errorf("blobstore: reading a blob: %w", err)
		}
		if int64(len(data)) != min(r.head.Piece, r.head.Size-want*r.head.Piece) {
			return 0, errDamaged
		}
		r.data, r.piece = data, want
	}
	n := copy(p, r.data[r.at%r.head.Piece:])
	r.at += int64(n)
	return n, nil
}

func (r *blobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.head.Size
	}
	if offset < 0 {
		return 0, errors.New("blobstore: a place before the blob")
	}
	r.at = offset
	return offset, nil
}

func (r *blobReader) Close() error {
	r.data, r.piece, r.at = nil, -1, r.head.Size
	return nil
}

// Interface guard
var _ journal.Blobs = (*Blobs)(nil)
