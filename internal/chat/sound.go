package chat

import "slices"

// What is read from a store may be damaged. A list with a hole in it, or a body
// without what it is about, is refused where it is read, so that nothing else
// has to look.

func (m *Message) sound() bool { return m != nil && !slices.Contains(m.Parts, nil) }

func (r *Run) sound() bool {
	return r != nil && !slices.Contains(r.Parts, nil) && !slices.Contains(r.Interrupts, nil) &&
		!slices.Contains(r.Withdrawn, nil) && (r.Opening == nil || r.Opening.sound())
}

func (s *State) sound() bool {
	next := 0
	for i := range s.Archives {
		a := &s.Archives[i]
		if !a.sound() || a.First != next {
			return false
		}
		next = a.End()
	}
	return !slices.ContainsFunc(s.Tail, func(m *Message) bool { return !m.sound() }) &&
		!slices.ContainsFunc(s.Runs, func(r *Run) bool { return !r.sound() })
}

// sound says whether a body can be folded.
func sound(b Body) bool {
	switch b := b.(type) {
	case *MessageBody:
		return b.Message.sound()
	case *RunPendingBody:
		return b.Run.sound()
	case *RunEndBody:
		return b.Message == nil || b.Message.sound()
	case *InterruptBody:
		return b.Interrupt != nil
	case *ArchiveBody:
		return b.Archive.sound()
	}
	return true
}
