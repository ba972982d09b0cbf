package e2e

// note is a line of a swarm's history: what a window saw or did, in the order
// in which it did. Of its members a kind uses some (testdata/js/swarm.mjs).
type note struct {
	K string `json:"k"`
	T int64  `json:"t"` // Unix ms
	// W is the window, C its connection, Th its thread, E the edge.
	W  string `json:"w"`
	C  int    `json:"c"`
	Th string `json:"th"`
	E  int    `json:"e"`
	// An envelope: run, sequence, type, message, text, question, error code.
	R    string `json:"r"`
	S    int    `json:"s"`
	Y    string `json:"y"`
	M    string `json:"m"`
	D    string `json:"d"`
	I    string `json:"i"`
	Code string `json:"code"`
	// A history: its messages, its replay, its open question.
	Msgs  []shown `json:"msgs"`
	Env   []note  `json:"env"`
	Trunc bool    `json:"trunc"`
	Pi    string  `json:"pi"`
	Open  bool    `json:"open"`
	// A command and its answer; Lost is no answer.
	ID   string `json:"id"`
	N    int    `json:"n"`
	OK   bool   `json:"ok"`
	Lost bool   `json:"lost"`
	Why  string `json:"why"`
}

// shown is a message as a window has it.
type shown struct {
	ID   string `json:"m"`
	Role string `json:"y"`
	Text string `json:"d"`
}

// transcript is what a window has folded on its present connection.
type transcript struct {
	list []shown
	at   map[string]int
	torn bool // a truncated replay has left it without a beginning
}

func newTranscript(messages []shown) *transcript {
	f := &transcript{at: map[string]int{}}
	for _, m := range messages {
		f.add(m)
	}
	return f
}

func (f *transcript) add(m shown) {
	if _, there := f.at[m.ID]; there || m.ID == "" {
		return
	}
	f.at[m.ID] = len(f.list)
	f.list = append(f.list, m)
}

func (f *transcript) take(n note) {
	switch n.Y {
	case "RUN_STARTED":
		f.add(shown{n.M, "user", n.D})
	case "TEXT_MESSAGE_START":
		f.add(shown{n.M, "assistant", ""})
	case "TEXT_MESSAGE_CONTENT":
		i, there := f.at[n.M]
		if !there {
			f.torn = true
			return
		}
		f.list[i].Text += n.D
	}
}

func (f *transcript) text(message string) string {
	if i, there := f.at[message]; there {
		return f.list[i].Text
	}
	return ""
}
