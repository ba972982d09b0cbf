package redisjournal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// edges are the keys of a storage that are markers.
func (m *memory) edges() (n int) {
	for _, k := range m.keys() {
		if strings.Contains(k, "/edges/") {
			n++
		}
	}
	return n
}

func TestMarkersOfEdgesThatWereKilledAreRemoved(t *testing.T) {
	s := redistest.Start(t)
	c, m := newClock(), newMemory()
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}, Shift: c.shift, Storage: m})
	look := func(p *proof) {
		t.Helper()
		if err := p.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const killed = 2*straysAtOnce + 1
	for i := range killed {
		look(&proof{j: j, marker: fmt.Sprint("killed", i), running: make(chan struct{}, 1)})
	}
	c.Advance(proofLife + time.Minute)
	look(j.blobs.proof)
	if n := m.edges(); n != killed+1 {
		t.Errorf("%d markers are there while their edges may come back", n)
	}
	c.Advance(strayAge)
	for range 3 {
		look(j.blobs.proof)
	}
	if n := m.edges(); n != 1 {
		t.Errorf("%d markers are left", n)
	}
	if n := s.Do("HLEN", j.blobs.proof.names()[0]); n != int64(1) {
		t.Errorf("%v markers are named", n)
	}
	// An edge that was asleep for as long.
	p := j.blobs.proof
	if err := m.Delete(t.Context(), p.path(p.marker)); err != nil {
		t.Fatal(err)
	}
	p.running <- struct{}{}
	p.named = p.named.Add(-strayAge)
	<-p.running
	look(p)
	if n := m.edges(); n != 1 {
		t.Error("an edge that was asleep has no marker")
	}
}

func TestCloseWaitsForAHangingServerOnce(t *testing.T) {
	s := redistest.Start(t)
	m := newMemory()
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
	late := make(chan struct{})
	m.broken = func(op, _ string) error {
		if op != "delete" {
			return nil
		}
		select {
		case <-j.followers.ctx.Done():
		case <-time.After(20 * time.Second):
			close(late)
		}
		return nil
	}
	j.opts.Storage = m
	if err := j.blobs.proof.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-late:
		t.Error("F8 the lines were held open until the marker had gone")
	default:
	}
}
