package agui

import (
	"reflect"
	"testing"
)

// tokens are events, with whether they are read the short way.
var tokens = []struct {
	data  string
	short bool
}{
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"token "}`, true},
	{"{\"type\": \"TEXT_MESSAGE_CONTENT\", \"messageId\": \"m\",\t\"delta\": \"a\\nb \\\"é\\\" 中\"} ", true},
	{`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\":","timestamp":1796000000000}`, true},
	{`{"delta":"x","type":"REASONING_MESSAGE_CHUNK","messageId":""}`, true},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","delta":"b"}`, true},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}`, true},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d"}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a\n","delta":"x"}`, false},
	{"{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"\xff\"}", false},
	{"{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"\n\"}", false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\x"}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":null}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":["a"]}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","rawEvent":{"a":1}}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","timestamp":01}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","timestamp":1.5}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`, false},
	{`{"type":"TEXT_MESSAGE_START","messageId":"m","delta":"a"}`, false},
	{`{"messageId":"m","delta":"a"}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a",}`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"`, false},
	{`{"type":"TEXT_MESSAGE_CONTENT" "messageId":"m","delta":"a"}`, false},
	{`{}`, false},
	{``, false},
}

// TestTokens: what is read the short way is read as it would be in full.
func TestTokens(t *testing.T) {
	for _, c := range tokens {
		r := &reader{}
		ev, ok := r.token([]byte(c.data))
		if ok != c.short {
			t.Errorf("%s: short is %v", c.data, ok)
		}
		if want, valid := decodeEvent([]byte(c.data)); ok && (!valid || !reflect.DeepEqual(ev, want)) {
			t.Errorf("%s was read as %+v, want %+v", c.data, ev, want)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, c := range tokens {
		f.Add([]byte(c.data))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, ok := (&reader{}).token(b)
		if !ok {
			return
		}
		if want, valid := decodeEvent(b); !valid || !reflect.DeepEqual(ev, want) {
			t.Fatalf("%s was read as %+v, want %+v", b, ev, want)
		}
	})
}
