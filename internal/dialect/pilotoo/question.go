package pilotoo

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// question appends a decision's interruptId and payload (PIL-117).
func question(b []byte, i *chat.Interrupt, run *chat.Run) []byte {
	b = append(b, `"interruptId":`...)
	b = quoted(b, i.ID)
	b = append(b, `,"payload":`...)
	switch {
	case i.Kind == chat.InterruptClientTool && i.Tool != "":
		return clientCall(b, i, run)
	case len(i.Payload) > 0:
		return raw(b, i.Payload)
	}
	b = append(b, `{"kind":`...)
	b = quoted(b, string(i.Kind))
	b = optional(b, "toolName", i.Tool)
	return append(optional(b, "toolCallId", i.Call), '}')
}

// clientCall appends a blocking call as {clientTool, arguments}, the arguments
// parsed (PIL-072, PIL-073).
func clientCall(b []byte, i *chat.Interrupt, run *chat.Run) []byte {
	b = append(b, `{"clientTool":`...)
	b = quoted(b, i.Tool)
	b = append(b, `,"arguments":`...)
	if p := run.Part(i.Call); p != nil && isObject(jsontext.Value(p.Text)) {
		b = append(b, bytes.TrimSpace(p.Text)...)
	} else if args, ok := argumentsOf(i.Payload); ok {
		b = append(b, args...)
	} else {
		b = append(b, '{', '}')
	}
	return append(b, '}')
}

// argumentsOf finds the arguments in a payload of the agent's making.
func argumentsOf(payload jsontext.Value) (jsontext.Value, bool) {
	if !isObject(payload) {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(payload))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		found := name.String() == "arguments"
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		if found {
			return v.Clone(), isObject(v)
		}
	}
	return nil, false
}

func isObject(v jsontext.Value) bool { return len(v) > 0 && v.Kind() == '{' && v.IsValid() }

// pending is the first decision that the thread waits on: the earliest that is
// still open (PIL-170, PIL-171).
func pending(st *chat.State) (*chat.Run, *chat.Interrupt) {
	var run *chat.Run
	for _, r := range st.Runs {
		if r.Status != chat.RunSuspended || r.Stop != nil || r.Open() == nil {
			continue
		}
		if run == nil || r.Suspended < run.Suspended {
			run = r
		}
	}
	if run == nil {
		return nil, nil
	}
	return run, run.Open()
}
