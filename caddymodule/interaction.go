package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
)

// Interaction is a kind of card that an agent may ask for. It needs no code: what
// the agent gives and what the person answers are checked by JSON Schema.
type Interaction struct {
	// The name of the kind: small letters, digits and `_`. The agent's tool for it
	// is `request_` and the name.
	Kind string `json:"kind"`

	// What a client declares that can show the card.
	Capability string `json:"capability"`

	// Tells the agent's model when to ask for it.
	Description string `json:"description"`

	// Files with the JSON Schema of what the agent gives, and of what the person
	// answers. They are read when the configuration is loaded, up to 64 KiB each.
	// Default: any object.
	Spec   string `json:"spec,omitempty"`
	Values string `json:"values,omitempty"`
}

const (
	maxSchema      = 64 << 10 // bytes
	maxDescription = 4 << 10  // bytes
	maxCapability  = 128      // bytes
)

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// kinds reads the cards of a site, with their schemas.
func kinds(list []*Interaction) ([]smooth.Kind, error) {
	if len(list) > maxInteractions {
		return nil, fmt.Errorf("more than %d interactions: an agent is offered each", maxInteractions)
	}
	var made []smooth.Kind
	for _, i := range list {
		if i == nil {
			return nil, errors.New("an interaction is null")
		}
		if !kindName.MatchString(i.Kind) {
			return nil, fmt.Errorf("interaction %q: a kind is at most 48 small letters, digits and _, and begins with a letter", i.Kind)
		}
		if smooth.KnownKind(i.Kind) {
			return nil, fmt.Errorf("interaction %q is the dialect's own: give yours another name", i.Kind)
		}
		if slices.ContainsFunc(made, func(k smooth.Kind) bool { return k.Name == i.Kind }) {
			return nil, fmt.Errorf("interaction %q is there twice", i.Kind)
		}
		k, err := i.make()
		if err != nil {
			return nil, fmt.Errorf("interaction %q: %w", i.Kind, err)
		}
		made = append(made, k)
	}
	return made, nil
}

func (i *Interaction) make() (smooth.Kind, error) {
	k := smooth.Kind{Name: i.Kind, Capability: i.Capability, Description: i.Description}
	switch {
	case i.Capability == "":
		return k, errors.New("it has no capability: write `capability NAME`, which clients declare that can show it")
	case len(i.Capability) > maxCapability:
		return k, fmt.Errorf("its capability has more than %d bytes", maxCapability)
	case i.Description == "":
		return k, errors.New("it has no description: write `description \"…\"`, which tells the agent when to ask for it")
	case len(i.Description) > maxDescription:
		return k, fmt.Errorf("its description has more than %d bytes", maxDescription)
	}
	var err error
	if k.Spec, err = schemaFile(i.Spec); err != nil {
		return k, fmt.Errorf("spec: %w", err)
	}
	if k.Values, err = schemaFile(i.Values); err != nil {
		return k, fmt.Errorf("values: %w", err)
	}
	return k, nil
}

// schemaFile reads a file with a JSON Schema, or nothing where there is none.
// What stands in the file is in no error.
func schemaFile(name string) (jsontext.Value, error) {
	if name == "" {
		return nil, nil
	}
	name, err := replaced(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSchema+1))
	switch v := jsontext.Value(bytes.TrimSpace(data)); {
	case err != nil:
		return nil, err
	case len(data) > maxSchema:
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSchema)
	case v.Kind() != '{' || !v.IsValid():
		return nil, fmt.Errorf("%s is no JSON Schema: it must hold one JSON object", name)
	default:
		return v, v.Compact()
	}
}

// readInteraction reads:
//
//	interaction <kind> {
//		capability  <name>
//		description <text>
//		spec        <file>
//		values      <file>
//	}
func (p *Smooth) readInteraction(d *caddyfile.Dispenser) error {
	if !d.NextArg() || d.Val() == "" {
		return d.Err("interaction needs the name of its kind")
	}
	i := &Interaction{Kind: d.Val()}
	if d.NextArg() {
		return d.Err("interaction has one argument, the name of its kind")
	}
	p.Interactions = append(p.Interactions, i)
	return readBlock(d, "an interaction", map[string]option{
		"capability":  text(d, &i.Capability),
		"description": text(d, &i.Description),
		"spec":        text(d, &i.Spec),
		"values":      text(d, &i.Values),
	}, nil)
}
