package e2e

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// bot is an AG-UI agent that does what the message to answer says, and keeps
// the books of it. Its words are numbered and summed, so that whoever sees a
// text can tell what is missing, and of which call.
//
// A message is a list of words: n=<words> d=<ms between them> ask (a question
// after half of them; the rest follows its answer) fail (an error instead of
// the second half) cut (the connection ends instead) hang (silence instead) hold=<words
// after which it says nothing until it is told to go on>.
type bot struct {
	srv *httptest.Server

	mu    sync.Mutex
	calls []*call
	open  int
}

// call is one request as the agent saw it.
type call struct {
	ID      int
	Segment string // the run's id as the agent was given it
	Message string // what it was asked
	Answers []answerGiven
	Planned int // words that it means to say in this call
	Said    int
	Whole   bool   // it said all and its end was written
	Over    bool   // the request has ended, by whoever
	Above   string // the traceparent that came with it
	// free is closed when it need not hold (any more).
	free chan struct{}
}

// answerGiven is an entry of resume.
type answerGiven struct {
	Interrupt string          `json:"interruptId"`
	Status    string          `json:"status"`
	Payload   json.RawMessage `json:"payload"`
}

func newBot(t testing.TB) *bot {
	b := new(bot)
	b.srv = httptest.NewServer(b)
	t.Cleanup(func() {
		b.srv.CloseClientConnections()
		b.srv.Close()
	})
	return b
}

// word is the i-th word of a call.
func word(call, i int) string {
	s := fmt.Sprintf("c%d.%d", call, i)
	return fmt.Sprintf("%s.%04x ", s, crc32.ChecksumIEEE([]byte(s))&0xffff)
}

// ordered reads what a message asks for.
func ordered(message string) (numbers map[string]int, words map[string]bool) {
	numbers, words = map[string]int{"n": 10, "d": 5}, map[string]bool{}
	for _, f := range strings.Fields(message) {
		if name, v, ok := strings.Cut(f, "="); ok {
			if n, err := strconv.Atoi(v); err == nil {
				numbers[name] = n
			}
		} else {
			words[f] = true
		}
	}
	return numbers, words
}

func (b *bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/on" {
		b.release()
		return
	}
	if r.Method == http.MethodGet {
		b.tell(w, r.URL.Query().Get("run"))
		return
	}
	var in struct {
		Thread   string `json:"threadId"`
		Run      string `json:"runId"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Resume []answerGiven `json:"resume"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "bad input", http.StatusBadRequest)
		return
	}
	var message string
	for _, m := range in.Messages {
		if m.Role == "user" {
			_ = json.Unmarshal(m.Content, &message)
		}
	}
	n, does := ordered(message)
	words := n["n"]
	if does["ask"] || does["fail"] || does["cut"] || does["hang"] {
		words /= 2
	}
	c := b.began(in.Run, message, r.Header.Get("Traceparent"), words, in.Resume)
	whole := b.speak(w, r, c, in.Thread, time.Duration(n["d"])*time.Millisecond, n["hold"], does)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	c.Over, c.Whole = true, whole
}

// release lets each call that has begun go on where it is to hold.
func (b *bot) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		select {
		case <-c.free:
		default:
			close(c.free)
		}
	}
}

// tell answers scripts with what each call for a run was given as answers.
func (b *bot) tell(w http.ResponseWriter, run string) {
	calls, _ := b.books()
	told := [][]answerGiven{}
	for _, c := range calls {
		if c.Segment == run {
			told = append(told, c.Answers)
		}
	}
	_ = json.NewEncoder(w).Encode(told)
}

func (b *bot) began(segment, message, above string, words int, answers []answerGiven) *call {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &call{ID: len(b.calls), Segment: segment, Message: message, Above: above, Planned: words, Answers: answers, free: make(chan struct{})}
	b.calls = append(b.calls, c)
	b.open++
	return c
}

// speak streams one call, and says whether all of it was written.
func (b *bot) speak(w http.ResponseWriter, r *http.Request, c *call, thread string, pause time.Duration, hold int, does map[string]bool) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	ids := fmt.Sprintf(`"threadId":%q,"runId":%q`, thread, c.Segment)
	say := func(event string) bool {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", event); err != nil {
			return false
		}
		return flush.Flush() == nil && r.Context().Err() == nil
	}
	text := fmt.Sprintf("t%d", c.ID)
	if !say(`{"type":"RUN_STARTED",`+ids+`}`) || !say(`{"type":"TEXT_MESSAGE_START","messageId":"`+text+`","role":"assistant"}`) {
		return false
	}
	for i := range c.Planned {
		if hold > 0 && i == hold {
			select {
			case <-c.free:
			case <-r.Context().Done():
				return false
			}
		}
		b.mu.Lock()
		c.Said++
		b.mu.Unlock()
		if !say(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"` + text + `","delta":"` + word(c.ID, i) + `"}`) {
			return false
		}
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return false
		}
	}
	end := func(event string) bool {
		return say(`{"type":"TEXT_MESSAGE_END","messageId":"`+text+`"}`) && say(event)
	}
	switch {
	case does["hang"]:
		<-r.Context().Done()
		return false
	case does["cut"]:
		return false // the body ends without a word
	case does["fail"]:
		return end(`{"type":"RUN_ERROR","message":"as asked","code":"AS_ASKED"}`)
	case does["ask"] && len(c.Answers) == 0:
		return end(fmt.Sprintf(`{"type":"RUN_FINISHED",%s,"outcome":{"type":"interrupt","interrupts":[{"id":"q%d","reason":"confirmation","message":"go on?"}]}}`, ids, c.ID))
	}
	return end(`{"type":"RUN_FINISHED",` + ids + `}`)
}

// books is a copy of what was asked of the agent, and how many requests are
// open right now.
func (b *bot) books() (calls []call, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		calls = append(calls, *c)
	}
	return calls, b.open
}
