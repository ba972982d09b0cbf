package pilotoo

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parlance-gateway/parlance/internal/dialect"
)

func TestPresenceIsAsItsSchemaSays(t *testing.T) {
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	b := presence(nil, dialect.Presence{Count: 3, Members: []dialect.Present{
		{Self: true, Dialect: "pilotoo", Edge: "a \"quoted\" name", Since: 1},
		{Dialect: "smooth", Edge: "?", Since: 2},
	}})
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if err := all["conversation.presence"].Validate(v); err != nil {
		t.Error(err)
	}
}
