package redisjournal

import (
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// The first byte of a script's answer.
const (
	answerOK       = 'O'
	answerAlready  = 'A'
	answerBefore   = 'B'
	answerConflict = 'C'
	answerDeleted  = 'D'
	answerEnded    = 'E'
	answerFenced   = 'F'
	answerGap      = 'G'
	answerSealed   = 'L'
	answerLost     = 'N'
	answerVersion  = 'V'
	answerEpoch    = 'W'
)

// plainResults are the answers that say nothing more.
var plainResults = map[byte]journal.Result{
	answerAlready: journal.Already, answerConflict: journal.Conflict, answerDeleted: journal.Deleted,
	answerEnded: journal.Ended, answerFenced: journal.Fenced, answerSealed: journal.Sealed,
	answerLost: journal.Lost, answerEpoch: journal.WrongEpoch,
}

// open splits an answer into its first byte and the rest. A thread of a newer
// schema is an error.
func open(text string) (code byte, p parser, err error) {
	if text == "" {
		return 0, p, errAnswer
	}
	code, p.b = text[0], text[1:]
	if code == answerVersion {
		return 0, p, errNewer(p.u16())
	}
	return code, p, nil
}

// errNewer: the thread was written by a newer build. Nothing was changed.
func errNewer(schema uint16) error {
	return fmt.Errorf("redisjournal: the thread is of schema %d, this build knows %d: upgrade this edge", schema, chat.SchemaVersion)
}

// okOrLost is the answer of a script that knows no other.
func okOrLost(text string, err error) (journal.Result, error) {
	if err != nil {
		return 0, err
	}
	code, _, err := open(text)
	switch {
	case err != nil:
		return 0, err
	case code == answerOK:
		return journal.OK, nil
	case code == answerLost:
		return journal.Lost, nil
	}
	return 0, errAnswer
}
