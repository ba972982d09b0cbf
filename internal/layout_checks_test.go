package internal

import (
	"slices"
	"testing"
)

// The checks of the layout find nothing while all is well, so each is shown
// here what it must refuse.

func TestArrowCheckRefuses(t *testing.T) {
	const ours = modulePath + "/internal/"
	for _, c := range []struct {
		name, dir, imp string
		fine           bool
	}{
		{"chat takes the standard library", "internal/chat", "slices", true},
		{"chat takes nothing of ours", "internal/chat", ours + "journal", false},
		{"a store takes chat", "internal/journal/filejournal", ours + "chat", true},
		{"a store takes its interface", "internal/journal/filejournal", ours + "journal", true},
		{"a store takes no room", "internal/journal/filejournal", ours + "room", false},
		{"framing takes framing", "internal/wire/socketio", ours + "wire/engineio", true},
		{"framing takes no journal", "internal/wire/socketio", ours + "journal", false},
		{"a store takes no other store", "internal/journal/filejournal", ours + "journal/redisjournal", false},
		{"an agent takes chat", "internal/agent/agui", ours + "chat", true},
		{"an agent takes no other agent", "internal/agent/agui", ours + "agent/echo", false},
		{"an agent takes no conductor", "internal/agent/agui", ours + "conductor", false},
		{"identity takes the journal's shelf", "internal/identity", ours + "journal", true},
		{"identity takes no room", "internal/identity", ours + "room", false},
		{"a room takes no agent", "internal/room", ours + "agent", false},
		{"the conductor takes rooms", "internal/conductor", ours + "room", true},
		{"the conductor takes no dialect", "internal/conductor", ours + "dialect", false},
		{"a dialect takes framing", "internal/dialect/pilotoo", ours + "wire/socketio", true},
		{"a dialect takes no edge", "internal/dialect/pilotoo", ours + "edge", false},
		{"the simulation takes no dialect", "internal/sim", ours + "dialect", false},
		{"the edge knows dialects", "internal/edge", ours + "dialect/pilotoo", true},
		{"the edge takes no Caddy", "internal/edge", caddyPath + "caddy/v2", false},
		{"nothing below takes Caddy's relatives", "internal/identity", caddyPath + "certmagic", false},
		{"the face takes Caddy", "caddymodule", caddyPath + "caddy/v2", true},
		{"the face takes the edge", "caddymodule", ours + "edge", true},
		{"whole-binary tests take the face", "internal/e2e/caddy", modulePath + "/caddymodule", true},
		{"the edge takes no face", "internal/edge", modulePath + "/caddymodule", false},
		{"a name that only begins alike is another", "internal/room", ours + "chatter", false},
		{"a folder that no rule names", "internal/misc", "slices", false},
	} {
		if err := checkArrow(c.dir, c.imp); (err == nil) != c.fine {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestDocCheckRefuses(t *testing.T) {
	files := []source{
		mustParse(t, "a/doc.go", "// Package a is described.\npackage a\n"),
		mustParse(t, "a/more.go", "package a\n"),
		mustParse(t, "b/b.go", "// far from the clause\n\npackage b\n"),
		mustParse(t, "c/c.go", "//go:build linux\n\npackage c\n"),
		mustParse(t, "d/d_test.go", "package d\n"),
	}
	if got := undocumented(files); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("undocumented: got %v, want [b c]", got)
	}
}

func TestTopLevelCheckRefuses(t *testing.T) {
	names := []string{".ci", "README.md", "caddy", "go.mod", "internal", "notes.txt", "pkg"}
	if got := unlisted(names); !slices.Equal(got, []string{"notes.txt", "pkg"}) {
		t.Errorf("unlisted: got %v, want [notes.txt pkg]", got)
	}
}

func TestMachineCheckRefuses(t *testing.T) {
	// Put together here, so that this file does not hold what it forbids.
	slash, scheme := "/", "http"
	for _, c := range []struct {
		name, text string
		line       int
	}{
		{"a home", "first\nsee " + slash + "root/go/pkg\n", 2},
		{"a checkout", slash + "work/main", 1},
		{"a registry in a lock file", "{\n\n\"resolved\": \"" + scheme + "s://example.org/x.tgz\"}", 3},
		{"a proxy", "export GOPROXY=" + scheme + "://example.org", 1},
		{"a route that ends alike", "GET /homework/", 0},
		{"a relative path", "./work/x", 0},
	} {
		if got := namesMachine([]byte(c.text)); got != c.line {
			t.Errorf("%s: got line %d, want %d", c.name, got, c.line)
		}
	}
}

func TestParseCountsLinesAndImports(t *testing.T) {
	src := mustParse(t, "x/x.go", "package x\n\nimport (\n\t\"fmt\"\n\t_ \"slices\"\n)\n\nvar _ = fmt.Sprint\n")
	if src.lines != 8 || !slices.Equal(src.imports, []string{"fmt", "slices"}) {
		t.Errorf("got %+v", src)
	}
}

func mustParse(t *testing.T, name, text string) source {
	t.Helper()
	src, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return src
}
