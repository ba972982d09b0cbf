package pilotoo

import "net/http"

// cors lets pages of other hosts, where some are admitted, read what the routes
// answer, and answers their preflights, which carry no credential (Fetch
// standard, CORS protocol). It says whether the request was one.
func cors(w http.ResponseWriter, r *http.Request, origins func(string, *http.Request) bool) (answered bool) {
	if origins == nil {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !origins(origin, r) {
		return false
	}
	// Never "*": the page may send credentials, with which that is void.
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Name")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
