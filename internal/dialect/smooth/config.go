package smooth

import (
	"path"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Config is what a site is configured to do in this dialect. It is immutable;
// zero values are the defaults named.
type Config struct {
	// Agents are the site's agents by name, the first is the default; IDs maps
	// the agent ids that clients send to names. Where it is empty every UUID
	// means the default.
	Agents []string
	IDs    map[string]string
	// Allowed are the agents that clients of this dialect may open sessions with;
	// empty is all.
	Allowed []string
	// Origins decide, by an agent's name, on the origins of pages that may open
	// sessions with it; "" is what no page opened. An agent that is not here is
	// open to every page that may connect.
	Origins map[string]func(origin string) bool
	// Extras serves list_conversations and rename_conversation.
	Extras bool
	// Anonymous admits who shows no credential, or a bad one, as nobody in
	// particular: who knows a session's id may use it.
	Anonymous bool
	// Park is how long a turn waits for its person (default 300 s; negative: for
	// as long as it takes).
	Park time.Duration
	// CancelOnDisconnect stops a turn when its connection is lost.
	CancelOnDisconnect bool
	// Keepalive is how often a turn says that it goes on (default 30 s;
	// negative: never).
	Keepalive time.Duration
	// Strict refuses actions with members that they do not have.
	Strict bool
	// Models are the names, or patterns of them, that a client may choose a model
	// by; Skills those of skills. The agent is given the choice.
	Models []string
	Skills []string
	// AuthKey is the secret that a back end signs an authContext with; without
	// it none is looked at.
	AuthKey []byte
	// Kinds are the kinds of cards beside the protocol's two.
	Kinds []Kind
	// Codes verifies people by one-time codes; without it a question for one is
	// declined.
	Codes Codes
	// CodesPerAddress bounds the codes that go to one address or number within an
	// hour, whichever sessions of a tenant and edges ask for them (default
	// DefaultCodesPerAddress).
	CodesPerAddress int
	// Resend lets turns whose agent asks for a code end without it: the person
	// sends the message again once the code was right (SMO-204).
	Resend bool
}

// Kind is a kind of interaction that needs no code: its spec and its values are
// checked by JSON Schema.
type Kind struct {
	Name string
	// Capability is what a client declares that can show it.
	Capability string
	// Description tells an agent's model when to raise it.
	Description  string
	Spec, Values jsontext.Value
}

func (c *Config) park() time.Duration { return orDefault(c.Park, DefaultPark) }

// parkLife bounds how long it is remembered which card a requestId shows.
func (c *Config) parkLife() time.Duration {
	if p := c.park(); p > 0 {
		return min(p+time.Minute, sessionLife)
	}
	return sessionLife
}

func (c *Config) codesPerAddress() int {
	if c.CodesPerAddress > 0 {
		return c.CodesPerAddress
	}
	return DefaultCodesPerAddress
}

func (c *Config) keepalive() time.Duration { return max(0, orDefault(c.Keepalive, DefaultKeepalive)) }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// agent finds the agent that an id means (SMO-053), if clients may have it.
func (c *Config) agent(id, origin string) (string, *Error) {
	name, refused := c.named(id)
	if refused == nil {
		refused = c.admits(name, origin)
	}
	if refused != nil {
		return "", refused
	}
	return name, nil
}

// admits says whether a page may talk to an agent, or nil.
func (c *Config) admits(name, origin string) *Error {
	switch {
	case len(c.Allowed) > 0 && !slices.Contains(c.Allowed, name):
		return &Error{CodeForbiddenAgent, "This agent cannot be talked to here."}
	case c.Origins[name] != nil && !c.Origins[name](origin):
		return &Error{CodeOrigin, "This page may not talk to the agent."}
	}
	return nil
}

func (c *Config) named(id string) (string, *Error) {
	if name, ok := c.IDs[id]; ok {
		return name, nil
	}
	if slices.Contains(c.Agents, id) {
		return id, nil
	}
	switch {
	case !isUUID(id):
		return "", invalid("'agentId' must be a UUID or an agent's name")
	case len(c.IDs) > 0 || len(c.Agents) == 0:
		return "", &Error{CodeNoAgent, "There is no such agent."}
	case len(c.Allowed) > 0:
		return c.Allowed[0], nil
	}
	return c.Agents[0], nil
}

// allows says that a name is in a list of patterns.
func allows(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}
