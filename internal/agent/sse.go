package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrEventTooLong is what an EventStream returns for an event or a line beyond
// its bound.
var ErrEventTooLong = errors.New("the event is longer than it may be")

// EventStream reads server-sent events: lines that end in LF or CRLF, comments,
// data over several lines, fields it does not know, a last event without its
// blank line. It is not safe for concurrent use.
type EventStream struct {
	r    *bufio.Reader
	max  int
	data []byte
	line []byte
	err  error
	any  bool // a line was read: no byte order mark can come
}

// NewEventStream reads events of at most n bytes each.
func NewEventStream(r io.Reader, n int) *EventStream {
	return &EventStream{r: bufio.NewReaderSize(r, 16<<10), max: n}
}

// Next returns the next event's name and data; data is valid until the call
// after. Events without data are passed over. The error is io.EOF at the end,
// ErrEventTooLong, or the reader's own; after an error there is nothing more.
func (s *EventStream) Next() (name string, data []byte, err error) {
	s.data = s.data[:0]
	has := false
	for {
		line, err := s.next()
		if err != nil {
			if errors.Is(err, io.EOF) && has {
				return name, s.data, nil
			}
			return "", nil, err
		}
		if len(line) == 0 {
			if has {
				return name, s.data, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if has {
				s.data = append(s.data, '\n')
			}
			if len(s.data)+len(value) > s.max {
				s.err = ErrEventTooLong
				return "", nil, s.err
			}
			s.data, has = append(s.data, value...), true
		}
	}
}

// next reads a line without its end; the last one may lack it. It is valid until
// the next one is read.
func (s *EventStream) next() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.line = s.line[:0]
	var line []byte
	for line == nil {
		part, err := s.r.ReadSlice('\n')
		if len(s.line)+len(part) > s.max+len("data: \r\n") {
			s.err = ErrEventTooLong
			return nil, s.err
		}
		switch {
		case err == nil && len(s.line) == 0:
			line = part // as it stands in the reader's buffer
		case errors.Is(err, bufio.ErrBufferFull):
			s.line = append(s.line, part...)
		default:
			s.line = append(s.line, part...)
			if s.err = err; err != nil && (len(s.line) == 0 || !errors.Is(err, io.EOF)) {
				return nil, err
			}
			line = s.line
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if !s.any {
		s.any = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line, nil
}
