package redisjournal

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
)

//go:embed lua/*.lua
var lua embed.FS

// script is a constant Lua text that Redis runs by its digest. It is sent whole
// only to a server that does not know it: scripts leave nothing behind that two
// versions of this build could disagree about, need no command but EVALSHA and
// EVAL, and go to the right server of a cluster by their keys.
type script struct{ name, text, sha string }

func load(name string) *script {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum(b) // Redis names scripts so
	return &script{name, string(b), hex.EncodeToString(sum[:])}
}

var (
	appendScript = load("append")
	commitScript = load("commit")
	trimScript   = load("trim")
	resetScript  = load("reset")
	deleteScript = load("delete")
	claimScript  = load("claim")
	beatScript   = load("beat")
	forgetScript = load("forget")
	touchScript  = load("touch")
)

// call is a script with its keys and arguments, as a command.
func (s *script) call(keys []string, args ...any) []any {
	cmd := make([]any, 0, 3+len(keys)+len(args))
	cmd = append(cmd, "EVALSHA", s.sha, len(keys))
	for _, k := range keys {
		cmd = append(cmd, k)
	}
	return append(cmd, args...)
}

// whole is the same command with the script's text.
func (s *script) whole(cmd []any) []any {
	return append([]any{"EVAL", s.text}, cmd[2:]...)
}

// fail gives an error its context. The text of Redis names no keys or values.
func (s *script) fail(err error) error {
	return fmt.Errorf("redisjournal: %s: %w", s.name, err)
}
