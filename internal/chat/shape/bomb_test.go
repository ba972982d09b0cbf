package shape

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// repeat writes n times the text, with commas between.
func repeat(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }

func TestBombs(t *testing.T) {
	long := `"` + strings.Repeat("a", 250<<10) + `"`
	many := make([]string, 20_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	wide := "{" + strings.Join(many, ",") + "}"
	all := func(sub string) string { return `{"d":` + sub + `,"allOf":[` + repeat(`{"$ref":"#/d"}`, 3_000) + `]}` }
	for _, c := range []struct{ name, schema, value string }{
		{"a pattern of nested counts", `{"pattern":"^(((a?){30}){30})*b?$"}`, long},
		{"a pattern for each of many", all(`{"pattern":"^a*$"}`), long},
		{"many compilations", all(`{"pattern":"((x{30}){30})"}`), `"a"`},
		{"many names of types", `{"d":{"type":["null",` + repeat(`"x"`, 8_000) + `]},"items":{"allOf":[` + repeat(`{"$ref":"#/d"}`, 2_000) + `]}}`, "[" + repeat("1", 50) + "]"},
		{"many members, often", all(`{"minProperties":1}`), wide},
		{"many required, often", all(`{"required":[` + repeat(`""`, 5_000) + `]}`), wide},
		{"one long text, often", all(`{"enum":[` + strings.Repeat(" ", 1) + `"x"],"minLength":1}`), long},
		{"long references", `{"d":{"items":{"$ref":"#/` + strings.Repeat("x", 20_000) + `"}},"allOf":[` + repeat(`{"$ref":"#/d"}`, 2_000) + `]}`, "[" + repeat("1", 1000) + "]"},
		{"patterns for the rest", `{"patternProperties":{"^z((b{30}){30})":true},"additionalProperties":false}`, wide},
	} {
		t.Run("I13 "+c.name, func(t *testing.T) {
			began := time.Now()
			err := Check(jsontext.Value(c.schema), jsontext.Value(c.value))
			took := time.Since(began)
			if m := (*Mismatch)(nil); !errors.Is(err, ErrCost) && !errors.As(err, &m) {
				t.Errorf("got %v", err)
			}
			if took > 10*time.Second { // half a second, on a slow machine with -race
				t.Errorf("it took %s", took)
			}
			t.Log(took)
		})
	}
	t.Run("I13 a long answer to a plain schema passes", func(t *testing.T) {
		schema := `{"type":"object","properties":{"text":{"type":"string","pattern":"^[a-z]+$","maxLength":300000}},"required":["text"],"additionalProperties":false}`
		if err := Check(jsontext.Value(schema), jsontext.Value(`{"text":`+long+`}`)); err != nil {
			t.Error(err)
		}
	})
}
