package filejournal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/parlance-gateway/parlance/internal/journal"
)

// blobs are files: blobs/<realm>/<id>, written aside and then renamed.
type blobs struct{ j *Journal }

// unfinished is the folder of files that are being written. No encoded realm
// is called so.
const unfinished = "tmp"

func (b *blobs) root() string { return filepath.Join(b.j.opts.Dir, "blobs") }

// open makes the folders and removes what a stop has left unfinished.
func (b *blobs) open() error {
	tmp := filepath.Join(b.root(), unfinished)
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	return nil
}

// fileName makes a name that is safe on every file system, and different for
// different s: s itself behind "_" if it is harmless, else "=" and a hash.
func fileName(s string) string {
	const longest = 100
	safe := s != "" && len(s) <= longest
	for i := 0; safe && i < len(s); i++ {
		c := s[i]
		safe = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if safe {
		return "_" + s
	}
	sum := sha256.Sum256([]byte(s))
	return "=" + hex.EncodeToString(sum[:])
}

func (b *blobs) path(realm, id string) string {
	return filepath.Join(b.root(), fileName(realm), fileName(id))
}

// PutBlob implements journal.Blobs. A blob of that id is replaced.
func (b *blobs) PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error) {
	if id == "" {
		return 0, errors.New("filejournal: a blob without an id")
	}
	if _, err := b.j.enter(); err != nil {
		return 0, err
	}
	defer b.j.leave()
	f, err := os.CreateTemp(filepath.Join(b.root(), unfinished), "*")
	if err != nil {
		return 0, fmt.Errorf("filejournal: %w", err)
	}
	n, err := fill(ctx, f, r, limit)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = b.settle(f.Name(), b.path(realm, id))
	}
	if err != nil {
		os.Remove(f.Name())
		return 0, fmt.Errorf("filejournal: writing a blob: %w", err)
	}
	return n, nil
}

func fill(ctx context.Context, f *os.File, r io.Reader, limit int64) (int64, error) {
	n, err := io.Copy(f, io.LimitReader(contextReader{ctx, r}, limit))
	if err != nil {
		return 0, err
	}
	if n == limit {
		var more [1]byte
		switch _, err := io.ReadFull(contextReader{ctx, r}, more[:]); {
		case err == nil:
			return 0, journal.ErrTooLarge
		case !errors.Is(err, io.EOF):
			return 0, err
		}
	}
	return n, f.Sync()
}

// settle moves a finished file to its place, durably.
func (b *blobs) settle(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return syncDir(b.root())
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // cannot be done there, and a rename is durable without it
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// OpenBlob implements journal.Blobs. The caller closes the reader, which may
// outlive the journal.
func (b *blobs) OpenBlob(_ context.Context, realm, id string) (io.ReadSeekCloser, int64, error) {
	if _, err := b.j.enter(); err != nil {
		return nil, 0, err
	}
	defer b.j.leave()
	f, err := os.Open(b.path(realm, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, journal.ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("filejournal: opening a blob: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("filejournal: opening a blob: %w", err)
	}
	return f, info.Size(), nil
}

// DeleteBlob implements journal.Blobs. A blob that is not there is no error.
func (b *blobs) DeleteBlob(_ context.Context, realm, id string) error {
	if _, err := b.j.enter(); err != nil {
		return err
	}
	defer b.j.leave()
	if err := os.Remove(b.path(realm, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("filejournal: deleting a blob: %w", err)
	}
	return nil
}
