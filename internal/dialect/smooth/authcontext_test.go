package smooth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func TestAuthContext(t *testing.T) {
	key := []byte("a key that only the back end has")
	c := serve(t, func(e *edge.Site) { e.Smooth.AuthKey = key }).dial("ann")
	signed := func(text string) string {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return hex.EncodeToString(m.Sum(nil))
	}
	now := time.Now().Unix()
	stamp := func(age int64) string { return strconv.FormatInt(now-age, 10) }
	context := func(user, signature, stamp string) string {
		return `,"authContext":{"userId":"` + user + `","signature":"` + signature + `","timestamp":` + stamp + `}`
	}
	c.session(context("u1", signed("u1"+stamp(0)), stamp(0)))
	c.session(context("u2", signed("u2:"+stamp(5)), stamp(5)))
	c.session(context("u7:", signed("u7::"+stamp(0)), stamp(0)))
	for name, more := range map[string]string{
		"a forged signature":        context("u3", signed("u4"+stamp(0)), stamp(0)),
		"no signature":              context("u3", "", stamp(0)),
		"too old":                   context("u5", signed("u5"+stamp(70)), stamp(70)),
		"of the future":             context("u6", signed("u6"+stamp(-70)), stamp(-70)),
		"used before":               context("u1", signed("u1"+stamp(0)), stamp(0)),
		"used before, in capitals":  context("u2", strings.ToUpper(signed("u2:"+stamp(5))), stamp(5)),
		"a colon's, as one without": context("u8:", signed("u8:"+stamp(0)), stamp(0)),
		"time as text":              `,"authContext":{"userId":"u","signature":"ab","timestamp":"1"}`,
	} {
		c.send(`{"action":"create_conversation_session","requestId":"c","agentId":%q%s}`, anyAgent, more)
		c.refused("SMO-041 SMO-052 "+name, "AUTH_CONTEXT_INVALID", "c")
	}
}
