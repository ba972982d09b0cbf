package identity

import (
	"bytes"
	"errors"
	"sync"
	"testing"
)

func TestSecretIsMadeOnce(t *testing.T) {
	shelf := &fakeShelf{}
	const edges = 16
	got := make([][]byte, edges)
	var wg sync.WaitGroup
	for i := range edges {
		wg.Go(func() { got[i], _ = Secret(t.Context(), shelf, "r", "n") })
	}
	wg.Wait()
	for _, key := range got {
		if len(key) != 32 || !bytes.Equal(key, got[0]) {
			t.Fatal("edges differ in a key")
		}
	}
	for _, at := range [][2]string{{"r", "m"}, {"s", "n"}} {
		if other, err := Secret(t.Context(), shelf, at[0], at[1]); err != nil || bytes.Equal(other, got[0]) {
			t.Errorf("%v has the key of another realm or name (%v)", at, err)
		}
	}
}

func TestSecretLosesTheRace(t *testing.T) {
	shelf := &fakeShelf{}
	var winner []byte
	shelf.race = func() { winner, _ = Secret(t.Context(), shelf, "r", "n") }
	key, err := Secret(t.Context(), shelf, "r", "n")
	if err != nil || winner == nil || !bytes.Equal(key, winner) {
		t.Fatalf("the loser keeps its own key (%v)", err)
	}
}

func TestSecretOfAWrongSize(t *testing.T) {
	shelf := &fakeShelf{}
	if ok, _ := shelf.Put(t.Context(), "r", secretKind, "n", []byte("short"), 0, 0); !ok {
		t.Fatal("not put")
	}
	if key, err := Secret(t.Context(), shelf, "r", "n"); err == nil {
		t.Errorf("a key of %d bytes is used", len(key))
	}
}

func TestSecretsRemember(t *testing.T) {
	c := newClock()
	shelf := &fakeShelf{}
	s := NewSecrets(shelf, c.now)
	ask := func() []byte {
		t.Helper()
		key, err := s.Secret(t.Context(), "r", "n")
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key := ask()
	gets := shelf.gets
	if !bytes.Equal(ask(), key) || shelf.gets != gets {
		t.Error("a known key is read again")
	}
	c.pass(secretRecheck)
	shelf.fail = errors.New("down")
	if !bytes.Equal(ask(), key) {
		t.Error("an outage of the shelf loses the key")
	}
	shelf.fail, shelf.items = nil, nil
	c.pass(secretRecheck)
	if !bytes.Equal(ask(), key) {
		t.Error("a flushed shelf loses the key")
	}
	if again, _ := Secret(t.Context(), shelf, "r", "n"); !bytes.Equal(again, key) {
		t.Error("a flushed shelf does not get the key back")
	}
	// Another edge was faster after the flush: its key counts.
	shelf.items = nil
	theirs, _ := Secret(t.Context(), shelf, "r", "n")
	c.pass(secretRecheck)
	if !bytes.Equal(ask(), theirs) {
		t.Error("edges stay apart after a flush")
	}
}
