package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// An operator sees a thread and its run, without a word of either, and stops the
// run.
func TestOperator(t *testing.T) {
	p := newProcess(t)
	p.start(p.config(journalIn(filepath.Join(p.home, "threads"))+"\n\t\tedge one", slow))
	w := p.openWindow()
	w.say("m1", "/slow Marmalade")
	w.until("RUN_STARTED")

	path := "/parlance/realms/default/threads/" + url.PathEscape(w.thread)
	body := p.lists(path, `"status":"active"`, `"dialect":"pilotoo"`)
	var threads []struct {
		Journal string
		Thread  struct {
			Thread string
			Runs   []struct {
				Run, Edge string
				Segments  []string
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &threads); err != nil || len(threads) != 1 || len(threads[0].Thread.Runs) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	run := threads[0].Thread.Runs[0]
	if threads[0].Thread.Thread != w.thread || run.Edge != "one" || len(run.Segments) == 0 {
		t.Errorf("the thread is %s", body)
	}
	if status, body := p.get("http://" + p.admin + path + "?tenant=other"); status != http.StatusNotFound {
		t.Errorf("another tenant's: %d %s", status, body)
	}
	segment := run.Segments[len(run.Segments)-1]
	of := p.lists("/parlance/runs/"+segment, run.Run)
	edges := p.lists("/parlance/edges", `"self":"one"`, `"name":"one"`)
	for _, text := range []string{body, of, edges} {
		if strings.Contains(strings.ToLower(text), "marmalade") {
			t.Errorf("an operator is shown what was said: %s", text)
		}
	}
	p.lists("/metrics", `parlance_members{dialect="pilotoo",journal="file `, "parlance_sockets{", "parlance_edges{")

	// A page of another site cannot make a browser do it.
	r, err := http.NewRequest(http.MethodPost, "http://"+p.admin+"/parlance/runs/"+segment+"/cancel", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://evil.example.com")
	if status, body := p.do(r); status != http.StatusForbidden {
		t.Errorf("a foreign page: %d %s", status, body)
	}
	if status, body := p.order("/parlance/runs/" + segment + "/cancel"); status != http.StatusOK || !strings.Contains(body, `"cancelled":"`+segment+`"`) {
		t.Errorf("stopping it: %d %s", status, body)
	}
	w.until("RUN_CANCELLED")
	if status, body := p.order("/parlance/runs/" + segment + "/cancel"); status != http.StatusNotFound {
		t.Errorf("stopping it again: %d %s", status, body)
	}
}

// Reloads neither lose the gauges nor have them twice.
func TestMetricsAfterReload(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	p.openWindow()
	for range 2 {
		if status, body := p.load(p.config(app, slow)); status != http.StatusOK {
			t.Fatalf("reload: %d %s", status, body)
		}
		if body := p.lists("/metrics", "parlance_sockets{"); strings.Count(body, "\nparlance_sockets{dialect=\"pilotoo\",") != 1 || !strings.Contains(body, "threads\"} 1\n") {
			t.Errorf("the gauges are %s", body)
		}
	}
}

// An edge that drains for an operator lets its runs finish, takes nobody new,
// and stays alive.
func TestOperatorDrains(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	w := p.openWindow()
	p.becomes("/ready", http.StatusOK, "ready")
	if status, body := p.order("/parlance/drain"); status != http.StatusAccepted || !strings.Contains(body, `"draining":true`) {
		t.Errorf("draining: %d %s", status, body)
	}
	w.ended()
	p.becomes("/ready", http.StatusServiceUnavailable, "draining")
	p.becomes("/health", http.StatusOK, "ok")
	if status, body := p.load(p.config(app, slow+"\trespond /v two\n")); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	p.becomes("/ready", http.StatusServiceUnavailable, "draining")
	if status, _ := p.refused(); status != http.StatusServiceUnavailable {
		t.Errorf("a socket: %d", status)
	}
}
