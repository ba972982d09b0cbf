package agui

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// said is a message of an agent's snapshot, as far as it may be an answer.
type said struct {
	ID      text           `json:"id"`
	Role    text           `json:"role"`
	Content jsontext.Value `json:"content"`
	CallID  text           `json:"toolCallId"`
	Calls   []struct {
		ID       text `json:"id"`
		Function struct {
			Name      text `json:"name"`
			Arguments text `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
}

// snapshot remembers what follows the last message of the user: agents that do
// not stream say their answer only here.
func (r *reader) snapshot(v jsontext.Value) {
	if r.streamed {
		return
	}
	var list []said
	if json.Unmarshal(v, &list, lenient) != nil {
		return
	}
	r.final = nil
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role == "user" {
			r.final = list[i+1:]
			return
		}
	}
}

// recite says the answer of an agent that streamed nothing. A resumed run's
// snapshot holds the draft, too, which cannot be told from the new.
func (r *reader) recite() {
	if r.streamed || r.call.Resumed() {
		return
	}
	answered := make(map[text]bool)
	for _, m := range r.final {
		answered[m.CallID] = true
	}
	for n, m := range r.final {
		switch m.Role {
		case "assistant":
			id := "snapshot-" + strconv.Itoa(n)
			if s := words(m.Content); s != "" {
				r.send(agent.Event{Kind: chat.KindTextDelta, ID: id, Text: s})
				r.send(agent.Event{Kind: chat.KindTextEnd, ID: id})
			}
			for _, c := range m.Calls {
				r.send(agent.Event{Kind: chat.KindToolStart, ID: string(c.ID), Name: string(c.Function.Name)})
				r.send(agent.Event{Kind: chat.KindToolArgs, ID: string(c.ID), Text: string(c.Function.Arguments)})
				if !answered[c.ID] { // else its result ends it
					r.send(agent.Event{Kind: chat.KindToolEnd, ID: string(c.ID)})
				}
			}
		case "tool":
			r.send(agent.Event{Kind: chat.KindToolResult, ID: string(m.CallID), Text: words(m.Content)})
		}
	}
}
