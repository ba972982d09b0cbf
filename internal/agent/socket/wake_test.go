package socket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const wakeSecret = "whsec_0123456789abcdef"

// woken is a process that is woken: it answers with the codes that it is given,
// the last of them again and again.
type woken struct {
	*httptest.Server
	mu    sync.Mutex
	codes []int
	calls []call
}

type call struct {
	header http.Header
	body   string
}

func sleeper(t *testing.T, codes ...int) *woken {
	w := &woken{codes: codes}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		code := w.codes[min(len(w.calls), len(w.codes)-1)]
		w.calls = append(w.calls, call{r.Header, r.Method + " " + r.URL.RequestURI() + " " + string(b)})
		w.mu.Unlock()
		if code == http.StatusFound {
			rw.Header().Set("Location", r.URL.Query().Get("to"))
		}
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, strings.Repeat("x", 100<<10)) // which nobody wants
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *woken) called() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func waker(t *testing.T, o WakeOptions) *Waker {
	o.Secret = []byte(wakeSecret)
	w := NewWaker(o)
	w.pause = time.Millisecond
	t.Cleanup(w.Close)
	return w
}

func waits(context.Context) bool { return true }

// PIN-254: the call says which run waits in which thread, signed with its time.
func TestWake(t *testing.T) {
	s := sleeper(t, http.StatusAccepted)
	a := New(Options{Waker: waker(t, WakeOptions{URL: s.URL + "/wake?x=1"})})
	before := time.Now().Unix()
	if err := a.Wake(t.Context(), key, "run-1", waits); err != nil {
		t.Fatal(err)
	}
	calls := s.called()
	if len(calls) != 1 || calls[0].body != `POST /wake?x=1 {"threadId":"t","runId":"run-1"}` || calls[0].header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", calls)
	}
	at := calls[0].header.Get("Parlance-Timestamp")
	if n, err := strconv.ParseInt(at, 10, 64); err != nil || n < before || n > time.Now().Unix() {
		t.Errorf("signed at %q", at)
	}
	mac := hmac.New(sha256.New, []byte(wakeSecret))
	mac.Write([]byte(at + `.{"threadId":"t","runId":"run-1"}`))
	if got := calls[0].header.Get("Parlance-Signature"); got != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signed %q", got)
	}
	if !a.Wakes() || New(Options{}).Wakes() {
		t.Error("who has an address can be woken, who has none cannot")
	}
	if err := New(Options{}).Wake(t.Context(), key, "run-1", waits); err != nil {
		t.Error(err)
	}
}

func TestWakeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int
		calls int
		fails bool
	}{
		{"what fails on their side is repeated", []int{503, 500, 204}, 3, false},
		{"so is what comes too often", []int{429, 408, 200}, 3, false},
		{"but not for ever", []int{502}, 5, true},
		{"what is refused is not", []int{403}, 1, true},
		{"nor what is not there", []int{404}, 1, true},
	} {
		s := sleeper(t, c.codes...)
		err := waker(t, WakeOptions{URL: s.URL}).Wake(t.Context(), "n", "t", "run", waits)
		if n := len(s.called()); n != c.calls || (err != nil) != c.fails {
			t.Errorf("PIN-254 %s: %d calls, %v", c.name, n, err)
		}
	}
}

// U2: only the configured address is ever called.
func TestWakeFollowsNoRedirect(t *testing.T) {
	other, s := sleeper(t, 200), sleeper(t, http.StatusFound)
	err := waker(t, WakeOptions{URL: s.URL + "?to=" + other.URL}).Wake(t.Context(), "n", "t", "run", waits)
	if err == nil || len(other.called()) != 0 || len(s.called()) != 1 {
		t.Errorf("%v after %d calls, and %d elsewhere", err, len(s.called()), len(other.called()))
	}
}

func TestWakeStops(t *testing.T) {
	t.Run("when the run does not wait any more", func(t *testing.T) {
		s := sleeper(t, 503)
		err := waker(t, WakeOptions{URL: s.URL}).Wake(t.Context(), "n", "t", "run", func(context.Context) bool { return false })
		if err != nil || len(s.called()) != 1 {
			t.Errorf("%v after %d calls", err, len(s.called()))
		}
	})
	t.Run("when the edge does", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := sleeper(t, 503)
		w := waker(t, WakeOptions{URL: s.URL})
		w.pause = time.Hour
		out := make(chan error, 1)
		go func() { out <- w.Wake(ctx, "n", "t", "run", waits) }()
		for len(s.called()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-out; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("after its time", func(t *testing.T) {
		release := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer s.Close()
		defer close(release)
		n := 0
		err := waker(t, WakeOptions{URL: s.URL, Timeout: 20 * time.Millisecond}).Wake(t.Context(), "n", "t", "run", func(context.Context) bool {
			n++
			return true
		})
		if !errors.Is(err, context.DeadlineExceeded) || n != wakeTries-1 {
			t.Errorf("%v after %d repetitions", err, n)
		}
	})
}

func TestWakeTellsNothing(t *testing.T) {
	w := waker(t, WakeOptions{URL: "http://127.0.0.1:1/hook?key=swordfish"})
	err := w.Wake(t.Context(), "n", "t", "run", waits)
	if err == nil || strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "/hook") || strings.Contains(err.Error(), wakeSecret) {
		t.Errorf("%v", err)
	}
}

// What waits for its turn is bounded, and so are the calls at once.
func TestWakeBounds(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
	}))
	defer s.Close()
	w := waker(t, WakeOptions{URL: s.URL, Timeout: time.Minute})
	var wg sync.WaitGroup
	for range wakeWaiting / 2 {
		wg.Go(func() {
			if err := w.Wake(t.Context(), "n", "t", "run", waits); err != nil {
				t.Error(err)
			}
		})
	}
	for full := false; !full; time.Sleep(time.Millisecond) {
		w.turns.mu.Lock()
		full = w.turns.taken == wakeWaiting/2
		w.turns.mu.Unlock()
	}
	if err := w.Wake(t.Context(), "n", "t", "run", waits); !errors.Is(err, ErrWakeFull) {
		t.Errorf("one more: %v", err)
	}
	close(release)
	wg.Wait()
	if most > wakeCalls/2 {
		t.Errorf("%d calls at once", most)
	}
}
