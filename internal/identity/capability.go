package identity

import (
	"errors"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Verb is one thing that can be done to a thread. Verbs are bits, so that a
// [Verbs] holds any number of them.
type Verb uint16

// The verbs. Those that Pingerchips knows carry its names on the wire (PIN-031).
const (
	Subscribe    Verb = 1 << iota // read the thread and watch it
	UserMessage                   // send a message, which starts a run
	CancelOwn                     // cancel a run that the principal started
	CancelAny                     // cancel any run of the thread
	ToolApproval                  // answer an interrupt
	RunLifecycle                  // agents: start and end runs
	Token                         // agents: write into a run
	Detach                        // let a tool call go on in a thread of its own
	Create                        // create a thread
	Delete                        // delete the thread
	endOfVerbs
)

var verbNames = []string{
	"subscribe", "publish:user_message", "publish:cancel_own", "publish:cancel_any",
	"publish:tool_approval", "publish:run_lifecycle", "publish:token",
	"detach", "create", "delete",
}

// String is the verb as tokens and error texts spell it, such as
// "publish:user_message".
func (v Verb) String() string {
	for i, name := range verbNames {
		if v == 1<<i {
			return name
		}
	}
	return "unknown"
}

// Verbs is a set of verbs.
type Verbs uint16

// Sets in common use.
const (
	// UserVerbs is what a signed-in user may do to his own threads.
	UserVerbs = Verbs(Subscribe | UserMessage | CancelOwn | CancelAny | ToolApproval | Detach | Create | Delete)
	// AgentVerbs is what an agent that joins a thread by secret may do (PIN-039).
	AgentVerbs = Verbs(Subscribe | RunLifecycle | Token | CancelAny)
)

// ParseVerb reads a verb as tokens spell it, or returns 0.
func ParseVerb(s string) Verb {
	for i, name := range verbNames {
		if s == name {
			return 1 << i
		}
	}
	return 0
}

// VerbsOf makes a set.
func VerbsOf(verbs ...Verb) Verbs {
	var s Verbs
	for _, v := range verbs {
		s |= Verbs(v)
	}
	return s
}

// Has reports whether v, a single verb, is in s.
func (s Verbs) Has(v Verb) bool { return v != 0 && Verbs(v)&s == Verbs(v) }

// List is the verbs of s in declaration order.
func (s Verbs) List() []Verb {
	var list []Verb
	for v := Verb(1); v < endOfVerbs; v <<= 1 {
		if s.Has(v) {
			list = append(list, v)
		}
	}
	return list
}

// Capabilities is what a principal may do, per thread. It is immutable: the
// methods With… return a copy. The zero value allows nothing.
type Capabilities struct {
	own     Verbs            // on threads that the subject owns or is a member of
	all     Verbs            // on every thread of the principal's realm and tenant
	threads map[string]Verbs // on threads by id
}

// OwnThreads allows verbs on the threads that the subject owns; it is the default
// of a signed-in user, with [UserVerbs].
func OwnThreads(verbs Verbs) Capabilities { return Capabilities{own: verbs} }

// WithAll adds verbs on every thread of the principal's realm and tenant.
func (c Capabilities) WithAll(verbs Verbs) Capabilities {
	c.all |= verbs
	return c
}

// WithThread adds verbs on the thread with this id.
func (c Capabilities) WithThread(id string, verbs Verbs) Capabilities {
	threads := make(map[string]Verbs, len(c.threads)+1)
	for k, v := range c.threads {
		threads[k] = v
	}
	threads[id] |= verbs
	c.threads = threads
	return c
}

// On is what c allows on the thread with this id whoever owns it (PIN-030,
// PIN-032).
func (c Capabilities) On(threadID string) Verbs {
	if threadID == "" {
		return c.all
	}
	return c.all | c.threads[threadID]
}

// Equal reports whether both allow the same.
func (c Capabilities) Equal(d Capabilities) bool {
	if c.own != d.own || c.all != d.all || len(c.threads) != len(d.threads) {
		return false
	}
	for k, v := range c.threads {
		if w, ok := d.threads[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// maxCapabilities bounds the entries of one token.
const maxCapabilities = 512

var errCapabilities = errors.New("too many capabilities")

// Capability is one entry of a token: a verb on a thread, on every thread of the
// tenant if thread is "*", or on the subject's own if it is empty.
func Capability(v Verb, thread string) string {
	if thread == "" {
		return "chat:" + v.String()
	}
	return "chat:" + v.String() + ":" + thread
}

// ParseCapabilities reads entries as a token carries them:
//
//	chat:{verb}:{threadId}   on that thread (the id may itself contain ':')
//	chat:{verb}:*            on every thread of the tenant (PIN-035)
//	chat:{verb}              on the subject's own threads
//
// '*' is no pattern: only as the whole id it means every thread. An entry that
// is none of these gives nothing. More than 512 entries are an error.
func ParseCapabilities(entries []string) (Capabilities, error) {
	var c Capabilities
	if len(entries) > maxCapabilities {
		return c, errCapabilities
	}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry, "chat:")
		if !ok {
			continue
		}
		verb, thread, named := cutVerb(rest)
		switch {
		case verb == 0:
		case !named:
			c.own |= Verbs(verb)
		case thread == "*":
			c.all |= Verbs(verb)
		case chat.ValidID(thread):
			if c.threads == nil {
				c.threads = make(map[string]Verbs)
			}
			c.threads[thread] |= Verbs(verb)
		}
	}
	return c, nil
}

// cutVerb splits "{verb}[:{thread}]" at the known verb, since verbs and thread
// ids may both contain ':' (PIN-036). No verb is another one's prefix up to a ':'.
func cutVerb(s string) (verb Verb, thread string, named bool) {
	for i, name := range verbNames {
		rest, ok := strings.CutPrefix(s, name)
		if !ok {
			continue
		}
		if rest == "" {
			return 1 << i, "", false
		}
		if rest[0] == ':' {
			return 1 << i, rest[1:], true
		}
	}
	return 0, "", false
}
