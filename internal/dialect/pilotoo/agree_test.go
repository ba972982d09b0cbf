package pilotoo

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// disagreement says how decoder and schema differ about a message, or "".
func disagreement(t failer, name string, b []byte) string {
	decoder := parsers[name](b)
	if !jsontext.Value(b).IsValid() || depth(b) > MaxDepth {
		if decoder == nil && len(b) > 0 {
			return "the decoder takes what is no JSON for us"
		}
		return ""
	}
	schema := validate(t, name, b)
	switch {
	case decoder == nil && schema != nil:
		return "only the schema refuses: " + schema.Error()
	case decoder != nil && schema == nil && !beyond(b):
		return "only the decoder refuses: " + decoder.Error()
	case decoder == nil && beyond(b):
		return "the decoder takes what the schema cannot say is wrong"
	}
	return ""
}

// beyond says that a message that fits its schema breaks a rule that a schema
// cannot say; each is in the schema's description.
func beyond(b []byte) bool {
	var m map[string]any
	if json.Unmarshal(b, &m) != nil {
		return false
	}
	if s, ok := m["input"].(string); ok && len(utf16.Encode([]rune(s))) > 16_000 {
		return true
	}
	if v, ok := m["answer"]; ok && compactSize(v) > 262_144 {
		return true
	}
	tools, _ := m["clientTools"].([]any)
	names := map[any]bool{}
	for _, v := range tools {
		tool, _ := v.(map[string]any)
		if names[tool["name"]] || compactSize(tool["arguments"]) > 65_536 || compactSize(tool["result"]) > 65_536 {
			return true
		}
		names[tool["name"]] = true
	}
	attachments, _ := m["attachments"].([]any)
	for _, v := range attachments {
		a, _ := v.(map[string]any)
		data, ok := a["data"].(string)
		if !ok {
			continue
		}
		image, err := base64.StdEncoding.DecodeString(data)
		if err != nil || len(image) > 5_242_880 || Sniff(image) != a["mediaType"] {
			return true
		}
	}
	return false
}

// compactSize is a lower bound that is exact for what the tests draw.
func compactSize(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(b)
}

// PIL-001: whatever is done to a good command, decoder and schema agree on it.
func TestDecoderAndSchemaAgree(t *testing.T) {
	good := fixtures(t, "good")
	names := slices.Sorted(maps.Keys(parsers))
	value := rapid.SampledFrom([]string{
		`null`, `true`, `0`, `-1.5e3`, `""`, `" "`, `"x"`, `"\u0000"`, `"\u0085"`, `"\ufeff"`, `"💬"`, `[]`, `{}`, `[null]`, `[[]]`,
		`{"id":"a"}`, `{"id":""}`, `{"name":"n","description":"d","arguments":{},"kind":"blocking"}`, `"one-way"`, `"image/gif"`, `"R0lGODlh"`,
	})
	key := rapid.SampledFrom([]string{
		"threadId", "messageId", "input", "attachments", "clientTools", "forkFromMessageId", "interruptId", "answer", "runId", "toolCallId",
		"id", "title", "mediaType", "data", "name", "description", "arguments", "kind", "result", "other",
	})
	one := func(t *rapid.T) {
		name := "run.start"
		if rapid.Bool().Draw(t, "other") {
			name = rapid.SampledFrom(names).Draw(t, "command")
		}
		list := good[name]
		var v any
		if err := json.Unmarshal(list[rapid.IntRange(0, len(list)-1).Draw(t, "fixture")].Message, &v); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			v = mutate(t, v, key, value)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := disagreement(t, name, b); wrong != "" {
			t.Fatalf("%s %s: %s", name, b, wrong)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 150 {
			one(t)
		}
	})
}

// mutate changes one place of a JSON value.
func mutate(t *rapid.T, v any, key, value *rapid.Generator[string]) any {
	draw := func() any {
		var x any
		if err := json.Unmarshal([]byte(value.Draw(t, "value")), &x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && rapid.IntRange(0, 2).Draw(t, "where") > 0 {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "member")
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				delete(v, name)
			} else {
				v[name] = mutate(t, v[name], key, value)
			}
			return v
		}
		v[key.Draw(t, "key")] = draw()
		return v
	case []any:
		if len(v) > 0 && rapid.Bool().Draw(t, "inside") {
			i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
			v[i] = mutate(t, v[i], key, value)
			return v
		}
		if rapid.Bool().Draw(t, "grow") {
			return append(v, draw())
		}
	}
	return draw()
}

// FuzzCommands looks for a text on which decoder and schema differ.
func FuzzCommands(f *testing.F) {
	names := slices.Sorted(maps.Keys(parsers))
	for _, kind := range []string{"good", "bad"} {
		for name, list := range fixtures(f, kind) {
			for _, x := range list {
				if i := slices.Index(names, name); i >= 0 || name == "not-json" {
					f.Add(max(i, 0), x.bytes())
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, i int, b []byte) {
		if i < 0 || i >= len(names) {
			return
		}
		if wrong := disagreement(t, names[i], b); wrong != "" {
			t.Fatalf("%s: %s", names[i], wrong)
		}
	})
}
