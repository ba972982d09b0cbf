package smooth

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// choices asks up to four questions with options (SMO-191, SMO-192).
var choices = kind{
	name: "choices", capability: "choice_chips",
	description: "Ask the user to choose between a few options. Use it instead of listing options in text.",
	arguments: jsontext.Value(`{"type":"object","properties":{"questions":{"type":"array","minItems":1,"maxItems":4,"items":{"type":"object",` +
		`"properties":{"question":{"type":"string"},"header":{"type":"string","maxLength":12},"options":{"type":"array","minItems":2,"maxItems":4,` +
		`"items":{"type":"object","properties":{"label":{"type":"string"},"description":{"type":"string"}},"required":["label"]}},` +
		`"multiSelect":{"type":"boolean"}},"required":["question","header","options"]}},"reason":{"type":"string"}},"required":["questions"]}`),
	spec:   choicesSpec,
	values: choicesValues,
}

// Bounds of a raise.
const (
	maxQuestions = 4
	minOptions   = 2
	maxOptions   = 4
	maxChip      = 12
)

// question is a question of a spec.
type question struct {
	text, header string
	options      []option
	multi        bool
}

type option struct{ label, description string }

func choicesSpec(args jsontext.Value) (jsontext.Value, error) {
	list, err := questions(args)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"questions":[`)
	for i, q := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = quoted(append(b, `{"question":`...), q.text)
		b = append(member(b, "header", q.header), `,"options":[`...)
		for n, o := range q.options {
			if n > 0 {
				b = append(b, ',')
			}
			b = append(optional(quoted(append(b, `{"label":`...), o.label), "description", o.description), '}')
		}
		if b = append(b, ']'); q.multi {
			b = append(b, `,"multiSelect":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']', '}'), nil
}

func questions(spec jsontext.Value) ([]question, error) {
	list, _ := entry(spec).list("questions")
	if len(list) < 1 || len(list) > maxQuestions {
		return nil, invalid("'questions' must be a list of 1 to %d questions", maxQuestions)
	}
	var all []question
	for _, v := range list {
		o := entry(v)
		q := question{text: strings.TrimSpace(o.required("question", maxText)), header: strings.TrimSpace(o.required("header", maxName))}
		q.multi, _ = o.boolean("multiSelect", false)
		options, _ := o.list("options")
		for _, e := range options {
			p := entry(e)
			c := option{strings.TrimSpace(p.required("label", maxText)), p.text("description", maxText)}
			if p.err != nil || c.label == "" || slices.ContainsFunc(q.options, func(x option) bool { return x.label == c.label }) {
				return nil, invalid("an option needs a label of its own")
			}
			q.options = append(q.options, c)
		}
		switch {
		case o.err != nil:
			return nil, o.err
		case q.text == "" || q.header == "":
			return nil, invalid("a question needs a text and a header")
		case utf8.RuneCountInString(q.header) > maxChip:
			return nil, invalid("a header has at most %d characters", maxChip)
		case slices.ContainsFunc(all, func(x question) bool { return x.header == q.header }):
			return nil, invalid("each question needs a header of its own")
		case len(q.options) < minOptions || len(q.options) > maxOptions:
			return nil, invalid("a question has %d to %d options", minOptions, maxOptions)
		}
		all = append(all, q)
	}
	return all, nil
}

// choicesValues wants every question answered; answers to others are left out,
// and the order is that of the questions.
func choicesValues(spec, values jsontext.Value) (jsontext.Value, []fieldError) {
	all, err := questions(spec)
	answers, ok := entry(values).list("answers")
	if err != nil || !ok {
		return nil, []fieldError{{"answers", "must be a list of answers"}}
	}
	var errs []fieldError
	b := []byte(`{"answers":[`)
	for i, q := range all {
		picked, other, message := q.answer(answers)
		if message != "" {
			errs = append(errs, fieldError{q.header, message})
			continue
		}
		if i > 0 && len(errs) == 0 {
			b = append(b, ',')
		}
		b = quoted(append(b, `{"header":`...), q.header)
		if len(picked) > 0 {
			b = append(b, `,"options":[`...)
			for n, p := range picked {
				if n > 0 {
					b = append(b, ',')
				}
				b = quoted(b, p)
			}
			b = append(b, ']')
		}
		b = append(optional(b, "other", other), '}')
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return append(b, ']', '}'), nil
}

// answer finds the question's answer; message says what is wrong with it.
func (q question) answer(answers []jsontext.Value) (picked []string, other, message string) {
	for _, v := range answers {
		o := entry(v)
		header, ok := unquote(o.members["header"])
		if !ok || strings.TrimSpace(header) != q.header {
			continue
		}
		list, _ := o.strings("options", maxOptions)
		if other = strings.TrimSpace(o.text("other", maxText)); o.err != nil {
			return nil, "", "must be options of the question, or another text"
		}
		for _, label := range list {
			if label = strings.TrimSpace(label); label == "" || slices.Contains(picked, label) {
				continue
			}
			if !slices.ContainsFunc(q.options, func(x option) bool { return x.label == label }) {
				return nil, "", "must be one of the options"
			}
			picked = append(picked, label)
		}
		picks := len(picked)
		if other != "" {
			picks++
		}
		switch {
		case picks == 0:
			return nil, "", "an answer is required"
		case picks > 1 && !q.multi:
			return nil, "", "choose one option only"
		}
		return picked, other, ""
	}
	return nil, "", "an answer is required"
}
