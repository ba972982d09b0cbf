package chat

import (
	"fmt"
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

// Marshal writes the record as JSON. It is on the way of each token, so only the
// body goes through reflection.
func (r *Record) Marshal() ([]byte, error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, fmt.Errorf("chat: writing a %s record: %w", r.Kind, err)
	}
	kind, err := r.Kind.MarshalText()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(body)+len(r.Run)+160)
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
	return append(append(append(b, `,"b":`...), body...), '}'), nil
}

// ParseRecord reads what Marshal wrote. Unknown members of messages, parts, runs
// and interrupts are kept, since they come into states; an unknown kind is an
// error.
func ParseRecord(b []byte) (*Record, error) {
	var w wireRecord
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("chat: reading a record: %w", err)
	}
	body := NewBody(w.Kind)
	if body == nil {
		return nil, fmt.Errorf("chat: reading a record: no body for kind %q", w.Kind)
	}
	if err := json.Unmarshal(w.Body, body); err != nil {
		return nil, fmt.Errorf("chat: reading a %s record: %w", w.Kind, err)
	}
	if !sound(body) {
		return nil, fmt.Errorf("chat: reading a %s record: something is missing in it", w.Kind)
	}
	return &Record{
		Pos: w.Pos, At: w.At, W: w.W, Log: w.Log, Seq: w.Seq, Tag: w.Tag, Prev: w.Prev,
		Entry: Entry{Kind: w.Kind, Run: w.Run, Logged: w.Logged, N: w.N, Opens: w.Opens, Body: body},
	}, nil
}
