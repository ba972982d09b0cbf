package pilotoo

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// contract is what the schemas say at 1.17: for each message the keys that it
// must have, then ":" and those that it may have, and the events. Adding to the
// second half, or an event, is a new minor (PIL-201); taking from the first, or
// adding to it, a new major (PIL-203). Whoever changes this table changes Minor
// or Major with it.
var contract = map[string]string{
	"version":              "1.17",
	"run.start":            "input messageId threadId: attachments clientTools forkFromMessageId",
	"run.resume":           "answer interruptId threadId: clientTools",
	"run.cancel":           "runId:",
	"run.detach":           "runId: toolCallId",
	"thread.messages":      "threadId:",
	"protocol.hello":       "minClientMajor protocol:",
	"task.status":          "task threadId:",
	"run.event":            "event runId sequence threadId v:",
	"RUN_STARTED":          ": message",
	"RUN_FINISHED":         ":",
	"RUN_CANCELLED":        ":",
	"RUN_ERROR":            "code message:",
	"TEXT_MESSAGE_START":   "messageId role:",
	"TEXT_MESSAGE_CONTENT": "delta messageId:",
	"TEXT_MESSAGE_END":     "messageId:",
	"TOOL_CALL_START":      "toolCallId toolCallName: parentMessageId",
	"TOOL_CALL_ARGS":       "delta toolCallId:",
	"TOOL_CALL_END":        "toolCallId:",
	"TOOL_CALL_RESULT":     "content messageId toolCallId:",
	"INTERRUPT":            "interruptId payload:",
	"RUN_PAUSED":           ":",
	"REASONING_START":      "messageId:",
	"REASONING_CONTENT":    "delta messageId:",
	"REASONING_END":        "messageId:",
	"TODOS_SNAPSHOT":       "todos:",
	"SUBAGENT_STARTED":     "name toolCallId: childThreadId taskId",
	"SUBAGENT_FINISHED":    "name status toolCallId: childThreadId detached taskId",
}

type schemaJSON struct {
	Required   []string              `json:"required"`
	Properties map[string]any        `json:"properties"`
	Defs       map[string]schemaJSON `json:"$defs"`
}

func (s schemaJSON) keys() string {
	slices.Sort(s.Required)
	var may []string
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, k) {
			may = append(may, k)
		}
	}
	return strings.TrimSpace(strings.Join(s.Required, " ") + ": " + strings.Join(may, " "))
}

// PIL-201, PIL-203, PIL-210: what is announced is exactly what is taken and
// sent, so no key comes or goes under an old number.
func TestVersionStandsForTheContract(t *testing.T) {
	got := map[string]string{"version": fmt.Sprintf("%d.%d", Major, Minor)}
	for name := range contract {
		b, err := os.ReadFile(filepath.Join(specDir, name+".schema.json"))
		if err != nil {
			continue
		}
		var s schemaJSON
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		got[name] = s.keys()
		for event, d := range s.Defs {
			if event != "event" {
				got[event] = d.keys()
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(contract)) {
		if got[name] != contract[name] {
			t.Errorf("PIL-201 PIL-203 PIL-210 %s has %q, the table of 1.17 says %q", name, got[name], contract[name])
		}
	}
	if !reflect.DeepEqual(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(contract))) {
		t.Errorf("PIL-201 messages and events are %v", slices.Sorted(maps.Keys(got)))
	}
}

// PIL-204, PIL-205: every major from the oldest announced to our own is served.
// There is one; a second needs a variant of its own before it is announced.
func TestEveryAnnouncedMajorIsServed(t *testing.T) {
	served := []int{1}
	for major := MinClientMajor; major <= Major; major++ {
		if !slices.Contains(served, major) {
			t.Errorf("PIL-204 PIL-205 major %d is announced and not served", major)
		}
	}
	w := newWorld(t)
	w.open()
	if e := readEnvelope(t, w.envelopes(0)[0]); e.V != Major {
		t.Errorf("PIL-200 PIL-136 v is %d", e.V)
	}
}
