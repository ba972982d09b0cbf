package pingerchips_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// client folds what a window is sent into the slots of its thread, and holds it
// to the order that a client relies on. what names it in failures.
type client struct {
	t      failer
	what   string
	slots  map[string]string // key to JSON
	log    uint64
	loaded bool   // a snapshot was seen
	known  bool   // log is known: from the first entry or snapshot on
	signal string // the run whose companion must be next, with the event
	// logs are the entries by log_id, as they came.
	logs map[uint64]string
	ends map[string]int // terminal signals by run
	// states are the slots at each log_id that was seen live.
	states map[uint64]map[string]string
}

func newClient(t failer, what string) *client {
	return &client{t: t, what: what, slots: map[string]string{}, logs: map[uint64]string{}, ends: map[string]int{}, states: map[uint64]map[string]string{}}
}

type changed struct {
	Key      string         `json:"key"`
	Value    jsontext.Value `json:"value"`
	Previous jsontext.Value `json:"previous"`
}

func canonical(v jsontext.Value) string {
	c := v.Clone()
	_ = c.Canonicalize()
	return string(c)
}

// resumes begins a client that has what another had when it went.
func (c *client) resumes(old *client) {
	c.slots, c.log, c.known = maps.Clone(old.slots), old.log, true
}

func (c *client) frames(list []frame) {
	c.t.Helper()
	for _, f := range list {
		c.frame(f)
	}
}

func (c *client) frame(f frame) {
	c.t.Helper()
	fail := func(id, what string) {
		c.t.Helper()
		c.t.Fatalf("%s: %s: %s in %s %.500s", c.what, id, what, f.event, f.payload)
	}
	if f.ref != 0 {
		return
	}
	if c.signal != "" && f.event != "batch" && f.event != "change" {
		fail("PIN-105 PIN-106 PIN-181", "no companion right behind "+c.signal)
	}
	switch f.event {
	case "snapshot":
		c.snapshot(f, fail)
	case "change":
		var p struct {
			changed
			LogID uint64 `json:"log_id"`
		}
		if err := json.Unmarshal(f.payload, &p); err != nil {
			fail("PIN-085", err.Error())
		}
		c.entry(p.LogID, []changed{p.changed}, f, fail)
	case "batch":
		var p struct {
			Changes []changed `json:"changes"`
			LogID   uint64    `json:"log_id"`
		}
		if err := json.Unmarshal(f.payload, &p); err != nil || len(p.Changes) < 2 {
			fail("PIN-086 PIN-095", fmt.Sprint(len(p.Changes), " changes ", err))
		}
		c.entry(p.LogID, p.Changes, f, fail)
	case "run:start", "run:end", "run:suspend", "run:resume":
		if !c.loaded {
			fail("PIN-063 PIN-065", "before the snapshot")
		}
		var p struct {
			RunID string `json:"runId"`
		}
		if json.Unmarshal(f.payload, &p) != nil || p.RunID == "" || strings.Contains(string(f.payload), "log_id") {
			fail("PIN-104", "not a signal")
		}
		if f.event == "run:end" {
			c.ends[p.RunID]++
		}
		c.signal = f.event + " " + p.RunID
	case "view:update", "tool_approval":
	default:
		fail("PIN-023", "an unknown event")
	}
}

func (c *client) snapshot(f frame, fail func(string, string)) {
	var p struct {
		State    map[string]jsontext.Value `json:"state"`
		LogID    uint64                    `json:"log_id"`
		HasOlder *bool                     `json:"has_older"`
	}
	if err := json.Unmarshal(f.payload, &p); err != nil || p.HasOlder == nil {
		fail("PIN-070", fmt.Sprint(err))
	}
	if c.loaded {
		fail("PIN-064", "a second snapshot")
	}
	slots := map[string]string{}
	for k, v := range p.State {
		switch {
		case k == "runs":
			var runs map[string]jsontext.Value
			if json.Unmarshal(v, &runs) != nil {
				fail("PIN-072", "runs")
			}
			for id, info := range runs {
				slots["run:"+id] = canonical(info)
			}
		case strings.HasPrefix(k, "run:"):
			fail("PIN-076", "a raw run slot")
		default:
			slots[k] = canonical(v)
		}
	}
	if c.known {
		// PIN-078, invariant 4: what was replayed leads to the snapshot.
		if c.log != p.LogID {
			fail("PIN-060 PIN-078", fmt.Sprintf("log_id %d after a replay up to %d", p.LogID, c.log))
		}
		for k, v := range slots {
			if had, ok := c.slots[k]; (ok || !strings.HasPrefix(k, "run:")) && had != v {
				fail("PIN-078", fmt.Sprintf("slot %s was folded as %.300s, is shown as %.300s", k, had, v))
			}
		}
		for k := range c.slots {
			if _, ok := slots[k]; !ok && strings.HasPrefix(k, "stream:") {
				fail("PIN-078 PIN-180", "no slot "+k)
			}
		}
	}
	c.slots, c.log, c.known, c.loaded = slots, p.LogID, true, true
	if c.states[c.log] == nil {
		c.states[c.log] = maps.Clone(slots)
	}
	c.check(fail)
}

func (c *client) entry(log uint64, changes []changed, f frame, fail func(string, string)) {
	if c.known && log != c.log+1 {
		fail("PIN-080 PIN-186 PIN-060", fmt.Sprintf("log_id %d after %d", log, c.log))
	}
	seen := map[string]bool{}
	for _, ch := range changes {
		had, ok := c.slots[ch.Key]
		if !ok || had == "" {
			had = "null"
		}
		if c.known && canonical(ch.Previous) != had && (c.loaded || ok) && !(ch.Key == "messages" && had == "null") {
			fail("PIN-087", fmt.Sprintf("previous of %s is %.400s, was %.400s", ch.Key, ch.Previous, had))
		}
		if seen[ch.Key] {
			fail("PIN-086", "slot twice: "+ch.Key)
		}
		seen[ch.Key] = true
		if v := canonical(ch.Value); v == "null" && ch.Key != "last_message_id" {
			delete(c.slots, ch.Key)
		} else {
			c.slots[ch.Key] = v
		}
	}
	if run, ok := strings.CutPrefix(c.signal, "run:end "); ok {
		if keys := keysOf(changes); keys != "messages run:"+run+" stream:"+run+" last_message_id" {
			fail("PIN-089 PIN-105 PIN-182", "the compaction changes "+keys)
		}
	} else if c.signal != "" && !strings.Contains(keysOf(changes), "run:"+c.signal[strings.IndexByte(c.signal, ' ')+1:]) {
		fail("PIN-106", "the companion of "+c.signal+" changes "+keysOf(changes))
	}
	c.signal = ""
	c.log, c.known = log, true
	c.logs[log] = canonical(f.payload)
	c.states[log] = maps.Clone(c.slots)
	c.check(fail)
}

func keysOf(changes []changed) string {
	var keys []string
	for _, ch := range changes {
		keys = append(keys, ch.Key)
	}
	return strings.Join(keys, " ")
}

// check holds the slots to what must be so at every log_id: a stream is there iff
// its run is active or suspended (PIN-180, invariant 6).
func (c *client) check(fail func(string, string)) {
	for k, v := range c.slots {
		run, ok := strings.CutPrefix(k, "run:")
		if !ok {
			continue
		}
		var info struct {
			Status        string         `json:"status"`
			EndedAt       *int64         `json:"endedAt"`
			SuspendedTool jsontext.Value `json:"suspendedTool"`
		}
		if err := json.Unmarshal([]byte(v), &info); err != nil {
			fail("PIN-210", err.Error())
		}
		_, streams := c.slots["stream:"+run]
		if live := info.Status == "active" || info.Status == "suspended"; streams != live {
			fail("PIN-180", fmt.Sprintf("run %s is %s, its stream is there: %v", run, info.Status, streams))
		}
		if (info.Status == "suspended") != (info.SuspendedTool.Kind() == '{') {
			fail("PIN-212", "run "+run+" has "+v)
		}
		terminal := slices.Contains([]string{"complete", "cancelled", "error"}, info.Status)
		if terminal != (info.EndedAt != nil) {
			fail("PIN-214", "run "+run+" has "+v)
		}
	}
}

// folded is the client's state, without the runs that a snapshot may leave out.
func (c *client) folded() string {
	var all []string
	for k, v := range c.slots {
		if !strings.HasPrefix(k, "run:") || !strings.Contains(v, `"endedAt":1`) {
			all = append(all, k+"="+v)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
