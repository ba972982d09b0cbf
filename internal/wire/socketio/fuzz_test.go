package socketio

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds what the parser accepts to what its caller relies on.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "0", `0{"a":1}`, "0/custom,{}", "1", "1/a", `2["m"]`, `2/a,12["m",{"a":[1,"x"]}]`, `3007[]`,
		`51-["m",{"_placeholder":true,"num":0}]`, `510-/a,1["m"]`, `61-1[]`, `4{}`, `2["\u006d", 1 ,[ ] ]`, "2[7]", `2["a\"b,[",{"}":"]"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(bytes.Clone(b))
		if err != nil {
			return
		}
		if p.id < NoAck || p.id > 999_999_999_999_999 || p.attachments < 0 || p.attachments > MaxAttachments {
			t.Fatalf("id %d, %d attachments", p.id, p.attachments)
		}
		if (p.attachments > 0) != (p.kind == typeBinaryEvent || p.kind == typeBinaryAck) {
			t.Fatalf("%d attachments in a packet of type %c", p.attachments, p.kind)
		}
		if p.namespace == "" || p.namespace[0] != '/' || strings.Contains(p.namespace, ",") {
			t.Fatalf("namespace %q", p.namespace)
		}
		for _, a := range p.args {
			if !json.Valid(a) {
				t.Fatalf("argument %q", a)
			}
		}
		if p.kind == typeEvent || p.kind == typeBinaryEvent {
			check(t, p)
		}
		if err := placeholders(p.args, p.attachments); err != nil {
			return
		}
		if p.kind == typeEvent && utf8.Valid(b) {
			again(t, p)
		}
	})
}

// check compares the split with encoding/json's.
func check(t *testing.T, p packet) {
	var all []json.RawMessage
	if err := json.Unmarshal(p.payload, &all); err != nil || len(all) != len(p.args)+1 {
		t.Fatalf("%q: %d arguments and a name, json has %d: %v", p.payload, len(p.args), len(all), err)
	}
	for i, a := range p.args {
		if !bytes.Equal(a, all[i+1]) {
			t.Fatalf("argument %d: %q, json has %q", i, a, all[i+1])
		}
	}
}

// again encodes the event and parses that.
func again(t *testing.T, p packet) {
	f := NewBinaryEvent(p.namespace, p.name, p.args, nil)
	var payload []byte
	if b := f.packet.Text(); len(b) > 0 {
		payload = b[1:]
	}
	q, err := parse(payload)
	if err != nil || q.name != p.name || q.namespace != p.namespace || len(q.args) != len(p.args) {
		t.Fatalf("%q became %q: %v", p.payload, payload, err)
	}
}
