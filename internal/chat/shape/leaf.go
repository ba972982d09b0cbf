package shape

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxPattern bounds a pattern, in bytes; a longer one asks for nothing.
const maxPattern = 1_000

// memberCost is what each member of an object costs to be put in order.
const memberCost = 50

// patternCost is what each instruction of a pattern costs to be compiled.
const patternCost = 100

func limit(s map[string]any, name string) (float64, bool) {
	n, ok := s[name].(float64)
	return n, ok
}

// between checks a count against two keywords.
func between(s map[string]any, low, high string, n int, at, what string) *Mismatch {
	if l, ok := limit(s, low); ok && float64(n) < l {
		return &Mismatch{at, fmt.Sprintf("have at least %v %s", l, what)}
	}
	if h, ok := limit(s, high); ok && float64(n) > h {
		return &Mismatch{at, fmt.Sprintf("have at most %v %s", h, what)}
	}
	return nil
}

func (c *check) text(s map[string]any, v, at string) *Mismatch {
	if !c.spend(len(v)) {
		return nil
	}
	if m := between(s, "minLength", "maxLength", utf8.RuneCountInString(v), at, "characters"); m != nil {
		return m
	}
	if p, ok := s["pattern"].(string); ok && len(p) <= maxPattern {
		if match, known := c.match(p, v); known && !match {
			return &Mismatch{at, "match its pattern"}
		}
	}
	return nil
}

// match says whether v matches a pattern; known is false where it cannot be
// read or would take too long. Counted repetition makes a short pattern large,
// so what it costs is told by the program that it becomes.
func (c *check) match(pattern, v string) (match, known bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false, false
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || !c.spend(len(program.Inst)*(len(v)+patternCost)) {
		return false, false
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false, false
	}
	return re.MatchString(v), true
}

func number(s map[string]any, v float64, at string) *Mismatch {
	if l, ok := limit(s, "minimum"); ok && v < l {
		return &Mismatch{at, fmt.Sprintf("be at least %v", l)}
	}
	if l, ok := limit(s, "exclusiveMinimum"); ok && v <= l {
		return &Mismatch{at, fmt.Sprintf("be more than %v", l)}
	}
	if h, ok := limit(s, "maximum"); ok && v > h {
		return &Mismatch{at, fmt.Sprintf("be at most %v", h)}
	}
	if h, ok := limit(s, "exclusiveMaximum"); ok && v >= h {
		return &Mismatch{at, fmt.Sprintf("be less than %v", h)}
	}
	return nil
}

func (c *check) array(s map[string]any, v []any, at string, depth int) *Mismatch {
	if m := between(s, "minItems", "maxItems", len(v), at, "entries"); m != nil {
		return m
	}
	prefix, _ := s["prefixItems"].([]any)
	items, ok := s["items"]
	for i, e := range v {
		var sub any = true
		switch {
		case i < len(prefix):
			sub = prefix[i]
		case ok:
			sub = items
		}
		if m := c.value(sub, e, below(at, strconv.Itoa(i)), depth+1); m != nil {
			return m
		}
	}
	if unique, _ := s["uniqueItems"].(bool); unique {
		for i := range v {
			for j := range i {
				if c.equal(v[i], v[j], depth) {
					return &Mismatch{at, "not repeat an entry"}
				}
				if c.spent {
					return nil
				}
			}
		}
	}
	return nil
}

func (c *check) object(s map[string]any, v map[string]any, at string, depth int) *Mismatch {
	if m := between(s, "minProperties", "maxProperties", len(v), at, "members"); m != nil {
		return m
	}
	if required, ok := s["required"].([]any); ok {
		if !c.spend(len(required)) {
			return nil
		}
		for _, name := range required {
			name, _ := name.(string)
			if _, there := v[name]; !there && name != "" {
				return &Mismatch{at, "have the member " + strconv.Quote(name)}
			}
		}
	}
	if !c.spend(memberCost * len(v)) {
		return nil
	}
	properties, _ := s["properties"].(map[string]any)
	rest, closed := s["additionalProperties"]
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		sub, known := properties[name]
		switch {
		case !known && !closed, !known && c.patterned(s, name):
			continue
		case !known:
			sub = rest
		}
		if m := c.value(sub, v[name], below(at, name), depth+1); m != nil {
			return m
		}
	}
	return nil
}

// patterned says that a schema's patternProperties may speak for a name, so
// that additionalProperties does not. What they ask for is not checked.
func (c *check) patterned(s map[string]any, name string) bool {
	patterns, _ := s["patternProperties"].(map[string]any)
	for p := range patterns {
		if len(p) > maxPattern {
			return true
		}
		if match, known := c.match(p, name); match || !known {
			return true
		}
	}
	return false
}
