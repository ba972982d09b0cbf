package chat

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Remark is what an agent said of its whole answer by custom events of one name.
type Remark struct {
	Name string `json:"name"`
	// Values are the lists that it gave, in their order, or the last value that is
	// no list.
	Values []jsontext.Value `json:"values"`
}

// remarks are the names of the custom events that stand for the whole answer.
// Dialects that have members for them show them with the answer's end, whichever
// segment they came in.
var remarks = []string{"citations", "directive", "escalation", "response"}

// Bounds of the lists of a remark, those beyond are left out: their number, and
// their bytes.
const (
	maxRemarks = 256
	maxRemark  = 256 << 10
)

// Remarked is what the agent said under a name, or nothing.
func (run *Run) Remarked(name string) []jsontext.Value {
	for _, m := range run.Remarks {
		if m.Name == name {
			return m.Values
		}
	}
	return nil
}

func (run *Run) remark(b *CustomBody) {
	if !slices.Contains(remarks, b.Name) || len(b.Value) == 0 {
		return
	}
	m := Remark{Name: b.Name, Values: []jsontext.Value{b.Value}}
	i := slices.IndexFunc(run.Remarks, func(m Remark) bool { return m.Name == b.Name })
	if i < 0 {
		run.Remarks = append(clip(run.Remarks), m)
		return
	}
	if old := run.Remarks[i].Values; b.Value.Kind() == '[' && old[0].Kind() == '[' {
		if len(old) == maxRemarks {
			return
		}
		size := len(b.Value)
		for _, v := range old {
			size += len(v)
		}
		if size > maxRemark {
			return
		}
		m.Values = append(clip(old), b.Value)
	}
	run.Remarks = slices.Clone(run.Remarks)
	run.Remarks[i] = m
}
