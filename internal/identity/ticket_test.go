package identity

import (
	"strings"
	"testing"
	"time"
)

func TestTickets(t *testing.T) {
	tickets := Signed(secretA, "upgrade")
	ticket := tickets.Mint(start, time.Minute, "alice")
	id, err := tickets.Open(ticket, start.Add(time.Minute), "alice")
	if err != nil || len(id) != 22 {
		t.Fatalf("id %q, error %v", id, err)
	}
	if again, _ := Signed(secretA, "upgrade").Open(ticket, start, "alice"); again != id {
		t.Error("another edge reads another id")
	}
	if tickets.Mint(start, time.Minute, "alice") == ticket {
		t.Error("tickets repeat")
	}
	long := tickets.Mint(start, 24*time.Hour, "")
	for _, row := range []struct {
		name   string
		t      Tickets
		ticket string
		at     time.Duration
		bound  string
	}{
		{"over", tickets, ticket, time.Minute + time.Millisecond, "alice"},
		{"bound to another", tickets, ticket, 0, "bob"},
		{"bound to nobody", tickets, ticket, 0, ""},
		{"other purpose", Signed(secretA, "resume"), ticket, 0, "alice"},
		{"other key", Signed(secretB, "upgrade"), ticket, 0, "alice"},
		{"truncated", tickets, ticket[:len(ticket)-1], 0, "alice"},
		{"longer", tickets, ticket + "A", 0, "alice"},
		{"newline", tickets, ticket[:10] + "\n" + ticket[11:], 0, "alice"},
		{"empty", tickets, "", 0, "alice"},
		{"huge", tickets, strings.Repeat("a", 1<<20), 0, "alice"},
		{"a day is cut to an hour", tickets, long, time.Hour + time.Second, ""},
	} {
		t.Run("H26 "+row.name, func(t *testing.T) {
			id, err := row.t.Open(row.ticket, start.Add(row.at), row.bound)
			refused(t, Principal{}, err, row.ticket)
			if id != "" {
				t.Error("an id beside the error")
			}
		})
	}
	for i := range len(ticket) {
		b := []byte(ticket)
		if b[i] = 'A'; ticket[i] == 'A' {
			b[i] = 'B'
		}
		if _, err := tickets.Open(string(b), start, "alice"); err == nil {
			t.Fatalf("a change at %d is not seen", i)
		}
	}
}
