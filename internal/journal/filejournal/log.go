package filejournal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	logPrefix = "stream."
	// segmentSize is when the log goes on in a new file. A record takes more
	// than 64 bytes of it, so fewer than journal.PositionJump stand between
	// two checkpoints.
	segmentSize = 16 << 20
	// idleSize is when a log that nobody needs is removed.
	idleSize = 256 << 10
)

// log is the newest file of what streams. Only the appending goroutine uses it.
type log struct {
	dir     string
	segment uint64
	file    *os.File
	size    int64
}

func logName(dir string, segment uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%016x", logPrefix, segment))
}

// logSegments lists the files of the log, oldest first.
func logSegments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), logPrefix)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(rest, 16, 64); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// next goes on in a new file.
func (l *log) next() error {
	f, err := os.OpenFile(logName(l.dir, l.segment+1), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close()
	}
	l.segment, l.file, l.size = l.segment+1, f, 0
	return nil
}

func (l *log) write(b []byte) error {
	n, err := l.file.Write(b)
	l.size += int64(n)
	return err
}
