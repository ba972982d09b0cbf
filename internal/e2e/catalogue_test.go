package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// catalogue says where each fault of the reliability plan is held: the storm's
// kinds of faults say their own ids, the rest names a test, by its file from
// internal/, its function, and where it is one case of many, its words.
//
// Not held by a test of its own: F12 (nothing of a live thread has an expiry; what
// has one is listed by TestReloadsOnRedis) and F45 and F46 as whole processes.
var catalogue = map[string][]proof{
	"F1":  {{inStorm, "store restarts"}, {inStorm, "store killed"}},
	"F2":  {{"e2e/stores_test.go", "TestStoreComesBackEmpty"}, {"e2e/testdata/js/emptied.mjs", "F2 every window"}},
	"F3":  {{"e2e/stores_test.go", "TestFailoverInOrder"}},
	"F4":  {{"e2e/stores_test.go", "TestFailoverThatLosesTheTail"}},
	"F5":  {{inStorm, "NOREPLICAS"}},
	"F6":  {{"journal/redisjournal/follow_test.go", "F6 a connection that stays and brings nothing is replaced"}},
	"F7":  {{inStorm, "latency"}, {inStorm, "CLIENT PAUSE"}, {inStorm, "bandwidth"}},
	"F8":  {{inStorm, "store hangs"}},
	"F9":  {{inStorm, "reply cut off"}, {inStorm, "connections reset"}, {"journal/journaltest/append.go", "F9 the same append again"}},
	"F10": {{inStorm, "OOM"}},
	"F11": {{"e2e/stores_test.go", "TestStoreThatEvictsIsNotReady"}},
	"F13": {{"journal/journaltest/floor.go", "behind: a reader below the floor"}},
	"F14": {{inStorm, "NOAUTH"}, {"e2e/stores_test.go", "TestPasswordIsChanged"}},
	"F15": {{inStorm, "READONLY"}, {inStorm, "busy script"}, {inStorm, "store restarts"}},
	"F16": {{"e2e/stores_test.go", "TestSlotsMove"}},
	"F17": {{inStorm, "SCRIPT FLUSH"}},
	"F18": {{inStorm, "CLIENT KILL pubsub"}, {"room/fault_test.go", "TestLostNoticesAreFound"}},
	"F19": {{inStorm, "edge stands still"}, {"journal/journaltest/follow.go", "R3 a slow follower"}},
	"F20": {{inStorm, "partition"}, {inStorm, "connections refused"}},
	"F21": {{inStorm, "replies do not come"}},
	"F22": {{inStorm, "edge killed"}},
	"F23": {{inStorm, "edge comes back a zombie"}, {"e2e/stores_test.go", "TestZombie"}},
	"F32": {{"e2e/many_test.go", "TestReconnectAtEachEvent"}, {"e2e/testdata/js/reconnect.mjs", "F32 WebSocket"}, {"e2e/testdata/js/reconnect.mjs", "F32 polling"}},
	"F33": {{"journal/journaltest/follow.go", "F33 what comes between"}, {"sim/sim_test.go", "TestWhatMustAlwaysHold"}},
	"F34": {{"wire/engineio/heartbeat_test.go", "TestPingTimeout"}},
	"F35": {{"wire/engineio/websocket_test.go", "TestHalfOpen"}},
	"F36": {{"e2e/testdata/js/races.mjs", "F36 PIL-035"}},
	"F37": {{"e2e/testdata/js/races.mjs", "F37 PIL-035"}},
	"F38": {{"e2e/testdata/js/races.mjs", "F38 PIL-046"}},
	"F39": {{"e2e/testdata/js/races.mjs", "F39 PIL-099"}},
	"F40": {{"e2e/testdata/js/races.mjs", "F40 PIL-096"}},
	"F41": {{"e2e/testdata/js/races.mjs", "F41 PIL-089"}},
	"F42": {{"e2e/stores_test.go", "TestZombie"}},
	"F43": {{inStorm, "edge drained"}, {inStorm, "edge reloaded"}, {"e2e/rolling_test.go", "TestRollingRestarts"}, {"e2e/rolling_test.go", "TestReloadsOnRedis"}},
	"F44": {{"e2e/reload_test.go", "TestFiftyReloads"}, {"dialect/pilotoo/recheck_test.go", "TestSilentPrincipalsAreLookedAt"}},
	"F47": {{"e2e/stores_test.go", "TestHerd"}},
	"F52": {{inStorm, "edge starves"}},
	"F53": {{"journal/journaltest/owner.go", "F53 a run is claimed only after"}, {"conductor/edges_test.go", "F53"}},
	"F54": {{"e2e/kill_test.go", "TestKilledAtNamedPoints"}, {inStorm, "edge killed"}, {"conductor/edges_test.go", "F54"}},
}

// inStorm stands for the kinds of faults of TestFaults.
const inStorm = ""

// proof is a place in a file that holds something.
type proof struct{ file, words string }

// Everything that the catalogue names is there.
func TestCatalogueIsTrue(t *testing.T) {
	kinds := map[string]bool{}
	for _, f := range faults {
		kinds[f.kind] = true
	}
	for id, list := range catalogue {
		for _, p := range list {
			if p.file == inStorm {
				if !kinds[p.words] {
					t.Errorf("%s: no kind of fault is %q", id, p.words)
				}
				continue
			}
			b, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(p.file)))
			switch {
			case err != nil:
				t.Errorf("%s: %v", id, err)
			case strings.HasPrefix(p.words, "Test"):
				if !hasTest(t, p.file, b, p.words) {
					t.Errorf("%s: %s has no test %s", id, p.file, p.words)
				}
			case !strings.Contains(string(b), p.words):
				t.Errorf("%s: %s does not say %q", id, p.file, p.words)
			}
		}
	}
}

func hasTest(t *testing.T, file string, source []byte, name string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Recv == nil {
			return true
		}
	}
	return false
}
