package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time of every test that needs one.
var start = time.Unix(1_750_000_000, 0)

// clock is an injected time that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// refused fails the test unless err is the one refusal, with the one text, and
// none of the secrets is in any of its forms.
func refused(t *testing.T, p Principal, err error, secrets ...string) {
	t.Helper()
	if !errors.Is(err, ErrUnauthenticated) {
		t.Fatalf("error is %v, want ErrUnauthenticated", err)
	}
	if !p.Equal(Principal{}) {
		t.Errorf("principal beside the error: %+v", p)
	}
	if err.Error() != ErrUnauthenticated.Error() {
		t.Errorf("text is %q, want the one of ErrUnauthenticated", err)
	}
	if Reason(err) == "" {
		t.Error("no reason for the debug log")
	}
	told := strings.Join([]string{fmt.Sprintf("%v|%+v|%#v", err, err, err), Reason(err)}, "|")
	for _, secret := range secrets {
		for i := 0; i+12 <= len(secret); i++ {
			if strings.Contains(told, secret[i:i+12]) {
				t.Fatalf("%q tells a part of a credential", told)
			}
		}
	}
}

// fakeShelf is the shelf that two edges share in tests.
type fakeShelf struct {
	mu    sync.Mutex
	items map[string][]byte
	fail  error
	gets  int
	race  func() // called once between a reader's Get and its Put
}

func (s *fakeShelf) Get(_ context.Context, realm, kind, id string) ([]byte, uint64, error) {
	s.mu.Lock()
	s.gets++
	v, ok := s.items[encodeKey(realm, kind, id)]
	race := s.race
	s.race = nil
	fail := s.fail
	s.mu.Unlock()
	if race != nil {
		race()
	}
	if fail != nil || !ok {
		return nil, 0, fail
	}
	return v, 1, nil
}

func (s *fakeShelf) Put(_ context.Context, realm, kind, id string, value []byte, ifVersion uint64, _ time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return false, s.fail
	}
	key := encodeKey(realm, kind, id)
	if _, exists := s.items[key]; exists == (ifVersion == 0) {
		return false, nil
	}
	if s.items == nil {
		s.items = make(map[string][]byte)
	}
	s.items[key] = value
	return true, nil
}
