package pilotoo

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/chat/shape"
)

// checkAnswer refuses an answer that its question cannot take, so that the
// decision stays open (PIL-074, PIL-090).
func checkAnswer(i *chat.Interrupt, value jsontext.Value) error {
	if len(i.Schema) > 0 {
		err := shape.Check(i.Schema, value)
		if m, ok := errors.AsType[*shape.Mismatch](err); ok {
			return invalid("the answer does not fit the question: it %s", m)
		}
		if err != nil {
			return invalid("the answer cannot be checked: %s", err)
		}
		return nil
	}
	if i.Kind == chat.InterruptApproval {
		return checkApproval(value)
	}
	return nil
}

// checkApproval takes true, false, or {approved, reason?}.
func checkApproval(value jsontext.Value) error {
	switch value.Kind() {
	case 't', 'f':
		return nil
	case '{':
		o, err := readObject("the answer", value, "approved", "reason")
		if err != nil {
			return err
		}
		if k := o.members["approved"].Kind(); k != 't' && k != 'f' {
			return invalid("the answer to an approval needs approved: true or false")
		}
		if o.has("reason") {
			if _, err := o.text("reason"); err != nil {
				return err
			}
		}
		return nil
	}
	return invalid("the answer to an approval must be true, false, or an object with approved and perhaps reason")
}
