package filejournal

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary be a process under test: what it does, and
// where.
const (
	childEnv    = "FILEJOURNAL_CHILD"
	childDirEnv = "FILEJOURNAL_DIR"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what, os.Getenv(childDirEnv)))
	}
	goleak.VerifyTestMain(m)
}
