package pilotoo_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestPresenceRoute(t *testing.T) {
	s := serve(t, nil)
	schema, err := jsonschema.NewCompiler().Compile("../../../spec/pilotoo/conversation.presence.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := s.request(t, "POST", "/conversations", "ann", `{"id":"t1"}`); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	resp, body := s.request(t, "GET", "/conversations/t1/presence", "ann", "")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
	var seen string
	for _, path := range []string{"/conversations/t1/presence", "/conversations/none/presence", "/conversations//presence"} {
		resp, body := s.request(t, "GET", path, "bob", "")
		if resp.StatusCode != http.StatusNotFound || seen != "" && body != seen {
			t.Errorf("PIL-045 a stranger gets %d %s", resp.StatusCode, body)
		}
		seen = body
	}
	if resp, _ := s.request(t, "POST", "/conversations/t1/presence", "ann", "{}"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered %d", resp.StatusCode)
	}
}
