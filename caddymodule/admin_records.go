package caddymodule

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// hubThreads are the threads that are open in this process.
type hubThreads struct {
	Journal string            `json:"journal"`
	Edge    string            `json:"edge"`
	Threads []edge.OpenThread `json:"threads"`
}

func (a *AdminAPI) threads(*http.Request) (int, any, error) {
	list := []hubThreads{}
	for _, p := range pooledHubs() {
		list = append(list, hubThreads{p.key.String(), p.name, p.hub.OpenThreads()})
	}
	return http.StatusOK, list, nil
}

// hubRuns are the live runs of the threads that are open in this process.
type hubRuns struct {
	Journal string         `json:"journal"`
	Edge    string         `json:"edge"`
	Runs    []edge.OpenRun `json:"runs"`
}

func (a *AdminAPI) runs(r *http.Request) (int, any, error) {
	list := []hubRuns{}
	for _, p := range pooledHubs() {
		out := hubRuns{p.key.String(), p.name, []edge.OpenRun{}}
		for _, run := range p.hub.OpenRuns() {
			if run.Stuck != "" || !r.URL.Query().Has("stuck") {
				out.Runs = append(out.Runs, run)
			}
		}
		list = append(list, out)
	}
	return http.StatusOK, list, nil
}

// records writes a thread's records, a line of JSON each, and with follow those
// that come, until the asker goes.
func (a *AdminAPI) records(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return problem(http.StatusMethodNotAllowed, "method not allowed")
	}
	q := r.URL.Query()
	key, ok := threadKey(r)
	if !ok {
		return problem(http.StatusNotFound, "no such thread")
	}
	from, ok := readCursor(q.Get("from"))
	if !ok {
		return problem(http.StatusBadRequest, `from: not a cursor; a record's is its "epoch", a dot and its "pos"`)
	}
	began := false
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	write := func(views []edge.RecordView) error {
		if !began {
			began = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		for i := range views {
			if err := lines.Encode(&views[i]); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	for _, p := range pooledHubs() {
		// A site's request would keep its configuration alive, so there it ends.
		err := p.hub.Records(r.Context(), key, from, q.Has("follow") && a.operator == nil, write)
		switch {
		case began, r.Context().Err() != nil:
			return nil // what was begun cannot become an error
		case !errors.Is(err, chat.ErrNoThread):
			return problem(http.StatusServiceUnavailable, p.key.String()+": "+err.Error())
		}
	}
	return problem(http.StatusNotFound, "no such thread")
}

// readCursor reads what edge.RecordView.Cursor wrote; "" is the beginning.
func readCursor(s string) (c journal.Cursor, ok bool) {
	if s == "" {
		return c, true
	}
	epoch, pos, ok := strings.Cut(s, ".")
	var e, p error
	c.Epoch, e = strconv.ParseUint(epoch, 10, 64)
	c.Pos, p = strconv.ParseUint(pos, 10, 64)
	return c, ok && e == nil && p == nil
}
