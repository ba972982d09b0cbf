package caddymodule

import (
	"os"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// Secrets that the configurations under test name by placeholders.
const (
	testSecret = "0123456789-0123456789-0123456789-0123456789"
	testToken  = "hunter2-hunter2"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"PARLANCE_TEST_SECRET":     testSecret,
		"PARLANCE_TEST_SECRET_OLD": testSecret + "-old",
		"PARLANCE_TEST_TOKEN":      testToken,
		"AGENT_URL":                "http://localhost:8000/agent",
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}
