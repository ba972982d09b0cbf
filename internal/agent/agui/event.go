package agui

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
)

// text is a string of the agent; what is no string counts as none, and half a
// surrogate pair is kept for its other half.
type text string

// UnmarshalJSON reads a string leniently; it never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	s, _ := agent.Unquote(b)
	*t = text(s)
	return nil
}

// event is any event of AG-UI, 1.0 or 0.x. What belongs to no field is ignored,
// rawEvent above all.
type event struct {
	Type      text           `json:"type"`
	Version   text           `json:"protocolVersion"`
	Message   text           `json:"messageId"`
	Role      text           `json:"role"`
	Delta     jsontext.Value `json:"delta"`
	Call      text           `json:"toolCallId"`
	CallName  text           `json:"toolCallName"`
	Parent    text           `json:"parentMessageId"`
	Content   jsontext.Value `json:"content"`
	Step      text           `json:"stepName"`
	Name      text           `json:"name"`
	Value     jsontext.Value `json:"value"`
	Snapshot  jsontext.Value `json:"snapshot"`
	Activity  text           `json:"activityType"`
	Replace   jsontext.Value `json:"replace"`
	Patch     jsontext.Value `json:"patch"`
	Messages  jsontext.Value `json:"messages"`
	Subtype   text           `json:"subtype"`
	Entity    text           `json:"entityId"`
	Encrypted text           `json:"encryptedValue"`
	Subagent  text           `json:"subagentRunId"`
	ForCall   text           `json:"parentToolCallId"`
	Outcome   jsontext.Value `json:"outcome"`
	Usage     jsontext.Value `json:"usage"`
	Error     jsontext.Value `json:"message"`
	Code      text           `json:"code"`
	Metadata  jsontext.Value `json:"metadata"`
}

// lenient lets doubled names and broken characters pass: they are mended later.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

func decodeEvent(data []byte) (event, bool) {
	var ev event
	err := json.Unmarshal(data, &ev, lenient)
	return ev, err == nil && ev.Type != ""
}

// outcome is how a run finished.
type outcome struct {
	Type       text        `json:"type"`
	Interrupts []interrupt `json:"interrupts"`
}

type interrupt struct {
	ID      text           `json:"id"`
	Reason  text           `json:"reason"`
	Message text           `json:"message"`
	Call    text           `json:"toolCallId"`
	Schema  jsontext.Value `json:"responseSchema"`
	Expires text           `json:"expiresAt"`
	Meta    jsontext.Value `json:"metadata"`
}

// words is a string, or the text parts of a list of content parts.
func words(v jsontext.Value) string {
	if v.Kind() != '[' {
		s, _ := agent.Unquote(v)
		return s
	}
	var parts []struct {
		Type text `json:"type"`
		Text text `json:"text"`
	}
	if json.Unmarshal(v, &parts, lenient) != nil {
		return ""
	}
	all := ""
	for _, p := range parts {
		if p.Type == "text" {
			all += string(p.Text)
		}
	}
	return all
}
