package pingerchips

import (
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// topicPrefix begins every topic of the protocol (PIN-015).
const topicPrefix = "chat:v1:app:"

// parseTopic reads chat:v1:app:{appKey}:thread:{threadId}. A key has no colon; a
// thread's id may have some.
func parseTopic(topic string) (app, thread string, ok bool) {
	rest, ok := strings.CutPrefix(topic, topicPrefix)
	if !ok {
		return "", "", false
	}
	app, thread, ok = strings.Cut(rest, ":thread:")
	if !ok || strings.Contains(app, ":") || !chat.ValidID(app) || !chat.ValidID(thread) {
		return "", "", false
	}
	return app, thread, true
}
