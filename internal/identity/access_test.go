package identity

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

var everyVerb = Verbs(endOfVerbs - 1).List()

// TestAllow is verb × principal × thread: the whole table is generated, and what
// must be allowed is written down by hand for each pair of principal and thread.
func TestAllow(t *testing.T) {
	alice := Subject{IssuerCaddy, "alice"}
	bob := Subject{IssuerCaddy, "bob"}
	user := func(s Subject, c Capabilities) Principal {
		return Principal{Realm: "r", Tenant: "t", Subject: s, Caps: c}
	}
	principals := map[string]Principal{
		"nobody":               {},
		"no subject":           user(Subject{}, OwnThreads(UserVerbs).WithAll(UserVerbs)),
		"alice":                user(alice, OwnThreads(UserVerbs)),
		"alice of another":     user(Subject{IssuerBrowser, "alice"}, OwnThreads(UserVerbs)),
		"alice who may read":   user(alice, OwnThreads(VerbsOf(Subscribe))),
		"alice without rights": user(alice, Capabilities{}),
		"token for thread 1":   user(Subject{IssuerJoin, "x"}, Capabilities{}.WithThread("1", VerbsOf(Subscribe, UserMessage, CancelOwn))),
		"token for all":        user(Subject{IssuerJoin, "y"}, Capabilities{}.WithAll(VerbsOf(Subscribe, CancelAny))),
		"agent":                user(Subject{"agent", "a"}, Capabilities{}.WithThread("1", AgentVerbs)),
	}
	threads := map[string]Thread{
		"alice's":         {Realm: "r", Tenant: "t", ID: "1", Owner: alice},
		"bob's":           {Realm: "r", Tenant: "t", ID: "2", Owner: bob},
		"bob's shared":    {Realm: "r", Tenant: "t", ID: "3", Owner: bob, Members: []Subject{alice}},
		"open":            {Realm: "r", Tenant: "t", ID: "1", Open: true},
		"open with owner": {Realm: "r", Tenant: "t", ID: "4", Owner: alice, Open: true},
		"ownerless":       {Realm: "r", Tenant: "t", ID: "5"},
		"foreign tenant":  {Realm: "r", Tenant: "u", ID: "1", Owner: alice, Members: []Subject{alice}},
		"no tenant":       {Realm: "r", ID: "1", Owner: alice},
		"foreign realm":   {Realm: "s", Tenant: "t", ID: "1", Owner: alice, Members: []Subject{alice}},
		"no realm":        {Tenant: "t", ID: "1", Owner: alice},
	}
	named := Verbs(Subscribe | UserMessage | CancelOwn)
	all := VerbsOf(Subscribe, CancelAny)
	want := map[[2]string]Verbs{
		{"alice", "alice's"}:              UserVerbs,
		{"alice", "bob's shared"}:         UserVerbs &^ Verbs(Delete),
		{"alice who may read", "alice's"}: VerbsOf(Subscribe),
		// A reader who is a member stays a reader (not the room, the verb decides).
		{"alice who may read", "bob's shared"}:    VerbsOf(Subscribe),
		{"token for thread 1", "alice's"}:         named,
		{"token for thread 1", "open"}:            named,
		{"token for all", "alice's"}:              all,
		{"token for all", "bob's"}:                all,
		{"token for all", "bob's shared"}:         all,
		{"token for all", "open"}:                 all,
		{"token for all", "open with owner"}:      all,
		{"token for all", "ownerless"}:            all,
		{"agent", "alice's"}:                      AgentVerbs,
		{"agent", "open"}:                         AgentVerbs,
		{"alice of another", "alice's"}:           0,
		{"alice without rights", "alice's"}:       0,
		{"no subject", "ownerless"}:               0,
		{"alice", "foreign tenant"}:               0,
		{"token for all", "foreign realm"}:        0,
		{"token for thread 1", "foreign tenant"}:  0,
		{"alice", "no realm"}:                     0,
		{"nobody", "no realm"}:                    0,
		{"token for thread 1", "open with owner"}: 0,
	}
	for pn, p := range principals {
		for tn, thread := range threads {
			expect := want[[2]string{pn, tn}]
			for _, verb := range everyVerb {
				t.Run(fmt.Sprintf("PIL-045 %s does %v to %s", pn, verb, tn), func(t *testing.T) {
					err := Allow(p, verb, thread, p.Subject)
					allowed := expect.Has(verb) || verb == CancelOwn && expect.Has(CancelAny)
					if allowed != (err == nil) {
						t.Fatalf("error %v, want allowed %v", err, allowed)
					}
					if err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatalf("error %v, want ErrNotFound", err)
					}
				})
			}
		}
	}
}

func TestAllowCancel(t *testing.T) {
	alice, bob := Subject{IssuerJoin, "alice"}, Subject{IssuerJoin, "bob"}
	thread := Thread{Realm: "r", ID: "1", Open: true}
	own := Principal{Realm: "r", Subject: alice, Caps: Capabilities{}.WithThread("1", VerbsOf(CancelOwn))}
	anyone := Principal{Realm: "r", Subject: alice, Caps: Capabilities{}.WithThread("1", VerbsOf(CancelAny))}
	user := Principal{Realm: "r", Subject: alice, Caps: OwnThreads(UserVerbs)}
	for _, row := range []struct {
		name    string
		p       Principal
		verb    Verb
		t       Thread
		starter []Subject
		ok      bool
	}{
		{"cancel_own of one's own run", own, CancelOwn, thread, []Subject{alice}, true},
		{"cancel_own of another's run", own, CancelOwn, thread, []Subject{bob}, false},
		{"cancel_own of an equal id of another issuer", own, CancelOwn, thread, []Subject{{IssuerJWT + "i", "alice"}}, false},
		{"cancel_own of nobody's run", own, CancelOwn, thread, nil, false},
		{"cancel_own of an unnamed starter", own, CancelOwn, thread, []Subject{{}}, false},
		{"cancel_any is not cancel_own", own, CancelAny, thread, []Subject{alice}, false},
		{"cancel_any of another's run", anyone, CancelOwn, thread, []Subject{bob}, true},
		{"PIL-100 whoever has access cancels another's run", user, CancelOwn, Thread{Realm: "r", ID: "1", Owner: bob, Members: []Subject{alice}}, []Subject{bob}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := Allow(row.p, row.verb, row.t, row.starter...); (err == nil) != row.ok {
				t.Fatalf("error %v, want allowed %v", err, row.ok)
			}
		})
	}
}

// TestWalls: no capabilities whatever let anybody through a realm or tenant.
func TestWalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"", "a", "b", "a:b", "*"})
		s := Subject{name.Draw(t, "issuer"), name.Draw(t, "subject")}
		id := name.Draw(t, "thread")
		p := Principal{Realm: name.Draw(t, "realm"), Tenant: name.Draw(t, "tenant"), Subject: s}
		p.Caps = OwnThreads(^Verbs(0)).WithAll(^Verbs(0)).WithThread(id, ^Verbs(0))
		thread := Thread{Realm: name.Draw(t, "thread realm"), Tenant: name.Draw(t, "thread tenant"), ID: id, Owner: s, Members: []Subject{s}}
		through := Granted(p, thread) != 0
		same := p.Realm != "" && p.Realm == thread.Realm && p.Tenant == thread.Tenant && s.ID != "" && s.Issuer != ""
		if through != same {
			t.Fatalf("through the wall %v, want %v", through, same)
		}
	})
}

func TestParseCapabilities(t *testing.T) {
	for _, row := range []struct {
		name, entry string
		want        Capabilities
	}{
		{"PIN-030 thread", "chat:subscribe:t1", Capabilities{}.WithThread("t1", VerbsOf(Subscribe))},
		{"PIN-031 verb with a colon", "chat:publish:user_message:t1", Capabilities{}.WithThread("t1", VerbsOf(UserMessage))},
		{"PIN-036 thread with colons", "chat:publish:cancel_own:a:b:c", Capabilities{}.WithThread("a:b:c", VerbsOf(CancelOwn))},
		{"PIN-035 whole wildcard", "chat:subscribe:*", Capabilities{}.WithAll(VerbsOf(Subscribe))},
		{"PIN-035 a star is no pattern", "chat:subscribe:t*", Capabilities{}.WithThread("t*", VerbsOf(Subscribe))},
		{"own threads", "chat:subscribe", OwnThreads(VerbsOf(Subscribe))},
		{"empty thread", "chat:subscribe:", Capabilities{}},
		{"unknown verb", "chat:admin:t1", Capabilities{}},
		{"verb wildcard", "chat:*:t1", Capabilities{}},
		{"longer verb", "chat:subscribers:t1", Capabilities{}},
		{"other family", "room:subscribe:t1", Capabilities{}},
		{"upper case", "CHAT:subscribe:t1", Capabilities{}},
		{"control character", "chat:subscribe:t\n1", Capabilities{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := ParseCapabilities([]string{row.entry})
			if err != nil || !got.Equal(row.want) {
				t.Fatalf("got %+v, %v; want %+v", got, err, row.want)
			}
		})
	}
	if _, err := ParseCapabilities(make([]string, maxCapabilities+1)); err == nil {
		t.Error("too many entries are accepted")
	}
}

func TestCapabilityOnAnotherThreadGivesNothing(t *testing.T) {
	c := Capabilities{}.WithThread("a", VerbsOf(Subscribe))
	if c.On("b") != 0 || c.On("") != 0 || c.On("*") != 0 {
		t.Error("PIN-032 a capability reaches beyond its thread")
	}
	d := c.WithThread("b", VerbsOf(Token))
	if c.On("b") != 0 || d.On("b") != VerbsOf(Token) {
		t.Error("With… changed its receiver")
	}
}

func TestVerbNames(t *testing.T) {
	if len(everyVerb) != len(verbNames) {
		t.Fatalf("%d verbs, %d names", len(everyVerb), len(verbNames))
	}
	for _, v := range everyVerb {
		if got, _, named := cutVerb(v.String()); got != v || named {
			t.Errorf("%v does not come back", v)
		}
	}
	if AgentVerbs.Has(UserMessage) {
		t.Error("PIN-039 an agent may send a user's message")
	}
	if Verb(0).String() != "unknown" || UserVerbs.Has(0) {
		t.Error("the zero verb is something")
	}
}
