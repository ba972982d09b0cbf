package smooth

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/chat/shape"
)

// kind is a kind of interaction (SMO-193): how an agent raises it, and what its
// spec and its values must be.
type kind struct {
	name, capability string
	description      string
	// arguments is the JSON Schema of the tool that raises it.
	arguments jsontext.Value
	// spec reads a raise's arguments into a spec; its error is for the agent.
	spec func(args jsontext.Value) (jsontext.Value, error)
	// values reads what a person gave into its canonical form, or lists every
	// field that needs attention.
	values func(spec, values jsontext.Value) (jsontext.Value, []fieldError)
}

// fieldError is a field that needs attention.
type fieldError struct{ field, message string }

// raisePrefix begins the names of the tools that raise cards.
const raisePrefix = "request_"

// The capability of a card for any JSON Schema, and its kind: what an agent asks
// with a schema and without a kind.
const (
	kindForm       = "form"
	capabilityForm = "schema_form"
	// capabilityWatch shows a client also what others do in its conversation
	// (SMO-227).
	capabilityWatch = "thread_watch"
)

// KnownKind says that a kind is the dialect's own, so that a configuration
// cannot have another of its name.
func KnownKind(name string) bool {
	return name == intake.name || name == choices.name || name == kindForm || name == kindOTP
}

func (c *Config) kinds() []kind {
	list := []kind{intake, choices}
	for _, k := range c.Kinds {
		list = append(list, schemaKind(k))
	}
	return list
}

func (c *Config) kind(name string) *kind {
	list := c.kinds()
	if i := slices.IndexFunc(list, func(k kind) bool { return k.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// tools are what an agent is offered to raise cards with.
func (c *Config) tools() []chat.ClientTool {
	var tools []chat.ClientTool
	for _, k := range c.kinds() {
		tools = append(tools, chat.ClientTool{
			Name: raisePrefix + k.name, Description: k.description, Arguments: k.arguments, Kind: chat.ToolBlocking,
			Otherwise: outcome("no_response", nil, "The user did not respond."),
		})
	}
	return tools
}

// outcome is what a raise comes back with (SMO-187).
func outcome(status string, values jsontext.Value, message string) jsontext.Value {
	b := quoted([]byte(`{"status":`), status)
	if values != nil {
		b = raw(b, "values", values)
	}
	return append(optional(b, "message", message), '}')
}

// schemaKind is a kind of the configuration.
func schemaKind(k Kind) kind {
	args := append([]byte(`{"type":"object","properties":{"reason":{"type":"string"},"spec":`), schemaOr(k.Spec)...)
	return kind{
		name: k.Name, capability: k.Capability, description: k.Description,
		arguments: append(args, `},"required":["spec"]}`...),
		spec: func(args jsontext.Value) (jsontext.Value, error) {
			spec := entry(args).members["spec"]
			if spec.Kind() != '{' {
				return nil, invalid("'spec' must be an object")
			}
			return spec, shape.Check(k.Spec, spec)
		},
		values: func(_, values jsontext.Value) (jsontext.Value, []fieldError) { return fits(k.Values, values) },
	}
}

// schemaOr is a schema, or that of any object.
func schemaOr(schema jsontext.Value) jsontext.Value {
	if len(schema) == 0 {
		return jsontext.Value(`{"type":"object"}`)
	}
	return schema
}

// form is the card of a question that comes with a schema.
func form(schema jsontext.Value) *kind {
	return &kind{
		name: kindForm, capability: capabilityForm,
		values: func(_, values jsontext.Value) (jsontext.Value, []fieldError) { return fits(schema, values) },
	}
}

func fits(schema, values jsontext.Value) (jsontext.Value, []fieldError) {
	if err := shape.Check(schema, values); err != nil {
		return nil, []fieldError{{"values", "it " + err.Error()}}
	}
	return values, nil
}
