package caddymodule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestAdapt holds the Caddyfiles of testdata/adapt to the JSON or the error that
// stands below the line in each.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			in, want, ok := strings.Cut(string(data), "\n----------\n")
			if !ok {
				t.Fatal("no ---------- line")
			}
			in += "\n"
			if formatted := string(caddyfile.Format([]byte(in))); formatted != in {
				t.Errorf("caddy fmt would write it so:\n%s", formatted)
			}
			adapt(t, in, strings.TrimSpace(want))
		})
	}
}

func adapt(t *testing.T, in, want string) {
	t.Helper()
	got, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(in), map[string]any{"filename": "Caddyfile"})
	if !strings.HasPrefix(want, "{") {
		if err == nil || err.Error() != want {
			t.Errorf("got the error\n%v\nwant\n%s", err, want)
		}
		return
	}
	if err != nil || len(warnings) > 0 {
		t.Fatalf("error %v, warnings %v", err, warnings)
	}
	if got := parlanceOnly(t, got); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var config caddy.Config
	if err := caddy.StrictUnmarshalJSON(got, &config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		t.Errorf("what is adapted is not valid: %v", err)
	}
}

// parlanceOnly is the app and the first handler of an adapted configuration: the
// routing around them is Caddy's.
func parlanceOnly(t *testing.T, config []byte) string {
	t.Helper()
	var c struct {
		Apps struct {
			Parlance json.RawMessage `json:"parlance"`
			HTTP     json.RawMessage `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if c.Apps.Parlance != nil {
		out["app"] = c.Apps.Parlance
	}
	var tree any
	if err := json.Unmarshal(c.Apps.HTTP, &tree); err != nil {
		t.Fatal(err)
	}
	if handlers := find(tree); len(handlers) > 0 {
		out["handlers"] = handlers
	}
	b, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// find lists the parlance handlers in a tree of JSON, in its order.
func find(tree any) []any {
	var found []any
	switch v := tree.(type) {
	case []any:
		for _, e := range v {
			found = append(found, find(e)...)
		}
	case map[string]any:
		if v["handler"] == "parlance" {
			return []any{v}
		}
		for _, key := range []string{"servers", "srv0", "routes", "handle"} {
			if e, ok := v[key]; ok {
				found = append(found, find(e)...)
			}
		}
	}
	return found
}

// TestExample holds Caddyfile.example to what caddy fmt writes and validates.
func TestExample(t *testing.T) {
	t.Setenv("PORT", "8080")
	t.Setenv("PARLANCE_DATA", filepath.Join(t.TempDir(), "with a space"))
	in, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	if formatted := caddyfile.Format(in); string(formatted) != string(in) {
		t.Errorf("caddy fmt would write it so:\n%s", formatted)
	}
	got, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(in, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("error %v, warnings %v", err, warnings)
	}
	var config caddy.Config
	if err := caddy.StrictUnmarshalJSON(got, &config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(os.Getenv("PARLANCE_DATA")); !os.IsNotExist(err) {
		t.Errorf("validating made the journal's folder: %v", err)
	}
}
