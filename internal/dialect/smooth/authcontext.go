package smooth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/dialect"
)

// authAge is how old a signed context may be, and how far ahead (SMO-041).
const authAge = 60 * time.Second

const noteAuth = "smooth.auth"

var errAuthContext = &Error{CodeAuthContext, "The 'authContext' is not valid."}

// vouched is the user id that the back end vouches for, or "": by an
// HMAC-SHA256 over user id and time, with or without a colon between them. An id
// that ends in a colon needs the second one: without it the same signature is that
// of the id before the colon. Each signature counts once. Without a key nothing is
// looked at.
func (c *conn) vouched(ctx context.Context, cfg *Config, v jsontext.Value) (user string, err error) {
	if len(v) == 0 || len(cfg.AuthKey) == 0 {
		return "", nil
	}
	o := entry(v)
	id, signature := o.required("userId", maxName), o.required("signature", maxName)
	at, err := strconv.ParseInt(string(o.members["timestamp"]), 10, 64)
	given, hexErr := hex.DecodeString(signature)
	if o.err != nil || err != nil || hexErr != nil {
		return "", errAuthContext
	}
	age := c.server.o.Now().Sub(time.Unix(at, 0))
	stamp := strconv.FormatInt(at, 10)
	plain := !strings.HasSuffix(id, ":") && hmac.Equal(given, sign(cfg.AuthKey, id+stamp))
	colon := hmac.Equal(given, sign(cfg.AuthKey, id+":"+stamp))
	if !plain && !colon || age > authAge || age < -authAge {
		return "", errAuthContext
	}
	ok, err := c.server.o.Desk.PutNote(ctx, c.who, dialect.Note{
		Kind: noteAuth, ID: hex.EncodeToString(given), Shared: true, Data: []byte{'1'},
	}, 4*authAge)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errAuthContext // it was used before
	}
	return id, nil
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
