package phoenix

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzParse: what is accepted is an array of five with strings where they belong,
// as another decoder sees it, and its parts are the client's own bytes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		joinRoom, `[null,"1","phoenix","heartbeat",{}]`, `["1",2,"t","e",[1,"]",{"a":"\\"}]]`, `[]`, `{}`, `["1","2","t","e"]`,
		`["1","2","t","e",{},1]`, " [ 1 , null , \"\\ud83d\" , \"e\" , 0 ] ", `["1","2","t","e",]`, `[,,,,]`, `["a\"","2","t,","e",","]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return
		}
		m, err := parse(b)
		var want []json.RawMessage
		decoded := json.Unmarshal(b, &want) == nil && len(want) == 5
		if err != nil {
			var topic, event string
			if decoded && json.Unmarshal(want[2], &topic) == nil && json.Unmarshal(want[3], &event) == nil &&
				want[2][0] == '"' && want[3][0] == '"' && len(want[2]) <= maxTopic && len(want[3]) <= maxEvent && refLike(want[0]) && refLike(want[1]) {
				t.Fatalf("%q was refused: %v", b, err)
			}
			return
		}
		if !decoded {
			t.Fatalf("%q was accepted", b)
		}
		var topic, event string
		if json.Unmarshal(want[2], &topic) != nil || json.Unmarshal(want[3], &event) != nil ||
			topic != m.topic || event != m.event || string(want[4]) != string(m.payload) {
			t.Fatalf("%q: %+v", b, m)
		}
		for i, ref := range []Ref{m.joinRef, m.ref} {
			if string(want[i]) != string(appendRef(nil, ref)) {
				t.Fatalf("%q: ref %q", b, ref)
			}
		}
		// What is sent with these parts is a frame again.
		sent := headOf(m.joinRef) + string(tail(m.ref, m.topic, m.event, m.payload))
		if again, err := parse([]byte(sent)); err != nil || again.topic != m.topic || again.event != m.event {
			t.Fatalf("%q: sent as %q: %v", b, sent, err)
		}
	})
}

func refLike(b []byte) bool {
	return len(b) <= maxRef && b[0] != '[' && b[0] != '{' && b[0] != 't' && b[0] != 'f'
}
