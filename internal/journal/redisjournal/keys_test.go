package redisjournal

import (
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"pgregory.net/rapid"
)

func anyKey() *rapid.Generator[chat.Key] {
	part := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("a:%{}/ .2\x00")), 0, 6, -1))
	return rapid.Custom(func(t *rapid.T) chat.Key {
		return chat.Key{Realm: part.Draw(t, "realm"), Tenant: part.Draw(t, "tenant"), Thread: part.Draw(t, "thread")}
	})
}

func TestNamesAreInjective(t *testing.T) {
	ks, err := newKeyspace("", 0)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyKey().Draw(t, "a"), anyKey().Draw(t, "b")
		n := name(a)
		if got, ok := parseName(n); !ok || got != a {
			t.Fatalf("%q is read as %+v", n, got)
		}
		if (n == name(b)) != (a == b) {
			t.Fatalf("%+v and %+v have the names %q and %q", a, b, n, name(b))
		}
		if strings.ContainsAny(n, "{} \x00") {
			t.Fatalf("the name %q has what separates", n)
		}
		k := ks.thread(a)
		seen := map[string]bool{}
		for _, s := range []string{k.meta, k.stream, k.base, k.pages, k.nodes, k.commands, k.segments, k.channel} {
			if seen[s] || !strings.HasPrefix(s, "parlance:{"+ks.tag(k.partition)+"}:") {
				t.Fatalf("%q is there twice, or not in its slot", s)
			}
			seen[s] = true
		}
	})
}

func TestNamesThatEscapeNeverWrote(t *testing.T) {
	for _, s := range []string{"a:b", "a:b:c:d", "a:%:c", "a:%2:c", "a:%zz:c"} {
		if k, ok := parseName(s); ok {
			t.Errorf("%q is read as %+v", s, k)
		}
	}
}

func TestSlotOfTheSpecification(t *testing.T) {
	if got := slot("123456789"); got != 0x31C3 {
		t.Errorf("CRC %x", got)
	}
}

// Each partition is in its share of the slots, so the shares of a cluster's
// masters differ by no more than one partition.
func TestPartitionsSpreadOverTheSlots(t *testing.T) {
	for _, n := range []int{1, 3, 128, 4096} {
		ks, err := newKeyspace("p", n)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for p := range n {
			if s := int(slot(ks.tag(p))); s < p*slots/n || s > (p+1)*slots/n || seen[ks.tag(p)] {
				t.Fatalf("of %d partitions, %d has slot %d and tag %q", n, p, s, ks.tag(p))
			}
			seen[ks.tag(p)] = true
		}
	}
}

func TestKeyspacesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		prefix     string
		partitions int
	}{{"a{b}", 0}, {"a*", 0}, {"a b", 0}, {"", -1}, {"", maxPartitions + 1}} {
		if _, err := newKeyspace(c.prefix, c.partitions); err == nil {
			t.Errorf("prefix %q with %d partitions is taken", c.prefix, c.partitions)
		}
	}
}
