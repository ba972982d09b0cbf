package caddymodule

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// mintBy runs the command as a shell would.
func mintBy(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "parlance-token", SilenceErrors: true}
	tokenCommand(cmd)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err := cmd.Execute()
	return strings.TrimSuffix(out.String(), "\n"), err
}

// TestToken holds what the command mints to what a join takes (PIN-030, PIN-036).
func TestToken(t *testing.T) {
	apps := identity.Apps(func(key string) *identity.App {
		if key != "pk" {
			return nil
		}
		return &identity.App{Key: "pk", Realm: "r", Secrets: []string{testSecret}}
	})
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(testSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(secretVariable, testSecret)
	user := []identity.Verb{identity.Subscribe, identity.UserMessage, identity.CancelOwn, identity.ToolApproval}
	for _, c := range []struct {
		name, stdin string
		args        []string
		client      string
		t1, other   []identity.Verb
		after       time.Duration
		err         error
	}{
		{"by default", "", []string{"--thread", "t:1", "--client", "ada"}, "ada", user, nil, 59 * time.Minute, nil},
		{"by default, an hour later", "", []string{"--thread", "t:1", "--client", "ada"}, "", nil, nil, 61 * time.Minute, identity.ErrInvalidToken},
		{"the secret from a file", "", []string{"--thread", "t:1", "--client", "ada", "--secret-file", file}, "ada", user, nil, 0, nil},
		{"the secret from stdin", testSecret + "\r\n", []string{"--thread", "t:1", "--client", "ada", "--secret-file", "-"}, "ada", user, nil, 0, nil},
		{"another secret", "another-secret-of-an-app", []string{"--thread", "t:1", "--secret-file", "-"}, "", nil, nil, 0, identity.ErrInvalidToken},
		{"to read only", "", []string{"--thread", "t:1", "--client", "ada", "--can", "subscribe"}, "ada", user[:1], nil, 0, nil},
		{"to cancel all", "", []string{"--thread", "t:1", "--client", "ada", "--can", "subscribe,publish:cancel_any"}, "ada", []identity.Verb{identity.Subscribe, identity.CancelAny}, nil, 0, nil},
		{"every thread", "", []string{"--thread", "*", "--client", "ada", "--can", "subscribe"}, "ada", user[:1], user[:1], 0, nil},
		{"for a month", "", []string{"--thread", "t:1", "--client", "ada", "--ttl", "30d"}, "ada", user, nil, 29 * 24 * time.Hour, nil},
		{"without a name", "", []string{"--thread", "t:1"}, "chosen", user, nil, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, err := mintBy(t, c.stdin, append([]string{"--app", "pk"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			j, err := apps.Join(identity.Join{AppKey: "pk", Thread: "t:1", Auth: token, ClientID: "chosen"}, time.Now().Add(c.after))
			if err != c.err || j.Subject.ID != c.client {
				t.Fatalf("%q, %v", j.Subject.ID, err)
			}
			if c.err == nil && (j.Caps.On("t:1") != identity.VerbsOf(c.t1...) || j.Caps.On("else") != identity.VerbsOf(c.other...)) {
				t.Errorf("it allows %v, elsewhere %v", j.Caps.On("t:1").List(), j.Caps.On("else").List())
			}
		})
	}
}

// TestTokenRefused refuses what makes no token, and tells no secret.
func TestTokenRefused(t *testing.T) {
	t.Setenv(secretVariable, "")
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"no app", testSecret, []string{"--thread", "t"}, "--app: "},
		{"no thread", testSecret, []string{"--app", "pk"}, "--thread: "},
		{"a client with a control character", testSecret, []string{"--app", "pk", "--thread", "t", "--client", "a\x01"}, "--client: "},
		{"no secret", "", []string{"--app", "pk", "--thread", "t", "--secret-file", ""}, "no secret: name a file"},
		{"a short secret", "hunter2", []string{"--app", "pk", "--thread", "t"}, "fewer than 16 bytes"},
		{"a file that is not there", "", []string{"--app", "pk", "--thread", "t", "--secret-file", "/nowhere/secret"}, "--secret-file: "},
		{"PIN-190 what only agents do", testSecret, []string{"--app", "pk", "--thread", "t", "--can", "publish:token"}, `"publish:token" is nothing that a client's token can allow`},
		{"an unknown verb", testSecret, []string{"--app", "pk", "--thread", "t", "--can", "subscribe,all"}, `"all" is nothing`},
		{"no time", testSecret, []string{"--app", "pk", "--thread", "t", "--ttl", "0s"}, "--ttl: "},
		{"a year", testSecret, []string{"--app", "pk", "--thread", "t", "--ttl", "365d"}, "--ttl: not a time of 1s to 30d"},
		{"an argument", testSecret, []string{"--app", "pk", "--thread", "t", "more"}, "unknown command"},
		{"a secret as a flag", "", []string{"--app", "pk", "--thread", "t", "--secret", "hunter2"}, "unknown flag: --secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--secret-file", "-"}, c.args...)
			token, err := mintBy(t, c.stdin, args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and the error %v, want one with %q", token, err, c.want)
			}
			noSecret(t, err)
		})
	}
}
