package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// crowd says what a swarm is made of; see testdata/js/swarm.mjs.
type crowd struct {
	Edges   []string `json:"edges"`
	Seed    int64    `json:"seed"`
	Threads int      `json:"threads"`
	Windows int      `json:"windows"` // of each thread
	Polling int      `json:"polling"` // of ten windows
	Kinds   []string `json:"kinds"`
	Pauses  int      `json:"pauses"` // the longest between two messages, in ms; 0 is 400
	Settle  int      `json:"settle"` // how long anything may take, in ms; 0 is a minute
	Remove  bool     `json:"remove"` // deletes the threads in the end
}

// allKinds are the messages of a crowd that does everything.
var allKinds = []string{"plain", "plain", "long", "ask", "ask", "fail", "cut", "twice", "cancel", "cancel", "hang"}

// swarm is a crowd at work and the checker of what it tells.
type swarm struct {
	t     testing.TB
	in    io.WriteCloser
	cmd   *exec.Cmd
	said  output
	begun chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	check   *checker
	settled bool
	threads map[string]bool
}

func startSwarm(t testing.TB, c crowd) *swarm {
	t.Helper()
	if c.Settle == 0 {
		c.Settle = 60_000
	}
	if c.Pauses == 0 {
		c.Pauses = 400
	}
	conf, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &swarm{t: t, check: newChecker(), begun: make(chan struct{}), done: make(chan struct{}), threads: map[string]bool{}}
	s.cmd = exec.Command("node", "swarm.mjs")
	s.cmd.Dir, s.cmd.Stderr = modules, &s.said
	s.cmd.Env = append(os.Environ(), "SWARM="+string(conf))
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(out)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s
}

func (s *swarm) read(out io.Reader) {
	defer close(s.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	begun := false
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			s.t.Errorf("a line of the swarm: %v", err)
			continue
		}
		s.take(n)
		if n.K == "begun" {
			begun = true
			close(s.begun)
		}
	}
	if !begun {
		close(s.begun)
	}
	_ = s.cmd.Wait()
}

// take hands the checker a note, be it the swarm's or the test's.
func (s *swarm) take(n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.K == "settled" {
		s.settled = true
	}
	if n.Th != "" {
		s.threads[n.Th] = true
	}
	s.check.take(n)
}

// lossy tells the checker that the store may lose what streamed, and if it does
// not wait for replicas what it acknowledged.
func (s *swarm) lossy(sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check.lossy, s.check.unsure = true, !sure
}

// stop lets the swarm send no more.
func (s *swarm) stop() { _, _ = io.WriteString(s.in, "stop\n") }

// healed tells the checker that nothing is being broken any more.
func (s *swarm) healed() { s.take(note{K: "healed", T: time.Now().UnixMilli()}) }

// verdict waits for the swarm's end and holds what it told to the agent's books.
func (s *swarm) verdict(b *bot) ([]violation, figures) {
	select {
	case <-s.done:
	case <-time.After(5 * time.Minute):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.settled {
		s.check.bad(badStuck, "the swarm did not settle: %v, %s", s.cmd.ProcessState, s.said.String())
	}
	calls, open := b.books()
	for end := time.Now().Add(endBound); open > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		calls, open = b.books()
	}
	return s.check.verdict(calls, open), s.check.figures
}

// mustHold fails the test with each violation, and says what was seen.
func (s *swarm) mustHold(f *fleet) figures {
	s.t.Helper()
	found, seen := s.verdict(f.bot)
	for _, v := range found[:min(len(found), 30)] {
		s.t.Error(v)
	}
	s.t.Logf("%s, %d violations", seen, len(found))
	return seen
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
