package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// history is a thread as it comes to be: what the rules allow, numbered as a
// store does. nodes is the index of ids.
type history struct {
	st    *State
	recs  []*Record
	nodes map[string]Node
	seqs  map[string]uint64
	ids   int
}

func newHistory() *history {
	return &history{st: &State{Schema: SchemaVersion}, nodes: map[string]Node{}, seqs: map[string]uint64{}}
}

func (h *history) id(kind string) string {
	h.ids++
	return fmt.Sprint(kind, h.ids)
}

func (h *history) lookup(id string) *Node {
	if n, ok := h.nodes[id]; ok {
		return &n
	}
	return nil
}

// write numbers entries and folds them.
func (h *history) write(entries ...Entry) {
	for id, n := range NodesOf(entries) {
		h.nodes[id] = n
	}
	for _, e := range entries {
		r := &Record{Pos: h.st.Pos + 1, At: h.st.At + 7, Tag: h.st.Tag + 13, Prev: h.st.Tag, Entry: e}
		if e.Logged {
			r.Log = h.st.Log + 1
		}
		if e.N > 0 {
			if e.Opens {
				h.seqs[e.Run] = 0
			}
			r.Seq = h.seqs[e.Run] + 1
			h.seqs[e.Run] += uint64(e.N)
		}
		h.recs = append(h.recs, r)
		h.st = h.st.Apply(r)
	}
}

func words(s string) []*Part { return []*Part{{ID: "p", Type: PartText, Text: Text(s)}} }

func (h *history) message(fork string, by string) Start {
	return Start{
		Message: &Message{ID: h.id("m"), Parts: words("hi"), Created: h.st.At}, Fork: fork, Run: h.id("r"), Answer: h.id("a"),
		Segment: h.id("s"), WithdrawSegment: h.id("s"), Agent: "x", Origin: Origin{By: Subject{ID: by}}, Upstream: h.id("u"),
	}
}

// start begins a run and makes it active.
func (h *history) start(c Start) (run string, err error) {
	entries, err := h.st.Start(c, h.lookup)
	if err != nil {
		return "", err
	}
	h.write(entries...)
	return c.Run, nil
}

func (h *history) active(run string) {
	h.write(NewEntry(KindRunActive, run, &RunActiveBody{}))
}

func (h *history) says(run, text string) {
	part := h.id("p")
	h.write(NewEntry(KindTextStart, run, &BlockBody{Part: part}), NewEntry(KindTextDelta, run, &DeltaBody{Part: part, Text: text}), NewEntry(KindTextEnd, run, &BlockBody{Part: part}))
}

// asks suspends a run with n questions and returns their ids.
func (h *history) asks(run string, n int) (ids []string) {
	r := h.st.Run(run)
	for range n {
		i := &Interrupt{ID: h.id("i"), Kind: InterruptQuestion, Status: InterruptOpen, Segment: len(r.Segments) - 1, Payload: jsontext.Value(`{"q":1}`)}
		ids = append(ids, i.ID)
		h.write(NewEntry(KindInterrupt, run, &InterruptBody{Interrupt: i}))
	}
	h.write(NewEntry(KindRunSuspended, run, &RunSuspendedBody{State: jsontext.Value(`{"at":1}`)}))
	return ids
}

func (h *history) end(run string, status RunStatus) {
	h.write(h.st.Run(run).End(End{Status: status, Segment: h.id("s"), At: h.st.At}))
}

// opened is a history with a thread in it.
func opened() *history {
	h := newHistory()
	entries, _ := h.st.Create(Info{Title: "t", Owner: Subject{"iss", "ann"}})
	h.write(entries...)
	return h
}

// answered adds a message and its answer, and returns their ids.
func (h *history) answered(fork string) (message, answer string) {
	c := h.message(fork, "ann")
	run, err := h.start(c)
	if err != nil {
		panic(err)
	}
	h.active(run)
	h.says(run, "answer "+c.Answer)
	h.end(run, RunComplete)
	return c.Message.ID, c.Answer
}

// step does one thing that the rules allow, drawn by chance.
func (h *history) step(t *rapid.T) {
	if !h.st.Exists {
		entries, _ := h.st.Create(Info{Title: "t", Owner: Subject{"iss", "ann"}})
		h.write(entries...)
		return
	}
	if len(h.st.Runs) == 0 || rapid.IntRange(0, 9).Draw(t, "what") == 0 {
		h.begin(t)
		return
	}
	r := rapid.SampledFrom(h.st.Runs).Draw(t, "run")
	switch r.Status {
	case RunPending:
		h.active(r.ID)
	case RunSuspended:
		h.suspended(t, r)
	default:
		h.stream(t, r)
	}
}

func (h *history) begin(t *rapid.T) {
	fork := ""
	if rapid.IntRange(0, 4).Draw(t, "fork") == 0 {
		var users []string
		for id, n := range h.nodes {
			if n.Role == User {
				users = append(users, id)
			}
		}
		slices.Sort(users)
		if len(users) > 0 {
			fork = rapid.SampledFrom(users).Draw(t, "at")
		}
	}
	by := rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "by")
	if rapid.IntRange(0, 4).Draw(t, "anew") == 0 {
		h.anew(t, by)
		return
	}
	c := h.message(fork, by)
	c.OneRun = rapid.Bool().Draw(t, "one")
	if rapid.IntRange(0, 4).Draw(t, "placed") == 0 {
		c.Placed = true
		if n := len(h.st.Tail); n > 0 {
			c.Parent = h.st.Tail[rapid.IntRange(0, n-1).Draw(t, "parent")].ID
		}
	}
	c.MaxRuns = 4
	_, _ = h.start(c)
}

// anew asks for another answer in place of one.
func (h *history) anew(t *rapid.T, by string) {
	var answers []string
	for _, m := range h.st.Tail {
		if m.Role == Assistant {
			answers = append(answers, m.ID)
		}
	}
	if len(answers) == 0 {
		return
	}
	entries, err := h.st.Regenerate(Regenerate{
		Message: rapid.SampledFrom(answers).Draw(t, "answer"), Run: h.id("r"), Answer: h.id("a"), Segment: h.id("s"),
		Agent: "x", Origin: Origin{By: Subject{ID: by}}, Upstream: h.id("u"), MaxRuns: 4,
	}, h.lookup)
	if err == nil {
		h.write(entries...)
	}
}

func (h *history) suspended(t *rapid.T, r *Run) {
	if q := r.Open(); q != nil && rapid.IntRange(0, 3).Draw(t, "answer") > 0 {
		entries, _, _, err := h.st.Answer(Answer{Interrupt: q.ID, Value: jsontext.Value(`1`), Status: InterruptAnswered, Segment: h.id("s")})
		if err == nil {
			h.write(entries...)
		}
		return
	}
	entries, _, err := h.st.Stop(r.ID, Stop{Cause: CauseUser}, h.id("s"))
	if err == nil {
		h.write(entries...)
	}
}

func (h *history) stream(t *rapid.T, r *Run) {
	if r.Stop != nil {
		h.write(r.EndSealed(h.st.At))
		return
	}
	open := slices.DeleteFunc(slices.Clone(r.Parts), func(p *Part) bool { return !p.Open })
	switch k := rapid.IntRange(0, 15).Draw(t, "stream"); {
	case k < 6 && len(open) > 0:
		p := rapid.SampledFrom(open).Draw(t, "part")
		kind := map[PartType]Kind{PartText: KindTextDelta, PartReasoning: KindReasoningDelta, PartTool: KindToolArgs}[p.Type]
		e := NewEntry(kind, r.ID, &DeltaBody{Part: p.ID, Text: rapid.SampledFrom([]string{"a", "ž", "\"", "word "}).Draw(t, "text")})
		e.Logged = kind == KindTextDelta && rapid.Bool().Draw(t, "logged")
		h.write(e)
	case k < 8 && len(open) > 0:
		p := rapid.SampledFrom(open).Draw(t, "part")
		switch p.Type {
		case PartText:
			h.write(NewEntry(KindTextEnd, r.ID, &BlockBody{Part: p.ID}))
		case PartReasoning:
			h.write(NewEntry(KindReasoningEnd, r.ID, &BlockBody{Part: p.ID}), NewEntry(KindReasoningEncrypted, r.ID, &EncryptedBody{Part: p.ID, Value: "e"}))
		default:
			h.write(NewEntry(KindToolEnd, r.ID, &ToolEndBody{Call: p.ID}), NewEntry(KindToolResult, r.ID, &ToolResultBody{Call: p.ID, Message: h.id("x"), Content: "c"}))
		}
	case k < 9:
		h.write(NewEntry(KindTextStart, r.ID, &BlockBody{Part: h.id("p")}))
	case k < 10:
		h.write(NewEntry(KindReasoningStart, r.ID, &BlockBody{Part: h.id("p")}))
	case k < 11:
		h.write(NewEntry(KindToolStart, r.ID, &ToolStartBody{Call: h.id("c"), Name: "look"}))
	case k < 12:
		h.sides(t, r)
	case k < 13 && len(open) == 0:
		h.asks(r.ID, rapid.IntRange(1, 2).Draw(t, "questions"))
	case k < 14:
		entries, _, _ := h.st.Stop(r.ID, Stop{Cause: CauseTimeout}, h.id("s"))
		h.write(entries...)
	default:
		h.end(r.ID, rapid.SampledFrom([]RunStatus{RunComplete, RunError, RunCancelled}).Draw(t, "status"))
	}
}

func (h *history) sides(t *rapid.T, r *Run) {
	switch rapid.IntRange(0, 6).Draw(t, "side") {
	case 0:
		h.write(NewEntry(KindTodos, r.ID, &TodosBody{Todos: []Todo{{Content: h.id("todo"), Status: "pending"}}}))
	case 1:
		h.write(NewEntry(KindState, r.ID, &StateBody{State: jsontext.Value(`{"n":` + fmt.Sprint(h.ids) + `}`)}))
	case 2:
		h.write(NewEntry(KindUsage, r.ID, &UsageBody{Usage: jsontext.Value(`{"tokens":1}`)}))
	case 3:
		h.write(NewEntry(KindSubagentStart, r.ID, &SubagentStartBody{Subagent: Subagent{ID: h.id("b"), Call: h.id("c"), Name: "sub"}}))
	case 4:
		if i := slices.IndexFunc(r.Subagents, func(s Subagent) bool { return s.Running }); i >= 0 {
			if entries, err := h.st.Detach(r.ID, ""); err == nil && len(r.Detach) == 0 {
				h.write(entries...)
			}
			h.write(NewEntry(KindSubagentEnd, r.ID, &SubagentEndBody{ID: r.Subagents[i].ID, Detached: true}))
		}
	case 5:
		h.write(NewEntry(KindTask, "", &TaskBody{Task: Task{ID: fmt.Sprint("task", h.ids%70), Status: "running"}}))
	default:
		h.write(NewEntry(KindStep, r.ID, &StepBody{Name: "s"}), NewEntry(KindCustom, r.ID, &CustomBody{Name: "c", Value: jsontext.Value(`[1]`)}),
			NewEntry(KindActivity, r.ID, &ActivityBody{ID: "a", Type: "t", Content: jsontext.Value(`{}`)}))
	}
}

func written(t interface{ Fatal(...any) }, s *State) string {
	b, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func shown(list []*Message) string {
	var ids []string
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}
