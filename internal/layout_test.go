package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	modulePath = "github.com/parlance-gateway/parlance"
	caddyPath  = "github.com" + "/caddyserver/"
	maxLines   = 600
)

// arrows says, by folder, which of our own packages a package may import: "caddy"
// stands for Caddy. A rule holds for the folder and all below it. A package may
// always import what stands above or below it; siblings where the rule says so.
var arrows = map[string][]string{
	"internal/chat":    {},
	"internal/journal": {"chat"},
	// Its blobs are those of blobstore.
	"internal/journal/redisjournal": {"chat", "journal"},
	"internal/wire":                 {"chat", "wire"},
	"internal/agent":                {"chat"},
	"internal/identity":             {"chat", "journal"},
	"internal/room":                 {"chat", "journal"},
	"internal/conductor":            {"chat", "journal", "room", "agent", "identity"},
	"internal/dialect":              {"chat", "journal", "room", "agent", "identity", "conductor", "wire"},
	"internal/sim":                  {"chat", "journal", "room", "agent", "conductor"},
	"internal/edge":                 {"chat", "journal", "room", "agent", "identity", "conductor", "wire", "dialect"},
	// Its files are served as those of the other page are.
	"internal/edge/operator": {"edge"},
	"internal/e2e":           {"caddymodule", "chat", "journal", "room", "agent", "identity", "conductor", "wire", "dialect", "edge", "sim", "caddy"},
	"caddymodule":            {"chat", "journal", "room", "agent", "identity", "conductor", "wire", "dialect", "edge", "caddy"},
	"spec":                   {},
}

// topLevel is all that the root may hold beside dot-folders and build outputs.
var topLevel = []string{
	"caddymodule", "internal", "spec",
	"Caddyfile.example", "LICENSE", "README.md", "go.mod", "go.sum", "xcaddy.sh",
}

// buildOutputs are kept out of the repository by .gitignore.
var buildOutputs = []string{"caddy", "caddy.exe"}

var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(work|farm|root)/|"resolved": "[h]ttp|GOPROXY=[h]ttp`)

// source is one Go file, as far as the checks need it.
type source struct {
	path    string // slash-separated, from the root
	imports []string
	doc     bool // has a package comment
	lines   int
}

func TestArrowsOfDesign(t *testing.T) {
	for _, src := range goFiles(t) {
		if strings.HasSuffix(src.path, "_test.go") {
			continue
		}
		for _, imp := range src.imports {
			if err := checkArrow(path.Dir(src.path), imp); err != nil {
				t.Errorf("%s: %v", src.path, err)
			}
		}
	}
}

func TestEachPackageHasADocComment(t *testing.T) {
	for _, dir := range undocumented(goFiles(t)) {
		t.Errorf("%s: no file has a package comment", dir)
	}
}

func TestNoFileIsTooLong(t *testing.T) {
	for _, src := range goFiles(t) {
		if src.lines > maxLines {
			t.Errorf("%s: %d lines, the limit is %d", src.path, src.lines, maxLines)
		}
	}
}

func TestTopLevelHoldsWhatIsListed(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	for _, name := range unlisted(names) {
		t.Errorf("%s does not belong at the top level", name)
	}
}

func TestNoTextNamesAMachineOrARegistry(t *testing.T) {
	walk(t, func(name string) {
		if line := namesMachine(readFile(t, name)); line > 0 {
			t.Errorf("%s:%d: a path of one machine or the address of a registry", name, line)
		}
	})
}

// checkArrow says why a package in dir may not import imp, or nil.
func checkArrow(dir, imp string) error {
	rule := dir
	for arrows[rule] == nil {
		if rule = path.Dir(rule); rule == "." {
			return fmt.Errorf("no rule covers %s", dir)
		}
	}
	words := arrows[rule]
	if strings.HasPrefix(imp, caddyPath) {
		if !slices.Contains(words, "caddy") {
			return fmt.Errorf("imports Caddy (%s)", imp)
		}
		return nil
	}
	ours, ok := strings.CutPrefix(imp, modulePath+"/")
	if !ok || within(ours, rule) && (within(ours, dir) || within(dir, ours)) {
		return nil
	}
	for _, word := range words {
		if within(ours, "internal/"+word) || within(ours, word) {
			return nil
		}
	}
	return fmt.Errorf("imports %s, which %s must not", ours, rule)
}

func within(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}

// undocumented lists the folders whose package no file describes.
func undocumented(files []source) []string {
	documented := map[string]bool{}
	for _, src := range files {
		if strings.HasSuffix(src.path, "_test.go") {
			continue
		}
		dir := path.Dir(src.path)
		documented[dir] = documented[dir] || src.doc
	}
	var missing []string
	for dir, ok := range documented {
		if !ok {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	return missing
}

func unlisted(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.HasPrefix(name, ".") ||
			slices.Contains(topLevel, name) || slices.Contains(buildOutputs, name)
	})
}

// namesMachine returns the number of the first line that does, 0 if none.
func namesMachine(text []byte) int {
	at := machinePath.FindIndex(text)
	if at == nil {
		return 0
	}
	return 1 + strings.Count(string(text[:at[1]]), "\n")
}

func parse(name string, text []byte) (source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	src := source{path: name, doc: documents(file), lines: strings.Count(string(text), "\n")}
	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		src.imports = append(src.imports, imp)
	}
	return src, nil
}

func documents(file *ast.File) bool {
	return file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != ""
}

func goFiles(t *testing.T) []source {
	t.Helper()
	var files []source
	walk(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		src, err := parse(name, readFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, src)
	})
	if len(files) == 0 {
		t.Fatal("found no Go files")
	}
	return files
}

// walk calls visit with each file of the project, go.sum, build outputs and what
// .gitignore names aside.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{".git", ".cache", "node_modules"}, base) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || base == "go.sum" || slices.Contains(buildOutputs, name):
			return nil
		}
		visit(name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
