package caddymodule

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// errPlaceholder does not repeat the text: what stands beside a placeholder may
// be a secret.
var errPlaceholder = errors.New("a placeholder in it is unknown or empty")

// replaced fills in the global placeholders of a configured text, such as
// {env.NAME} and {file./path}. One without a value is an error: a secret that is
// not there must not become an empty one.
func replaced(s string) (string, error) {
	out, err := caddy.NewReplacer().ReplaceOrErr(s, true, true)
	if err != nil {
		return "", errPlaceholder
	}
	return out, nil
}

// replacedBut is replaced for a text in which keep stands for itself.
func replacedBut(s, keep string) (string, error) {
	parts := strings.Split(s, keep)
	for i := range parts {
		var err error
		if parts[i], err = replaced(parts[i]); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, keep), nil
}
