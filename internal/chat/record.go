package chat

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entry is what a writer hands to a journal: a record without its numbers.
type Entry struct {
	Kind Kind
	Run  string
	// Logged asks the store for the next log number (what Pingerchips shows).
	Logged bool
	// N is how many Pilotoo envelopes the record is: 0, 1 or more.
	N int
	// Opens says that the record is the first of a segment, so that its first
	// envelope is number 1.
	Opens bool
	Body  Body
}

// Record is an entry as the journal keeps it. The store gives the numbers; a
// writer never chooses them.
type Record struct {
	// Pos is dense per thread within an epoch: the master order.
	Pos uint64
	// At is in Unix milliseconds and never goes backwards within a thread.
	At int64
	// W is how many records the run's owner had appended in this attempt
	// before this one; 0 for a committed record.
	W uint64
	// Log is dense over the records that have one; 0 is none.
	Log uint64
	// Seq is the number of the first envelope that the record is.
	Seq uint64
	// Tag names the record, Prev the one before it: the chain that proves that
	// nothing was lost in between.
	Tag, Prev uint64
	Entry
}

// wireRecord is a record as it is stored and sent between edges; what is zero is
// left out.
type wireRecord struct {
	Pos    uint64         `json:"p"`
	At     int64          `json:"t"`
	Kind   Kind           `json:"k"`
	Run    string         `json:"r"`
	W      uint64         `json:"w"`
	Log    uint64         `json:"l"`
	Logged bool           `json:"g"`
	Seq    uint64         `json:"s"`
	N      int            `json:"n"`
	Opens  bool           `json:"o"`
	Tag    uint64         `json:"a"`
	Prev   uint64         `json:"v"`
	Body   jsontext.Value `json:"b"`
}

func (w *wireRecord) record(body Body) *Record {
	return &Record{
		Pos: w.Pos, At: w.At, W: w.W, Log: w.Log, Seq: w.Seq, Tag: w.Tag, Prev: w.Prev,
		Entry: Entry{Kind: w.Kind, Run: w.Run, Logged: w.Logged, N: w.N, Opens: w.Opens, Body: body},
	}
}

// Marshal writes the record as JSON. It is on the way of each token, so the body
// goes through reflection only where it is no delta.
func (r *Record) Marshal() ([]byte, error) { return r.AppendTo(nil) }

// AppendTo appends what Marshal writes.
func (r *Record) AppendTo(b []byte) ([]byte, error) {
	kind, err := r.Kind.name()
	if err != nil {
		return nil, err
	}
	delta, _ := r.Body.(*DeltaBody)
	var body []byte
	size := 0
	if delta != nil {
		size = len(delta.Part) + len(delta.Text) + len(delta.Text)/8 + 24
	} else {
		if body, err = json.Marshal(r.Body); err != nil {
			return nil, fmt.Errorf("chat: writing a %s record: %w", r.Kind, err)
		}
		size = len(body)
	}
	b = slices.Grow(b, size+len(r.Run)+160)
	b = append(append(append(b, `{"k":"`...), kind...), '"')
	number := func(name string, n uint64) {
		if n != 0 {
			b = strconv.AppendUint(append(append(append(b, `,"`...), name...), `":`...), n, 10)
		}
	}
	number("p", r.Pos)
	if r.At != 0 {
		b = strconv.AppendInt(append(b, `,"t":`...), r.At, 10)
	}
	if r.Run != "" {
		if b, err = jsontext.AppendQuote(append(b, `,"r":`...), r.Run); err != nil {
			return nil, fmt.Errorf("chat: writing a %s record: %w", r.Kind, err)
		}
	}
	number("w", r.W)
	number("l", r.Log)
	if r.Logged {
		b = append(b, `,"g":true`...)
	}
	number("s", r.Seq)
	if r.N != 0 {
		b = strconv.AppendInt(append(b, `,"n":`...), int64(r.N), 10)
	}
	if r.Opens {
		b = append(b, `,"o":true`...)
	}
	number("a", r.Tag)
	number("v", r.Prev)
	b = append(b, `,"b":`...)
	if delta == nil {
		return append(append(b, body...), '}'), nil
	}
	if b, err = appendBody(b, delta); err != nil {
		return nil, fmt.Errorf("chat: writing a %s record: %w", r.Kind, err)
	}
	return append(b, '}'), nil
}

// ParseRecord reads what Marshal wrote. Unknown members of messages, parts, runs
// and interrupts are kept, since they come into states; an unknown kind is an
// error.
func ParseRecord(b []byte) (*Record, error) {
	if r, ok := scanRecord(b); ok {
		return r, nil
	}
	var w wireRecord
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("chat: reading a record: %w", err)
	}
	body, err := readBody(w.Kind, w.Body)
	if err != nil {
		return nil, err
	}
	return w.record(body), nil
}

func readBody(k Kind, b []byte) (Body, error) {
	body := NewBody(k)
	if body == nil {
		return nil, fmt.Errorf("chat: reading a record: no body for kind %q", k)
	}
	if err := json.Unmarshal(b, body); err != nil {
		return nil, fmt.Errorf("chat: reading a %s record: %w", k, err)
	}
	if !sound(body) {
		return nil, fmt.Errorf("chat: reading a %s record: something is missing in it", k)
	}
	return body, nil
}
