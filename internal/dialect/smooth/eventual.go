package smooth

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func itoa(n int) string { return strconv.Itoa(n) }

// eventual is the answer, whole (SMO-112 to SMO-122).
func (t *turn) eventual(run *chat.Run, b *chat.RunEndBody, at int64) []byte {
	f := append(begin(nil, eventEventual, t.request), `,"status":200,"data":{"requestId":`...)
	f = append(quoted(f, t.request), `,"status":200,"data":{"messageId":`...)
	id := run.Answer
	var parts []string
	if b.Message != nil {
		id = b.Message.ID
		for _, p := range b.Message.Parts {
			if p.Type == chat.PartText && len(p.Text) > 0 {
				parts = append(parts, string(p.Text))
			}
		}
	}
	f = quoted(f, t.conn.shown(id))
	f = append(append(f, `,"response":`...), general(parts, entry(last(run.Remarked("response"))).members)...)
	escalates, reason := escalation(run)
	if f = append(append(f, `,"needsEscalation":`...), boolean(escalates)...); escalates {
		f = optional(f, "escalationReason", reason)
	}
	if u := usage(b.Usage); u != nil {
		f = raw(f, "usage", u)
	} else if u := usage(run.Usage); u != nil {
		f = raw(f, "usage", u)
	}
	if list := cited(run); len(list) > 0 {
		if v, err := json.Marshal(list); err == nil {
			f = raw(f, "citations", v)
		}
	}
	if v := last(run.Remarked("directive")); v.Kind() == '{' {
		f = raw(f, "directive", v)
	}
	return stamp(append(f, '}', '}'), at)
}

// last is the last value, or none.
func last(list []jsontext.Value) jsontext.Value {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// escalation says that a person is to take over, and why (SMO-119).
func escalation(run *chat.Run) (needed bool, reason string) {
	v := last(run.Remarked("escalation"))
	if len(v) == 0 {
		return false, ""
	}
	o := entry(v)
	needed, _ = o.boolean("needsEscalation", true)
	return needed, o.text("escalationReason", maxText)
}

// general is a GeneralAgentResponse: the text, and what the agent said of it
// where that is of the right kind (SMO-116, SMO-117).
func general(parts []string, said map[string]jsontext.Value) []byte {
	list, err := json.Marshal(append([]string{}, parts...))
	if err != nil {
		list = []byte("[]")
	}
	b := append([]byte(`{"responseParts":`), list...)
	score := func(v jsontext.Value) bool {
		n, err := strconv.ParseFloat(string(v), 64)
		return err == nil && n >= 0 && n <= 1
	}
	text := func(v jsontext.Value) bool { return v.Kind() == '"' }
	for _, m := range []struct {
		name, otherwise string
		fits            func(jsontext.Value) bool
	}{
		{"customerHappinessScore", "0.5", score},
		{"needsSatisfactionScore", "0.5", score},
		{"requestSummary", `""`, text},
		{"resolutionStatus", `"in_progress"`, func(v jsontext.Value) bool {
			s, ok := unquote(v)
			return ok && slices.Contains([]string{"resolved", "in_progress", "requires_escalation", "needs_more_info", "blocked"}, s)
		}},
		{"suggestedNextActions", `[]`, func(v jsontext.Value) bool {
			return v.Kind() == '[' && !slices.ContainsFunc(elements(v), func(e jsontext.Value) bool { return e.Kind() != '"' })
		}},
	} {
		v, ok := said[m.name]
		if !ok || !m.fits(v) {
			v = jsontext.Value(m.otherwise)
		}
		b = raw(b, m.name, v)
	}
	return append(b, '}')
}

// cited are the citations that an agent named, each once (SMO-121).
func cited(run *chat.Run) (list []jsontext.Value) {
	var ids []string
	for _, v := range run.Remarked("citations") {
		if v.Kind() != '[' {
			continue
		}
		for _, e := range elements(v) {
			o := entry(e)
			id, title, snippet := o.required("id", maxText), o.required("title", maxText), o.required("snippet", maxText)
			address := o.text("url", maxURL)
			score := o.members["score"]
			if o.err != nil || score.Kind() != '0' || len(list) == maxCitations || slices.Contains(ids, id) {
				continue
			}
			b := quoted([]byte(`{"id":`), id)
			b = member(b, "title", title)
			b = optional(b, "url", address)
			b = raw(member(b, "snippet", snippet), "score", score)
			list, ids = append(list, append(b, '}')), append(ids, id)
		}
	}
	return list
}

// usage is what an agent says it used, in the protocol's words, or nil
// (SMO-120): one report, or a list of them that counts together.
func usage(v jsontext.Value) []byte {
	if len(v) == 0 {
		return nil
	}
	reports := []jsontext.Value{v}
	if v.Kind() == '[' {
		reports = elements(v)
	}
	var in, out, cost float64
	any := false
	add := func(sum *float64, o *object, names ...string) {
		for _, name := range names {
			if n, err := strconv.ParseFloat(string(o.members[name]), 64); err == nil && n >= 0 {
				*sum += n
				any = true
				return
			}
		}
	}
	for _, r := range reports {
		o := entry(r)
		add(&in, o, "promptTokens", "inputTokens", "prompt_tokens", "input_tokens")
		add(&out, o, "completionTokens", "outputTokens", "completion_tokens", "output_tokens")
		add(&cost, o, "costUsd", "cost")
	}
	if !any {
		return nil
	}
	b := append([]byte(`{"promptTokens":`), itoa(int(in))...)
	b = append(append(b, `,"completionTokens":`...), itoa(int(out))...)
	if cost > 0 {
		b = append(b, `,"costUsd":`...)
		b = strconv.AppendFloat(b, cost, 'f', -1, 64)
	}
	return append(b, '}')
}
