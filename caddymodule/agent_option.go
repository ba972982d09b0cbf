package caddymodule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/agui"
)

// maxHistory bounds a number of messages that is written in a configuration.
const maxHistory = 1_000_000

// history reads all, none or a number as agui.Config takes it.
func history(s string) (int, error) {
	switch s {
	case "", "all":
		return 0, nil
	case "none", "0":
		return agui.HistoryNone, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxHistory {
		return 0, fmt.Errorf("history must be all, none or a number, not %q", s)
	}
	return n, nil
}

// confirmable says what is wrong with the patterns of tools that are confirmed.
func confirmable(patterns []string) error {
	if len(patterns) > agent.MaxPatterns {
		return fmt.Errorf("confirm_tools has more than %d patterns", agent.MaxPatterns)
	}
	for _, p := range patterns {
		if err := agent.CheckPattern(p); err != nil {
			return fmt.Errorf("confirm_tools: %q is no pattern: %w", p, err)
		}
	}
	return nil
}

// validHeader says whether s is a header's name (RFC 9110 §5.1).
func validHeader(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// validValue says whether s can be a header's value (RFC 9110 §5.5).
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
