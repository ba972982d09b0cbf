package chat

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads JSON of the plain form that Marshal writes. It is on the way of
// each token, where reflection would cost more than all else; what it does not
// know it gives up, and ParseRecord reads that in full. It accepts nothing that
// the full reading would refuse.
type scanner struct {
	b   []byte
	bad bool
}

func (s *scanner) skip(c byte) {
	if len(s.b) == 0 || s.b[0] != c {
		s.bad, s.b = true, nil
		return
	}
	s.b = s.b[1:]
}

func (s *scanner) word(w string) {
	if len(s.b) < len(w) || string(s.b[:len(w)]) != w {
		s.bad, s.b = true, nil
		return
	}
	s.b = s.b[len(w):]
}

// more says whether another member follows, and steps over what says so.
func (s *scanner) more() bool {
	if len(s.b) > 0 && s.b[0] == ',' {
		s.b = s.b[1:]
		return true
	}
	s.skip('}')
	return false
}

// number reads one without sign, fraction, exponent or leading zero.
func (s *scanner) number() uint64 {
	n, i := uint64(0), 0
	for ; i < len(s.b) && i < 20 && '0' <= s.b[i] && s.b[i] <= '9'; i++ {
		d := uint64(s.b[i] - '0')
		if n > (1<<64-1-d)/10 {
			i = 0
			break
		}
		n = 10*n + d
	}
	if i == 0 || i > 1 && s.b[0] == '0' {
		s.bad, s.b = true, nil
		return 0
	}
	s.b = s.b[i:]
	return n
}

// raw reads a string with its quotes; plain says that it stands for itself.
func (s *scanner) raw() (quoted []byte, plain bool) {
	s.skip('"')
	b, i := s.b, 0
	for plain = true; i < len(b) && b[i] != '"'; i++ {
		switch {
		case b[i] < 0x20:
			i = len(b)
		case b[i] == '\\':
			plain = false
			i++
		}
	}
	if i >= len(b) {
		s.bad, s.b = true, nil
		return nil, false
	}
	s.b = b[i+1:]
	return b[:i], plain
}

func (s *scanner) text() string {
	whole := s.b
	q, plain := s.raw()
	switch {
	case s.bad:
		return ""
	case plain && utf8.Valid(q):
		return string(q)
	case !plain:
		if text, err := jsontext.AppendUnquote(make([]byte, 0, len(q)), whole[:len(q)+2]); err == nil {
			return string(text)
		}
	}
	s.bad, s.b = true, nil
	return ""
}

// scanRecord reads a record whose body is written last, as Marshal does.
func scanRecord(b []byte) (*Record, bool) {
	s := scanner{b: b}
	r := new(Record)
	seen := uint32(0)
	s.skip('{')
	for more := true; more && !s.bad; more = s.more() {
		name, _ := s.raw()
		s.skip(':')
		if s.bad || len(name) != 1 || name[0] < 'a' || name[0] > 'z' || seen&(1<<(name[0]-'a')) != 0 {
			return nil, false
		}
		seen |= 1 << (name[0] - 'a')
		switch name[0] {
		case 'p':
			r.Pos = s.number()
		case 't':
			n := s.number()
			if n > 1<<62 {
				return nil, false
			}
			r.At = int64(n)
		case 'k':
			k, _ := s.raw()
			r.Kind = kindByName[string(k)]
		case 'r':
			r.Run = s.text()
		case 'w':
			r.W = s.number()
		case 'l':
			r.Log = s.number()
		case 'g':
			s.word("true")
			r.Logged = true
		case 's':
			r.Seq = s.number()
		case 'n':
			n := s.number()
			if n > 1<<31-1 {
				return nil, false
			}
			r.N = int(n)
		case 'o':
			s.word("true")
			r.Opens = true
		case 'a':
			r.Tag = s.number()
		case 'v':
			r.Prev = s.number()
		case 'b':
			end := len(s.b) - 1
			if end < 0 || s.b[end] != '}' || r.Kind == KindNone {
				return nil, false
			}
			if r.Body = scanBody(r.Kind, s.b[:end]); r.Body == nil {
				return nil, false
			}
			s.b = s.b[end:]
		default:
			return nil, false
		}
	}
	return r, !s.bad && len(s.b) == 0 && r.Body != nil
}

// scanBody reads a body that is a delta, or in full what is something else.
func scanBody(k Kind, b []byte) Body {
	if !k.Delta() {
		body, err := readBody(k, b)
		if err != nil {
			return nil
		}
		return body
	}
	s, d := scanner{b: b}, new(DeltaBody)
	s.word(`{"part":`)
	d.Part = s.text()
	s.word(`,"text":`)
	d.Text = s.text()
	s.skip('}')
	if s.bad || len(s.b) > 0 {
		return nil
	}
	return d
}

// appendBody writes what scanBody reads.
func appendBody(b []byte, d *DeltaBody) ([]byte, error) {
	b, err := jsontext.AppendQuote(append(b, `{"part":`...), d.Part)
	if err != nil {
		return nil, err
	}
	if b, err = jsontext.AppendQuote(append(b, `,"text":`...), d.Text); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}
