package chat

import "fmt"

// Kind says what a record means.
type Kind uint8

// The kinds of records. KindThread opens a thread and changes what is known of
// it; KindArchive says that older messages were moved out of the journal.
const (
	KindNone Kind = iota
	KindThread
	KindMessage
	KindRunPending
	KindRunActive
	KindRunSuspended
	KindRunResumed
	KindRunDetach
	KindRunStop
	KindRunEnd
	KindTextStart
	KindTextDelta
	KindTextEnd
	KindReasoningStart
	KindReasoningDelta
	KindReasoningEnd
	KindReasoningEncrypted
	KindToolStart
	KindToolArgs
	KindToolEnd
	KindToolResult
	KindInterrupt
	KindAnswer
	KindTodos
	KindState
	KindActivity
	KindStep
	KindCustom
	KindSubagentStart
	KindSubagentEnd
	KindTask
	KindUsage
	KindRunTaken
	KindArchive
	kindCount
)

var kindNames = [kindCount]string{
	"", "thread", "message",
	"run.pending", "run.active", "run.suspended", "run.resumed", "run.detach", "run.stop", "run.end",
	"text.start", "text.delta", "text.end",
	"reasoning.start", "reasoning.delta", "reasoning.end", "reasoning.encrypted",
	"tool.start", "tool.args", "tool.end", "tool.result",
	"interrupt", "answer", "todos", "state", "activity", "step", "custom",
	"subagent.start", "subagent.end", "task", "usage", "run.taken", "archive",
}

var kindByName = func() map[string]Kind {
	m := make(map[string]Kind, kindCount)
	for k := KindThread; k < kindCount; k++ {
		m[kindNames[k]] = k
	}
	return m
}()

func (k Kind) String() string {
	if k < kindCount {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) {
	name, err := k.name()
	return []byte(name), err
}

func (k Kind) name() (string, error) {
	if k == KindNone || k >= kindCount {
		return "", fmt.Errorf("chat: no name for kind %d", uint8(k))
	}
	return kindNames[k], nil
}

// UnmarshalText reads a kind's name; an unknown one is an error, because a
// record that cannot be folded must not be skipped.
func (k *Kind) UnmarshalText(b []byte) error {
	v, ok := kindByName[string(b)]
	if !ok {
		return fmt.Errorf("chat: unknown kind of record %q", b)
	}
	*k = v
	return nil
}

// Delta says that the kind continues a block: such records may be gathered.
func (k Kind) Delta() bool {
	return k == KindTextDelta || k == KindReasoningDelta || k == KindToolArgs
}

// Streams says that a run's owner writes records of this kind by append; all
// other kinds change a run's state or a thread and go by commit.
func (k Kind) Streams() bool {
	switch k {
	case KindTextStart, KindTextDelta, KindTextEnd,
		KindReasoningStart, KindReasoningDelta, KindReasoningEnd, KindReasoningEncrypted,
		KindToolStart, KindToolArgs, KindToolEnd, KindToolResult,
		KindTodos, KindState, KindActivity, KindStep, KindCustom,
		KindSubagentStart, KindSubagentEnd, KindUsage:
		return true
	}
	return false
}
