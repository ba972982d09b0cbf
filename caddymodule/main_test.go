package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/goleak"
)

// Secrets that the configurations under test name by placeholders.
const (
	testSecret = "0123456789-0123456789-0123456789-0123456789"
	testToken  = "hunter2-hunter2"
)

// scratch is a folder for the time of all tests.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for name, value := range map[string]string{
		"PARLANCE_TEST_SECRET":     testSecret,
		"PARLANCE_TEST_SECRET_OLD": testSecret + "-old",
		"PARLANCE_TEST_TOKEN":      testToken,
		"PARLANCE_TEST_REDIS_URL":  "redis://10.0.0.1:26379/2",
		"AGENT_URL":                "http://localhost:8000/agent",
	} {
		os.Setenv(name, value)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "parlance-caddymodule-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
