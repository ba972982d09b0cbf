package agui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestPatch(t *testing.T) {
	const doc = `{"a":{"b":[1,2,3]},"c~/":"x","n":null}`
	doubling := ""
	for n := range 40 {
		doubling += fmt.Sprintf(`{"op":"copy","from":"","path":"/x%d"},`, n)
	}
	for _, c := range []struct{ name, delta, want string }{
		{"add a member", `[{"op":"add","path":"/d","value":{"e":1}}]`, `{"a":{"b":[1,2,3]},"c~/":"x","d":{"e":1},"n":null}`},
		{"add replaces a member", `[{"op":"add","path":"/a","value":1}]`, `{"a":1,"c~/":"x","n":null}`},
		{"add into an array", `[{"op":"add","path":"/a/b/1","value":9},{"op":"add","path":"/a/b/-","value":8}]`, `{"a":{"b":[1,9,2,3,8]},"c~/":"x","n":null}`},
		{"remove", `[{"op":"remove","path":"/a/b/0"},{"op":"remove","path":"/n"}]`, `{"a":{"b":[2,3]},"c~/":"x"}`},
		{"replace", `[{"op":"replace","path":"/a/b/2","value":null},{"op":"replace","path":"/c~0~1","value":"y"}]`, `{"a":{"b":[1,2,null]},"c~/":"y","n":null}`},
		{"replace the whole", `[{"op":"replace","path":"","value":[]}]`, `[]`},
		{"move", `[{"op":"move","from":"/a/b/0","path":"/a/b/2"}]`, `{"a":{"b":[2,3,1]},"c~/":"x","n":null}`},
		{"copy", `[{"op":"copy","from":"/a/b","path":"/d"},{"op":"add","path":"/d/0","value":0}]`, `{"a":{"b":[1,2,3]},"c~/":"x","d":[0,1,2,3],"n":null}`},
		{"test", `[{"op":"test","path":"/a","value":{"b":[1,2,3]}},{"op":"test","path":"/n","value":null}]`, doc},
		{"a test that fails", `[{"op":"remove","path":"/n"},{"op":"test","path":"/a","value":1}]`, ""},
		{"replace what is not there", `[{"op":"replace","path":"/x","value":1}]`, ""},
		{"remove what is not there", `[{"op":"remove","path":"/x"}]`, ""},
		{"an index beyond the end", `[{"op":"add","path":"/a/b/4","value":1}]`, ""},
		{"an index with a zero before it", `[{"op":"remove","path":"/a/b/01"}]`, ""},
		{"into a string", `[{"op":"add","path":"/c~0~1/x","value":1}]`, ""},
		{"move into itself", `[{"op":"move","from":"/a","path":"/a/b"}]`, ""},
		{"an unknown operation", `[{"op":"merge","path":"/a"}]`, ""},
		{"a path without a slash", `[{"op":"add","path":"a","value":1}]`, ""},
		{"no list", `{"op":"add"}`, ""},
		{"copies of copies", `[` + doubling + `{"op":"remove","path":"/n"}]`, ""},
		{"too many operations", `[` + strings.Repeat(`{"op":"test","path":"/n","value":null},`, maxOps) + `{"op":"remove","path":"/n"}]`, ""},
	} {
		before, err := decode(jsontext.Value(doc))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if after, err := patch(before, jsontext.Value(c.delta)); err == nil {
			v, _ := encode(after)
			got = string(v)
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if v, _ := encode(before); string(v) != doc {
			t.Errorf("%s: changed what was there: %s", c.name, v)
		}
	}
	if _, err := decode(jsontext.Value(strings.Repeat("[", 300) + strings.Repeat("]", 300))); err == nil {
		t.Error("a document that nests too deep was taken")
	}
}
