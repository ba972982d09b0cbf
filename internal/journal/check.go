package journal

import (
	"errors"
	"fmt"
)

// errWrite is a mistake of the writer; trying again cannot help.
var errWrite = errors.New("journal: not a valid write")

// Check says what makes an append invalid whatever the thread is, or nil:
// ErrTooLarge for more than MaxWrite entries. Each store asks it first.
func (a *Append) Check() error {
	if len(a.Entries) > MaxWrite {
		return fmt.Errorf("%w: an append of %d records", ErrTooLarge, len(a.Entries))
	}
	if len(a.Entries) == 0 {
		return fmt.Errorf("%w: an append without records", errWrite)
	}
	for _, e := range a.Entries {
		if !e.Kind.Streams() || e.Body == nil {
			return fmt.Errorf("%w: a %s record does not stream", errWrite, e.Kind)
		}
		if e.Run != a.Run {
			return fmt.Errorf("%w: an append to one run with a record of another", errWrite)
		}
	}
	return nil
}

// Check says what makes a commit invalid whatever the thread is, or nil:
// ErrTooLarge for more than MaxWrite entries or MaxResult bytes of result.
func (c *Commit) Check() error {
	if len(c.Entries) > MaxWrite {
		return fmt.Errorf("%w: a commit of %d records", ErrTooLarge, len(c.Entries))
	}
	if len(c.Result) > MaxResult {
		return fmt.Errorf("%w: a commit's result of %d bytes", ErrTooLarge, len(c.Result))
	}
	if c.Epoch == 0 && c.NewEpoch == 0 {
		return fmt.Errorf("%w: a new thread without an epoch", errWrite)
	}
	for _, e := range c.Entries {
		if e.Body == nil {
			return fmt.Errorf("%w: a %s record without a body", errWrite, e.Kind)
		}
	}
	return nil
}
