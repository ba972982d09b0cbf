package shape

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	const form = `{"type":"object","required":["city"],"additionalProperties":false,"properties":{
		"city":{"type":"string","minLength":1,"maxLength":3,"pattern":"^[A-Z]+$"},
		"days":{"type":"integer","minimum":1,"exclusiveMaximum":8},
		"tags":{"type":"array","items":{"enum":["a","b",null]},"uniqueItems":true,"maxItems":2}}}`
	cases := []struct{ schema, value, wrong string }{
		{``, `1`, ""},
		{`true`, `1`, ""},
		{`false`, `1`, "must not be there"},
		{`"nonsense"`, `1`, ""},
		{form, `{"city":"BRN"}`, ""},
		{form, `{"city":"BRN","days":7,"tags":["a",null]}`, ""},
		{form, `{}`, `must have the member "city"`},
		{form, `[]`, "must be of type object"},
		{form, `{"city":"BRNO"}`, "/city must have at most 3 characters"},
		{form, `{"city":"brn"}`, "/city must match its pattern"},
		{form, `{"city":"BRN","days":8}`, "/days must be less than 8"},
		{form, `{"city":"BRN","days":1.5}`, "/days must be of type integer"},
		{form, `{"city":"BRN","tags":["c"]}`, "/tags/0 must be one of the values that are allowed"},
		{form, `{"city":"BRN","tags":["a","a"]}`, "/tags must not repeat an entry"},
		{form, `{"city":"BRN","a/b":1}`, "/a~1b must not be there"},
		{`{"oneOf":[{"type":"string"},{"minLength":2}]}`, `"ab"`, "must match exactly one of the alternatives"},
		{`{"if":{"type":"string"},"then":{"const":"x"},"else":{"type":"null"}}`, `"y"`, "must have the one value that is allowed"},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}`, `"y"`, "must be of type number"},
		{`{"$ref":"http://example.com/other"}`, `"y"`, ""},
		{`{"$ref":"file:///etc/passwd"}`, `"y"`, ""},
	}
	for _, c := range cases {
		err := Check(jsontext.Value(c.schema), jsontext.Value(c.value))
		if got := fmt.Sprint(err); got != c.wrong && (err != nil || c.wrong != "") {
			t.Errorf("%s against %s: %v, want %q", c.value, c.schema, err, c.wrong)
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	var defs []string
	for i := range 60 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	doubling := `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
	endless := `{"$ref":"#"}`
	long := `[` + strings.Repeat(`1,`, 100_000) + `2]`
	cases := []struct{ schema, value string }{
		{doubling, `1`},
		{endless, `1`},
		{`{"not":{"$ref":"#"}}`, `1`},
		{`{"uniqueItems":true}`, long},
	}
	for _, c := range cases {
		if err := Check(jsontext.Value(c.schema), jsontext.Value(c.value)); !errors.Is(err, ErrCost) {
			if _, is := errors.AsType[*Mismatch](err); !is || c.schema != `{"uniqueItems":true}` {
				t.Errorf("%.40s: %v, want ErrCost", c.schema, err)
			}
		}
	}
}

// TestAgreesWithAWholeImplementation draws schemas and values from a small
// language and asks another implementation too.
func TestAgreesWithAWholeImplementation(t *testing.T) {
	leaf := rapid.SampledFrom([]string{`1`, `2.5`, `"a"`, `"bc"`, `null`, `true`, `[]`, `[1,"a"]`, `[1,1]`, `{}`, `{"p":1}`, `{"p":"a","q":[1]}`})
	keyword := rapid.SampledFrom([]string{
		`"type":"string"`, `"type":["object","null"]`, `"type":"integer"`, `"type":"array"`,
		`"enum":[1,"a",{"p":1}]`, `"const":[1,"a"]`, `"minLength":2`, `"maxLength":1`, `"pattern":"^b"`,
		`"minimum":2`, `"exclusiveMinimum":1`, `"maximum":1`, `"exclusiveMaximum":2.5`,
		`"minItems":1`, `"maxItems":1`, `"uniqueItems":true`, `"items":{"type":"number"}`, `"prefixItems":[{"type":"string"}]`,
		`"required":["p"]`, `"properties":{"p":{"type":"number"}}`, `"additionalProperties":false`, `"minProperties":1`, `"maxProperties":1`,
		`"anyOf":[{"type":"null"},{"minimum":2}]`, `"oneOf":[{"type":"number"},{"type":"integer"}]`, `"allOf":[{"type":"object"}]`,
		`"not":{"type":"string"}`, `"if":{"type":"object"},"then":{"required":["q"]},"else":{"type":"array"}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfNDistinct(keyword, 1, 4, func(s string) string { return strings.SplitN(s, ":", 2)[0] }).Draw(t, "schema")
		schema := `{` + strings.Join(words, ",") + `}`
		value := leaf.Draw(t, "value")
		s, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("s.json", s); err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		theirs := c.MustCompile("s.json").Validate(v)
		ours := Check(jsontext.Value(schema), jsontext.Value(value))
		if (theirs == nil) != (ours == nil) {
			t.Fatalf("%s against %s: ours %v, theirs %v", value, schema, ours, theirs)
		}
	})
}
