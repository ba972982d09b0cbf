package chat

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// slowly reads a record without the scanner.
func slowly(b []byte) (*Record, error) {
	var w wireRecord
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, err
	}
	body, err := readBody(w.Kind, w.Body)
	if err != nil {
		return nil, err
	}
	return w.record(body), nil
}

// TestScannedRecords: what the scanner takes it reads as the full reading does,
// and what Marshal writes of a delta it takes.
func TestScannedRecords(t *testing.T) {
	delta := &Record{
		Pos: 9, At: 1796000000000, Seq: 3, Tag: 1<<64 - 1,
		Entry: Entry{Kind: KindTextDelta, Run: "r", N: 1, Body: &DeltaBody{Part: "p", Text: "\"\\\n\u2028😀\x7f"}},
	}
	b, err := delta.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := scanRecord(b); !ok || !reflect.DeepEqual(r, delta) {
		t.Fatalf("%s was read as %+v", b, r)
	}
	for _, change := range [][2]string{
		{`"p":9`, `"p":09`},
		{`"p":9`, `"p":18446744073709551616`},
		{`"p":9`, `"p":9.0`},
		{`"p":9`, `"p":-9`},
		{`"p":9`, `"p":9e0`},
		{`"p":9`, `"p":9,"p":9`},
		{`"p":9`, `"p":9,"z":9`},
		{`"p":9`, `"p": 9`},
		{`"p":9`, `"P":9`},
		{`"p":9,`, `"p":9,,`},
		{`"p":9`, `"\u0070":9`},
		{`"r":"r"`, "\"r\":\"\xff\""},
		{`"r":"r"`, `"r":"\ud800"`},
		{`"r":"r"`, `"r":"\x"`},
		{`"r":"r"`, "\"r\":\"\x01\""},
		{`"r":"r"`, `"r":1`},
		{`"n":1`, `"n":4294967296`},
		{`"n":1`, `"n":1,"g":false`},
		{`"n":1`, `"n":1,"o":true`},
		{`"t":1796000000000`, `"t":9223372036854775808`},
		{`text.delta`, `text.delt`},
		{`text.delta`, `tool.args`},
		{`text.delta`, `step`},
		{`{"part"`, `{"part":"q","part"`},
		{`,"text"`, `,"more":1,"text"`},
		{`}}`, `}`},
		{`}}`, `}}}`},
		{`}}`, `}} `},
		{`}}`, `},"w":1}`},
		{`{"k"`, ` {"k"`},
	} {
		text := strings.Replace(string(b), change[0], change[1], 1)
		if text == string(b) {
			t.Fatalf("%q is not there", change[0])
		}
		want, err := slowly([]byte(text))
		if r, ok := scanRecord([]byte(text)); ok && (err != nil || !reflect.DeepEqual(r, want)) {
			t.Errorf("%s was read as %+v, want %+v, %v", text, r, want, err)
		}
		if r, e := ParseRecord([]byte(text)); (e == nil) != (err == nil) || e == nil && !reflect.DeepEqual(r, want) {
			t.Errorf("%s was read as %+v %v, want %+v, %v", text, r, e, want, err)
		}
	}
}

func FuzzScanRecord(f *testing.F) {
	for k := KindThread; k < kindCount; k++ {
		b, _ := (&Record{Pos: 1, Tag: 2, Entry: Entry{Kind: k, Run: "r", Logged: true, Opens: true, Body: full(k)}}).Marshal()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, ok := scanRecord(b)
		if !ok {
			return
		}
		if want, err := slowly(b); err != nil || !reflect.DeepEqual(r, want) {
			t.Fatalf("%s was read as %+v, want %+v, %v", b, r, want, err)
		}
	})
}

func BenchmarkRecordOfDelta(b *testing.B) {
	r := &Record{Entry: NewEntry(KindTextDelta, "01890a5d-ac96-774b-bcce-b302099a8057", &DeltaBody{Part: "01890a5d-ac96-774b-bcce-b302099a8058", Text: "a few words\n"})}
	text, err := r.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Marshal(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseRecord(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read in full", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := slowly(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
