package redisjournal

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"redis://localhost":                   "[localhost:6379] 0 false - -",
		"redis://localhost:7000/3":            "[localhost:7000] 3 false - -",
		"rediss://u:p%40ss@h/":                "[h:6379] 0 true u p@ss",
		"redis://:p@h:1,[::1],10.0.0.1:2":     "[h:1 [::1]:6379 10.0.0.1:2] 0 false - p",
		"unix:///run/redis.sock":              "[/run/redis.sock] 0 false - -",
		"unix://u:p@/run/redis.sock?db=2":     "[/run/redis.sock] 2 false u p",
		"http://u:hunter2@h":                  "must begin with",
		"redis://u:hunter2@":                  "no host",
		"redis://u:hunter2@h:0":               "wrong port",
		"redis://u:hunter2@h:x":               "wrong port",
		"redis://u:hunter2@h/x":               "not a number",
		"redis://u:hunter2@h/-1":              "not a number",
		"redis://u:hunter2@h?protocol=3":      "behind a question mark",
		"redis://u:hunter2%zz@h":              "percent-encoded",
		"redis://u:hunter2/x@h":               "",
		"unix://u:hunter2@host/run/x":         "a socket is written",
		"hunter2":                             "must begin with",
		"redis://u:hunter2@h:1:2,\x7f":        "",
		"unix:///run/x?db=2&password=hunter2": "behind a question mark",
	} {
		o, err := ParseURL(text)
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		name, password := "-", "-"
		if o.Credentials != nil {
			if name, password = o.Credentials(); name == "" {
				name = "-"
			}
		}
		if got := fmt.Sprint(o.Addresses, " ", o.DB, " ", o.TLS != nil, " ", name, " ", password); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":                {},
		"a cluster with a database": {Addresses: []string{"h:1"}, Cluster: true, DB: 1},
		"a cluster with Sentinels":  {Addresses: []string{"h:1"}, Cluster: true, Master: "m"},
	} {
		if l, err := dial(o); err == nil {
			t.Errorf("%s: taken", name)
			l.close()
		}
	}
}
