package chat

// MaxArchive is how many pages one archive holds at most.
const MaxArchive = 100

// Archive is the stub of pages that were moved out of a journal into a blob.
// Pages are counted from the thread's first message, and never change, so an
// archive can hold nothing that a later record would alter.
type Archive struct {
	// Blob is the blob's id in the thread's realm, random and unguessable.
	Blob string `json:"blob"`
	// First is the first page that it holds, Pages how many.
	First int `json:"first,omitzero"`
	Pages int `json:"pages"`
	// Sum is what the blob must answer for: it is made of its content, the thread
	// and the place of its pages in it.
	Sum string `json:"sum"`
}

// End is the page behind the archive's last.
func (a *Archive) End() int { return a.First + a.Pages }

func (a *Archive) sound() bool {
	return a.Blob != "" && a.First >= 0 && a.First < 1<<30 && a.Pages > 0 && a.Pages <= MaxArchive
}

// Archived is how many of the thread's first pages are in archives.
func (s *State) Archived() int {
	if n := len(s.Archives); n > 0 {
		return s.Archives[n-1].End()
	}
	return 0
}

// ArchiveOf finds the archive that holds a page, or returns nil.
func (s *State) ArchiveOf(page int) *Archive {
	for i := range s.Archives {
		if a := &s.Archives[i]; page >= a.First && page < a.End() {
			return a
		}
	}
	return nil
}

// archive takes a stub. Archives follow one another from the first page on; one
// that does not is none. How many pages this line of folding has itself is not
// asked: it may hold as its tail what a store has as pages.
func (s *State) archive(a Archive) {
	if a.sound() && a.First == s.Archived() {
		s.Archives = append(clip(s.Archives), a)
	}
}

// Quiet is when the thread's newest message came to be whole, in Unix
// milliseconds: what is done to a thread beside its messages keeps nothing from
// being archived. It is 0 without messages.
func (s *State) Quiet() int64 {
	at := int64(0)
	for _, m := range s.Tail {
		at = max(at, m.Created)
		if m.Ran != nil {
			at = max(at, m.Ran.Ended)
		}
	}
	return at
}
