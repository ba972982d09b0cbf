package redisjournal

import (
	"os"
	"strings"
	"testing"
)

func TestManualHasTheRightsOfTheRedisUser(t *testing.T) {
	b, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(b)), " "), ACLRule) {
		t.Error("S5 README does not have the rule that the tests run under")
	}
}
