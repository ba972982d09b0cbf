package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// actor is an AG-UI agent that plays what a scenario's file says its model does.
// A conversation keeps to the script that was loaded when it began, so that what
// one scenario leaves behind takes nothing from the next.
type actor struct {
	mu      sync.Mutex
	loaded  *part
	threads map[string]*part
}

// part is one scenario's script and how far it has been played.
type part struct {
	mu    sync.Mutex
	stage stage
	items []line
	n     int // of items begun, for ids
	calls map[string]heldLine
	// seen are the inputs that the agent was given.
	seen []runInput
}

// stage is what the scenario's server has.
type stage struct {
	Tools []struct {
		Name   string `json:"name"`
		Result string `json:"result"`
	} `json:"tools"`
	Confirm []string `json:"confirmTools"`
	// Leaves are tools whose calls the agent leaves open, to carry them out when it
	// is called again.
	Leaves    []string `json:"leaves"`
	Knowledge []struct {
		Source  string `json:"source"`
		Content string `json:"content"`
	} `json:"knowledge"`
}

// line is one thing that the model does: the format's text and toolCall, and what
// spec/smooth adds to them.
type line struct {
	Kind      string          `json:"kind"`
	Text      string          `json:"text"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Value     json.RawMessage `json:"value"`
	// Pause is the time between the pieces of a text, in ms.
	Pause int `json:"pauseMs"`
}

// heldLine is a call that waits for an approval.
type heldLine struct{ call, tool string }

// runInput is what an agent is given, as far as an actor looks at it.
type runInput struct {
	Thread   string `json:"threadId"`
	Run      string `json:"runId"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Forwarded json.RawMessage `json:"forwardedProps"`
	Resume    []struct {
		Interrupt string          `json:"interruptId"`
		Status    string          `json:"status"`
		Payload   json.RawMessage `json:"payload"`
	} `json:"resume"`
}

func newActor() *actor { return &actor{threads: map[string]*part{}} }

// load gives the conversations that begin from now on a script.
func (a *actor) load(s stage, items []line) *part {
	p := &part{stage: s, items: items, calls: map[string]heldLine{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loaded = p
	return p
}

func (a *actor) of(thread string) *part {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.threads[thread]
	if p == nil {
		p = a.loaded
		a.threads[thread] = p
	}
	return p
}

func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in runInput
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "bad input", http.StatusBadRequest)
		return
	}
	p := a.of(in.Thread)
	if p == nil {
		http.Error(w, "no script", http.StatusServiceUnavailable)
		return
	}
	p.mu.Lock()
	p.seen = append(p.seen, in)
	p.mu.Unlock()
	s := &scene{w: w, r: r, in: in, part: p}
	s.play()
}

// inputs are what the agent was given so far.
func (p *part) inputs() []runInput {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]runInput(nil), p.seen...)
}

// next takes the next line, and a number for its ids.
func (p *part) next() (line, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if len(p.items) == 0 {
		return line{Kind: "text"}, p.n
	}
	i := p.items[0]
	p.items = p.items[1:]
	return i, p.n
}

func (p *part) hold(id string, h heldLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[id] = h
}

func (p *part) held(id string) (heldLine, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.calls[id]
	delete(p.calls, id)
	return h, ok
}

func (s stage) result(tool string) string {
	for _, t := range s.Tools {
		if t.Name == tool {
			return t.Result
		}
	}
	return "Error: no tool " + strings.ToUpper(tool)
}

// scene is one request to the agent.
type scene struct {
	w       http.ResponseWriter
	r       *http.Request
	in      runInput
	part    *part
	started bool
}

type fields map[string]any

// say writes an event; false if nobody reads any more.
func (s *scene) say(kind string, f fields) bool {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		if !s.say("RUN_STARTED", fields{"threadId": s.in.Thread, "runId": s.in.Run, "protocolVersion": "1.0"}) {
			return false
		}
	}
	e := fields{"type": kind}
	for k, v := range f {
		e[k] = v
	}
	b, err := json.Marshal(e)
	if err != nil {
		return false
	}
	if _, err := fmt.Fprintf(s.w, "data: %s\n\n", b); err != nil {
		return false
	}
	return http.NewResponseController(s.w).Flush() == nil && s.r.Context().Err() == nil
}

func (s *scene) finish(f fields) bool {
	e := fields{"threadId": s.in.Thread, "runId": s.in.Run}
	for k, v := range f {
		e[k] = v
	}
	return s.say("RUN_FINISHED", e)
}

// ask ends the run with a question.
func (s *scene) ask(q fields) bool {
	return s.finish(fields{"outcome": fields{"type": "interrupt", "interrupts": []fields{q}}})
}

// play answers what was asked, and then goes on with the script.
func (s *scene) play() {
	for _, r := range s.in.Resume {
		h, ok := s.part.held(r.Interrupt)
		if !ok {
			continue
		}
		var yes struct {
			Approved bool `json:"approved"`
		}
		result := "Denied by human: user rejected the action"
		if json.Unmarshal(r.Payload, &yes) == nil && r.Status == "resolved" && yes.Approved {
			result = s.part.stage.result(h.tool)
		}
		if !s.result(h.call, result) {
			return
		}
	}
	for {
		i, n := s.part.next()
		if s.r.Context().Err() != nil || !s.line(i, n) {
			return
		}
	}
}

// line does one thing, and says whether the run goes on.
func (s *scene) line(i line, n int) bool {
	id := fmt.Sprintf("i%d", n)
	switch i.Kind {
	case "toolCall":
		return s.tool(i, id)
	case "custom":
		return s.say("CUSTOM", fields{"name": i.Name, "value": i.Value})
	case "state":
		return s.say("STATE_SNAPSHOT", fields{"snapshot": i.Value})
	case "step":
		return s.say("STEP_STARTED", fields{"stepName": i.Name}) && s.say("STEP_FINISHED", fields{"stepName": i.Name})
	case "reasoning":
		return s.say("REASONING_START", fields{"messageId": id}) &&
			s.say("REASONING_MESSAGE_START", fields{"messageId": id, "role": "reasoning"}) &&
			s.say("REASONING_MESSAGE_CONTENT", fields{"messageId": id, "delta": i.Text}) &&
			s.say("REASONING_MESSAGE_END", fields{"messageId": id}) &&
			s.say("REASONING_END", fields{"messageId": id})
	case "ask":
		q := fields{"id": id}
		_ = json.Unmarshal(i.Value, &q)
		if i.Arguments != "" {
			q["responseSchema"] = json.RawMessage(i.Arguments)
		}
		s.ask(q)
		return false
	case "hang":
		if s.say("STEP_STARTED", fields{"stepName": "hang"}) {
			<-s.r.Context().Done()
		}
		return false
	case "cut": // the body ends without a word
		return false
	case "fail":
		if i.Name == "AGENT_UNAVAILABLE" && !s.started {
			http.Error(s.w, i.Text, http.StatusServiceUnavailable)
			return false
		}
		s.say("RUN_ERROR", fields{"message": i.Text, "code": i.Name})
		return false
	case "part":
		return s.text(i, id)
	}
	if list := s.part.stage.citations(); list != nil && !s.say("CUSTOM", fields{"name": "citations", "value": list}) {
		return false
	}
	if s.text(i, id) {
		s.finish(fields{"usage": []fields{{"inputTokens": 10, "outputTokens": 5}}})
	}
	return false
}

// text streams a text, three characters at a time.
func (s *scene) text(i line, id string) bool {
	if !s.say("TEXT_MESSAGE_START", fields{"messageId": id, "role": "assistant"}) {
		return false
	}
	r := []rune(i.Text)
	for len(r) > 0 {
		k := min(3, len(r))
		if !s.say("TEXT_MESSAGE_CONTENT", fields{"messageId": id, "delta": string(r[:k])}) {
			return false
		}
		if r = r[k:]; i.Pause > 0 {
			select {
			case <-time.After(time.Duration(i.Pause) * time.Millisecond):
			case <-s.r.Context().Done():
				return false
			}
		}
	}
	return s.say("TEXT_MESSAGE_END", fields{"messageId": id})
}

func (s *scene) tool(i line, id string) bool {
	leaves := slices.Contains(s.part.stage.Leaves, i.Name)
	if leaves {
		s.part.hold(id, heldLine{id, i.Name}) // a gateway that asks hangs up at the call's end
	}
	if !s.say("TOOL_CALL_START", fields{"toolCallId": id, "toolCallName": i.Name}) ||
		!s.say("TOOL_CALL_ARGS", fields{"toolCallId": id, "delta": i.Arguments}) ||
		!s.say("TOOL_CALL_END", fields{"toolCallId": id}) {
		return false
	}
	if slices.Contains(s.part.stage.Confirm, i.Name) {
		s.part.hold("q"+id, heldLine{id, i.Name})
		s.ask(fields{"id": "q" + id, "reason": "tool_call", "toolCallId": id})
		return false
	}
	if leaves {
		s.finish(nil)
		return false
	}
	for _, t := range s.in.Tools {
		if t.Name == i.Name { // a client's: it is left open
			s.finish(nil)
			return false
		}
	}
	return s.result(id, s.part.stage.result(i.Name))
}

func (s *scene) result(call, content string) bool {
	return s.say("TOOL_CALL_RESULT", fields{"toolCallId": call, "messageId": call + "-result", "role": "tool", "content": content})
}

func (s stage) citations() []fields {
	var list []fields
	for _, k := range s.Knowledge {
		list = append(list, fields{"id": k.Source, "title": k.Source, "snippet": k.Content, "score": 0.9})
	}
	return list
}
