package pilotoo

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestAnswersFitTheirQuestions(t *testing.T) {
	approval := &chat.Interrupt{Kind: chat.InterruptApproval}
	day := &chat.Interrupt{Kind: chat.InterruptClientTool, Schema: jsontext.Value(`{"type":"object","required":["day"],"properties":{"day":{"type":"string"}}}`)}
	free := &chat.Interrupt{Kind: chat.InterruptQuestion}
	endless := &chat.Interrupt{Kind: chat.InterruptQuestion, Schema: jsontext.Value(`{"$ref":"#"}`)}
	cases := []struct {
		name  string
		asked *chat.Interrupt
		value string
		ok    bool
	}{
		{"PIL-090 true approves", approval, `true`, true},
		{"PIL-090 false does not", approval, `false`, true},
		{"PIL-090 an object approves", approval, `{"approved":true}`, true},
		{"PIL-090 an object with a reason", approval, `{"approved":false,"reason":"too dear"}`, true},
		{"PIL-090 null is no decision", approval, `null`, false},
		{"PIL-090 text is no decision", approval, `"yes"`, false},
		{"PIL-090 approved must be a boolean", approval, `{"approved":"yes"}`, false},
		{"PIL-090 approved must be there", approval, `{"reason":"x"}`, false},
		{"PIL-090 a reason must be text", approval, `{"approved":true,"reason":1}`, false},
		{"PIL-090 another key", approval, `{"approved":true,"by":"me"}`, false},
		{"PIL-074 an answer that fits the schema", day, `{"day":"Monday"}`, true},
		{"PIL-074 one that does not", day, `{"day":1}`, false},
		{"PIL-074 one that is another type", day, `"Monday"`, false},
		{"PIL-074 a schema that never ends", endless, `1`, false},
		{"PIL-082 null where anything goes", free, `null`, true},
		{"PIL-082 nought where anything goes", free, `0`, true},
	}
	for _, c := range cases {
		err := checkAnswer(c.asked, jsontext.Value(c.value))
		if c.ok && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.ok {
			refused(t, c.name, err)
		}
	}
}
