package pilotoo

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errRemote keeps a client's schema from reaching for anything outside itself.
var errRemote = errors.New("a schema may not refer to other documents")

type noRemote struct{}

func (noRemote) Load(string) (any, error) { return nil, errRemote }

// matches judges an answer by the schema that the tool or the agent declared
// for it (PIL-074). A schema that cannot be used binds nobody: it is its
// author's mistake, and the question would otherwise wait for ever.
func matches(schema, answer jsontext.Value) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noRemote{})
	if err := c.AddResource("urn:answer", doc); err != nil {
		return nil
	}
	s, err := c.Compile("urn:answer")
	if err != nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
	if err != nil {
		return invalid("answer is not well-formed JSON")
	}
	if s.Validate(v) != nil {
		return invalid("answer does not match the schema that was declared for it")
	}
	return nil
}
