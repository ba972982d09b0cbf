package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "parlance-token",
		Usage: "--app <key> --thread <id>|'*' [--client <id>] [--can <verb>[,<verb>...]] [--ttl <duration>] [--secret-file <path>|-]",
		Short: "Mints a token to join a Pingerchips thread with",
		Long: `
Prints a token that is signed with an app's secret, for a client that joins a
thread of that app. The secret is read from the file, from standard input
(--secret-file -), or from the environment variable ` + secretVariable + `; it is no flag,
since the arguments of a process can be seen by others.

Verbs are subscribe, publish:user_message, publish:cancel_own,
publish:cancel_any and publish:tool_approval. Without --can a token gives all
of them but publish:cancel_any. With --thread '*' they hold on every thread of
the app. Without --client whoever holds the token chooses a name.
`,
		CobraFunc: tokenCommand,
	})
}

// secretVariable is where the command looks for a secret that no file has.
const secretVariable = "PARLANCE_APP_SECRET"

// maxSecretFile bounds a file with a secret, in bytes.
const maxSecretFile = 64 << 10

// tokenFlags are the command's flags.
type tokenFlags struct {
	app, thread, client, file string
	can                       []string
	ttl                       string
}

func tokenCommand(cmd *cobra.Command) {
	var f tokenFlags
	flags := cmd.Flags()
	flags.StringVar(&f.app, "app", "", "The app's key")
	flags.StringVar(&f.thread, "thread", "", "The thread's id, or * for all of the app's")
	flags.StringVar(&f.client, "client", "", "The user's id")
	flags.StringSliceVar(&f.can, "can", nil, "What the token allows")
	flags.StringVar(&f.ttl, "ttl", pingerchips.DefaultTokenLife.String(), "How long the token holds, such as 15m or 30d")
	flags.StringVar(&f.file, "secret-file", "", "The file with the app's secret, or - for standard input")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		token, err := f.mint(cmd.InOrStdin(), time.Now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
		return err
	}
}

// mint makes the token; no error repeats what may be a secret.
func (f *tokenFlags) mint(stdin io.Reader, now time.Time) (string, error) {
	switch {
	case !chat.ValidID(f.app) || strings.Contains(f.app, ":"):
		return "", errors.New("--app: an app's key is 1 to 128 characters without a colon")
	case !chat.ValidID(f.thread):
		return "", errors.New("--thread: a thread's id is 1 to 128 characters; write '*' for every thread")
	case f.client != "" && !chat.ValidID(f.client):
		return "", errors.New("--client: a user's id is 1 to 128 characters")
	}
	verbs, bad := pingerchips.UserVerbs, ""
	if len(f.can) > 0 {
		if verbs, bad = pingerchips.ReadVerbs(f.can); bad != "" {
			return "", fmt.Errorf("--can: %s is nothing that a client's token can allow", bad)
		}
	}
	ttl, err := caddy.ParseDuration(f.ttl)
	if err != nil || ttl < time.Second || ttl > pingerchips.MaxTokenLife {
		return "", fmt.Errorf("--ttl: not a time of 1s to %dd", pingerchips.MaxTokenLife/(24*time.Hour))
	}
	secret, err := f.secret(stdin)
	if err != nil {
		return "", err
	}
	app := &identity.App{Key: f.app, Secrets: []string{secret}}
	return app.Mint(identity.AppClaims{
		ClientID: f.client,
		Cap:      pingerchips.CapabilitiesOn(f.thread, verbs),
		IssuedAt: now.Unix(),
		Expires:  now.Add(ttl).Unix(),
	})
}

// secret reads the app's secret, without the line's end after it.
func (f *tokenFlags) secret(stdin io.Reader) (string, error) {
	var secret string
	switch f.file {
	case "":
		if secret = os.Getenv(secretVariable); secret == "" {
			return "", errors.New("no secret: name a file with --secret-file, or set " + secretVariable)
		}
	case "-":
		b, err := io.ReadAll(io.LimitReader(stdin, maxSecretFile))
		if err != nil {
			return "", fmt.Errorf("reading the secret: %w", err)
		}
		secret = string(b)
	default:
		file, err := os.Open(f.file)
		if err != nil {
			return "", fmt.Errorf("--secret-file: %w", err)
		}
		defer file.Close()
		b, err := io.ReadAll(io.LimitReader(file, maxSecretFile))
		if err != nil {
			return "", fmt.Errorf("--secret-file: %w", err)
		}
		secret = string(b)
	}
	if secret = strings.TrimRight(secret, "\r\n"); len(secret) < minSecret {
		return "", fmt.Errorf("the secret has fewer than %d bytes", minSecret)
	}
	return secret, nil
}
