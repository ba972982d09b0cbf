package pingerchips

import (
	"sync"
	"weak"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// snapshot is the payload of the event of that name (PIN-070): the state exactly
// at its log_id, whatever has been streamed since (PIN-078).
func snapshot(st *chat.State, v Variant) []byte {
	shown := window(st)
	size := 1024 + windowSize(shown) + 512*(len(shown)+len(st.Runs))
	for _, r := range st.Runs {
		size += textSize(r.Shown)
	}
	b := make([]byte, 0, size)
	b = messages(append(b, `{"state":{"messages":`...), shown)
	b = append(key(b, "runs"), '{')
	for i, run := range runsOf(st, shown) {
		if i > 0 {
			b = append(b, ',')
		}
		b = run.append(append(quoted(b, run.id), ':'))
	}
	b = append(b, '}')
	for _, r := range st.Runs {
		if s := streamOf(r); s != nil {
			b = quoted(append(b, ','), slotStream+r.ID)
			b = text(append(b, ':'), *s)
		}
	}
	if v.Extensions {
		for _, s := range extensions(st) {
			b = s.value.append(append(quoted(append(b, ','), s.key), ':'))
		}
	}
	b = append(orNull(b, slotLast, st.Last()), '}')
	b = logID(b, st.Log)
	return append(truth(b, "has_older", st.Count() > len(shown)), '}')
}

// runsOf are the runs that have not ended, and those that the messages are of
// (PIN-073).
func runsOf(st *chat.State, shown []*chat.Message) []runInfo {
	var all []runInfo
	known := make(map[string]bool)
	for _, r := range st.Runs {
		known[r.ID] = true
		if !unseen(r) {
			all = append(all, infoOf(r))
		}
	}
	for _, m := range shown {
		if m.Ran != nil && !known[m.Run] {
			known[m.Run] = true
			all = append(all, ranInfo(m.Run, m.Ran))
		}
	}
	return all
}

// unseen says that a run is not in the log yet: one that its agent begins by
// itself is first seen active (PIN-193).
func unseen(r *chat.Run) bool { return r.Status == chat.RunPending && r.Log == 0 }

// snapshots keeps the newest snapshots for as long as somebody is being sent
// them, so that a herd that comes back is sent one.
type snapshots struct {
	mu  sync.Mutex
	all [64]struct {
		of   weak.Pointer[chat.State]
		as   Variant
		shot weak.Pointer[phoenix.Frame]
	}
	next int
}

func (s *snapshots) of(topic string, st *chat.State, v Variant) *phoenix.Frame {
	id := weak.Make(st)
	s.mu.Lock()
	for i := range s.all {
		if s.all[i].of == id && s.all[i].as == v {
			if f := s.all[i].shot.Value(); f != nil && f.Topic() == topic {
				s.mu.Unlock()
				return f
			}
		}
	}
	s.mu.Unlock()
	f := phoenix.NewFrame(topic, eventSnapshot, snapshot(st, v))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[s.next].of, s.all[s.next].as, s.all[s.next].shot = id, v, weak.Make(f)
	s.next = (s.next + 1) % len(s.all)
	return f
}
