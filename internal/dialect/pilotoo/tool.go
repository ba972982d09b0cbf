package pilotoo

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// tools reads clientTools (PIL-060 to PIL-067, PIL-075).
func (o object) tools() ([]chat.ClientTool, *Error) {
	list, err := o.list("clientTools", MaxTools)
	if err != nil {
		return nil, err
	}
	tools := make([]chat.ClientTool, len(list))
	for i, v := range list {
		what := fmt.Sprintf("clientTools[%d]", i)
		if tools[i], err = readTool(what, v); err != nil {
			return nil, err
		}
		for _, earlier := range tools[:i] {
			if earlier.Name == tools[i].Name {
				return nil, invalid("clientTools has two tools named %s", quote(earlier.Name))
			}
		}
	}
	return tools, nil
}

func readTool(what string, v jsontext.Value) (t chat.ClientTool, err *Error) {
	o, err := readObject(what, v, "name", "description", "arguments", "kind", "result")
	if err != nil {
		return t, err
	}
	if t.Name, err = o.text("name"); err != nil {
		return t, err
	}
	if !toolName.MatchString(t.Name) {
		return t, invalid("%s: name must be 1 to %d ASCII letters, digits, _ or -", what, MaxToolName)
	}
	if t.Description, err = o.text("description"); err != nil {
		return t, err
	}
	if n := utf8.RuneCountInString(t.Description); n < 1 || n > MaxToolDescription {
		return t, invalid("%s: description must have 1 to %d characters", what, MaxToolDescription)
	}
	kind, err := o.text("kind")
	if err != nil {
		return t, err
	}
	switch t.Kind = chat.ToolKind(kind); t.Kind {
	case chat.ToolBlocking, chat.ToolOneWay:
	default:
		return t, invalid("%s: kind must be %q or %q", what, chat.ToolBlocking, chat.ToolOneWay)
	}
	if !o.has("arguments") {
		return t, invalid("%s needs arguments", what)
	}
	if t.Arguments, err = o.schema(what, "arguments"); err != nil {
		return t, err
	}
	if o.has("result") && t.Kind == chat.ToolOneWay {
		return t, invalid("%s: a one-way tool returns nothing, so it has no result", what)
	}
	t.Result, err = o.schema(what, "result")
	return t, err
}

// schema reads a JSON Schema that may be absent. It must be an object; what it
// says is not looked at here (PIL-065).
func (o object) schema(what, name string) (jsontext.Value, *Error) {
	v, ok := o.members[name]
	if !ok {
		return nil, nil
	}
	if v.Kind() != '{' {
		return nil, invalid("%s: %s must be a JSON Schema object", what, name)
	}
	v = v.Clone()
	if err := v.Compact(); err != nil {
		return nil, invalid("%s: %s is not well-formed JSON", what, name)
	}
	if len(v) > MaxToolSchema {
		return nil, invalid("%s: %s has %d bytes, the limit is %d", what, name, len(v), MaxToolSchema)
	}
	return v, nil
}
