package caddymodule

import (
	"errors"
	"net/http"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/edge/operator"
)

// uiPath is where the operator's page is; uiFiles are relative to it.
const uiPath = "/parlance/ui/"

var uiFiles = operator.Handler(uiPath)

// ui serves the operator's page.
func (a *AdminAPI) ui(w http.ResponseWriter, r *http.Request) error {
	uiFiles.ServeHTTP(w, r)
	return nil
}

// hubPulse is how one journal's edge in this process does.
type hubPulse struct {
	Journal string `json:"journal"`
	Edge    string `json:"edge"`
	edge.PulseView
}

func (a *AdminAPI) pulse(*http.Request) (int, any, error) {
	list := []hubPulse{}
	for _, p := range pooledHubs() {
		list = append(list, hubPulse{p.key.String(), p.name, p.hub.Pulse()})
	}
	return http.StatusOK, list, nil
}

// hubMembers are the members of this process's rooms, at most
// edge.MaxOpenMembers by name; Count counts all.
type hubMembers struct {
	Journal string            `json:"journal"`
	Edge    string            `json:"edge"`
	Count   int               `json:"count"`
	Members []edge.OpenMember `json:"members"`
}

func (a *AdminAPI) members(*http.Request) (int, any, error) {
	list := []hubMembers{}
	for _, p := range pooledHubs() {
		out := hubMembers{Journal: p.key.String(), Edge: p.name, Members: p.hub.OpenMembers()}
		for _, n := range p.hub.Members() {
			out.Count += n
		}
		list = append(list, out)
	}
	return http.StatusOK, list, nil
}

// hubFound is what was found on one journal.
type hubFound struct {
	Journal string       `json:"journal"`
	Found   []edge.Found `json:"found"`
}

// find looks for a thread, a run or a segment. A journal that cannot say is an
// error only if no other has found anything.
func (a *AdminAPI) find(r *http.Request) (int, any, error) {
	list, n := []hubFound{}, 0
	var failed error
	for _, p := range pooledHubs() {
		found, err := p.hub.Find(r.Context(), r.URL.Query().Get("id"))
		if err != nil {
			failed = errors.Join(failed, errors.New(p.key.String()+": "+err.Error()))
		}
		n += len(found)
		list = append(list, hubFound{p.key.String(), found})
	}
	if n == 0 && failed != nil {
		return 0, nil, problem(http.StatusServiceUnavailable, failed.Error())
	}
	return http.StatusOK, list, nil
}
