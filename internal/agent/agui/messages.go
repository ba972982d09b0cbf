package agui

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// message is a message of any role, on its way to the agent.
type message struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	// Content is a string or a list of parts; an assistant that only calls
	// tools has none.
	Content   jsontext.Value `json:"content,omitzero"`
	Calls     []toolCall     `json:"toolCalls,omitempty"`
	Call      string         `json:"toolCallId,omitempty"`
	Error     string         `json:"error,omitempty"`
	Encrypted string         `json:"encryptedValue,omitempty"`
}

type toolCall struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Function  function `json:"function"`
	Encrypted string   `json:"encryptedValue,omitempty"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func content(s string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return jsontext.Value(`""`)
	}
	return v
}

// messages is the branch as AG-UI messages: one assistant message for each
// text part with the calls that follow it, then their results. No call is left
// without a result, since model providers refuse such a history for ever; only
// those that the agent itself is to finish now stay open.
func (a *Agent) messages(ctx context.Context, call *agent.Call) ([]message, error) {
	files, err := a.attachments(ctx, call)
	if err != nil {
		return nil, err
	}
	list := []message{}
	for _, m := range call.Messages {
		if m.Role == chat.User {
			list = append(list, message{ID: m.ID, Role: "user", Content: userContent(m, files)})
			continue
		}
		w := writer{plain: a.peer.Load() == peerOne, list: list}
		w.parts(m.Parts, nil)
		list = w.list
	}
	if !call.Resumed() {
		return list, nil
	}
	open := make(map[string]*chat.Interrupt)
	for _, i := range call.Answers {
		if i.Call != "" {
			open[i.Call] = i
		}
	}
	w := writer{plain: a.peer.Load() == peerOne, list: list, only: a.cfg.History != 0}
	w.parts(call.Draft, open)
	return w.list, nil
}

// writer writes the parts of answers as messages.
type writer struct {
	list  []message
	plain bool // reasoning travels also where it has no encrypted value
	only  bool // only the results of client tools travel

	current *message // the assistant message that calls still join
	results []message
}

func (w *writer) flush() {
	if w.current != nil && !w.only {
		w.list = append(w.list, *w.current)
	}
	w.list = append(w.list, w.results...)
	w.current, w.results = nil, nil
}

// parts writes an answer; open are the questions just settled, by call.
func (w *writer) parts(parts []*chat.Part, open map[string]*chat.Interrupt) {
	for _, p := range parts {
		switch p.Type {
		case chat.PartText:
			if len(p.Text) == 0 && p.Encrypted == "" {
				continue
			}
			w.flush()
			w.current = &message{ID: p.ID, Role: "assistant", Content: content(string(p.Text)), Encrypted: p.Encrypted}
		case chat.PartReasoning:
			if w.only || (p.Encrypted == "" && (!w.plain || len(p.Text) == 0)) {
				continue
			}
			w.flush()
			w.list = append(w.list, message{ID: p.ID, Role: "reasoning", Content: content(string(p.Text)), Encrypted: p.Encrypted})
		case chat.PartTool:
			w.call(p, open[p.ID])
		}
	}
	w.flush()
}

func (w *writer) call(p *chat.Part, asked *chat.Interrupt) {
	if w.current == nil {
		w.current = &message{ID: p.ID, Role: "assistant"}
	}
	args := string(p.Text)
	if !jsontext.Value(p.Text).IsValid() {
		args = "{}"
	}
	w.current.Calls = append(w.current.Calls, toolCall{
		ID: p.ID, Type: "function", Function: function{p.Name, args}, Encrypted: p.Encrypted,
	})
	result := message{ID: p.ResultID, Role: "tool", Call: p.ID, Content: content(p.Result)}
	switch {
	case asked != nil && asked.Gate != "" && !p.Done && !asked.Approved():
		result.Content = content(agent.Refusal(asked))
	case asked != nil && asked.Kind == chat.InterruptClientTool:
		result.Content = content(agent.AnswerText(asked))
		if asked.Status != chat.InterruptAnswered && len(asked.Answer) == 0 {
			result.Error = agent.AnswerText(asked)
		}
	case w.only, asked != nil && !p.Done:
		return
	case !p.Done:
		result.Error = "the run ended before this call had a result"
		result.Content = content(result.Error)
	}
	if result.ID == "" {
		result.ID = p.ID + "-result"
	}
	w.results = append(w.results, result)
}
