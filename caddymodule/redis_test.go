package caddymodule

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// redisAt reads what stands behind `journal redis`.
func redisAt(t *testing.T, text string) (place, error) {
	t.Helper()
	var a App
	if err := a.UnmarshalCaddyfile(caddyfile.NewTestDispenser("parlance {\njournal redis " + text + "\n}")); err != nil {
		t.Fatal(err)
	}
	return a.Journal.Redis.place()
}

// TestRedisOptions holds each option to what the journal is opened with, and
// to what tells hubs apart.
func TestRedisOptions(t *testing.T) {
	t.Setenv("PARLANCE_TEST_URL", "rediss://edge:"+testToken+"@10.0.0.1:6380/3")
	for _, c := range []struct {
		name, text string
		key        string
		secrets    redisSecrets
		check      func(*redisPlace) bool
	}{
		{"defaults", "redis://localhost", "redis redis://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			o := p.options
			return o.Partitions == 128 && o.Pool == 16 && o.IdleTrim == 10*time.Minute && !o.Sync.Fsync && o.Sync.Replicas == 0 && o.TLS == nil && !o.Cluster && o.Master == ""
		}},
		{"a placeholder, a user, a database, TLS", "{env.PARLANCE_TEST_URL}", "redis rediss://10.0.0.1:6380/3 parlance", redisSecrets{user: "edge", password: testToken}, func(p *redisPlace) bool {
			return p.options.TLS != nil && p.options.DB == 3 && p.options.Credentials == nil
		}},
		{"a password beside the url", "redis://localhost {\npassword {env.PARLANCE_TEST_TOKEN}\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{password: testToken}, nil},
		{"a user beside the url", "redis://localhost {\nusername edge\npassword {env.PARLANCE_TEST_TOKEN}\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{user: "edge", password: testToken}, nil},
		{"prefix", "redis://localhost {\nprefix chat\n}", "redis redis://localhost:6379/0 chat", redisSecrets{}, nil},
		{"pool, partitions", "redis://localhost {\npool 3\npartitions 8\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.Pool == 3 && p.options.Partitions == 8
		}},
		{"sync fsync", "redis://localhost {\nsync fsync\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.Sync.Fsync && p.options.Sync.Replicas == 0
		}},
		{"sync replicas", "redis://localhost {\nsync replicas 2\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return !p.options.Sync.Fsync && p.options.Sync.Replicas == 2
		}},
		{"retention", "redis://localhost {\nretention idle 24h\n}", "redis redis://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.IdleTrim == 24*time.Hour
		}},
		{"tls alone", "redis://localhost {\ntls\n}", "redis rediss://localhost:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.TLS != nil && !p.options.TLS.InsecureSkipVerify
		}},
		{"server_name", "rediss://10.0.0.1 {\ntls {\nserver_name redis.example.com\n}\n}", "redis rediss://10.0.0.1:6379/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.TLS.ServerName == "redis.example.com"
		}},
		{"a socket of this machine", "unix:///run/redis.sock", "redis unix:///run/redis.sock?db=0 parlance", redisSecrets{}, nil},
		{"sentinels in the url", "redis://b:26379,a:26379 {\nsentinel main\n}", "redis redis+sentinel://a:26379,b:26379/main/0 parlance", redisSecrets{}, nil},
		{"sentinel", "redis://b:26379 {\nsentinel main a c:1\n}", "redis redis+sentinel://a:26379,b:26379,c:1/main/0 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.Master == "main" && len(p.options.Addresses) == 3
		}},
		{"sentinels with a password", "redis://b:26379 {\nsentinel main {\nusername watcher\npassword {env.PARLANCE_TEST_TOKEN}\n}\n}", "redis redis+sentinel://b:26379/main/0 parlance", redisSecrets{sentinelUser: "watcher", sentinelPassword: testToken}, nil},
		{"cluster", "redis://b {\ncluster a [2001:db8::1]:6380 b:6379\n}", "redis redis+cluster://[2001:db8::1]:6380,a:6379,b:6379 parlance", redisSecrets{}, func(p *redisPlace) bool {
			return p.options.Cluster
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := redisAt(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.key.String(); got != c.key {
				t.Errorf("the journal is called %q, want %q", got, c.key)
			}
			if p.redis.secrets != c.secrets {
				t.Errorf("the secrets are %+v, want %+v", p.redis.secrets, c.secrets)
			}
			if c.check != nil && !c.check(p.redis) {
				t.Errorf("opened with %+v", p.redis.options)
			}
		})
	}
}

// TestRedisRefused: what makes no sense is refused in words that tell no secret.
func TestRedisRefused(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, _ := certificate(t, dir, "edge")
	for _, c := range []struct{ name, text, want string }{
		{"a url of another kind", "http://x:hunter2@localhost", "url: "},
		{"a url that is none", `"redis://x:hunter2@local host:port"`, "url: "},
		{"a url with a wrong port", `"redis://:hunter2@localhost:hunter2"`, "url: "},
		{"a url in a missing placeholder", "redis://x:hunter2@{env.PARLANCE_TEST_NOTHING}", "url: a placeholder in it is unknown or empty"},
		{"a password in a missing placeholder", "redis://localhost {\npassword hunter2{env.PARLANCE_TEST_NOTHING}\n}", "password: a placeholder in it is unknown or empty"},
		{"two passwords", "redis://x:hunter2@localhost {\npassword hunter2\n}", "the url has a password and there is an option password too: leave one out"},
		{"two users", "redis://x:hunter2@localhost {\nusername y\n}", "the url has a username"},
		{"a user without a password", "redis://localhost {\nusername y\n}", "a username without a password"},
		{"a Sentinel's user without a password", "redis://localhost {\nsentinel main {\nusername y\n}\n}", "sentinel: there is a username without a password"},
		{"a prefix with a hash tag", "redis://localhost {\nprefix \"{a}\"\n}", "prefix: "},
		{"a long prefix", "redis://localhost {\nprefix " + strings.Repeat("a", 65) + "\n}", "prefix: 1 to 64"},
		{"many partitions", "redis://localhost {\npartitions 5000\n}", "partitions must be 1 to 4096"},
		{"a large pool", "redis://localhost {\npool 5000\n}", "pool must be 1 to 4096"},
		{"many replicas", "redis://localhost {\nsync replicas 65\n}", "replicas must be 1 to 64"},
		{"a short retention", "redis://localhost {\nretention idle 1s\n}", "retention: idle must be at least 1m"},
		{"sentinel and cluster", "redis://localhost {\nsentinel main\ncluster\n}", "sentinel and cluster exclude each other"},
		{"two hosts that are nothing together", "redis://a,b", "the url names several hosts: say what they are"},
		{"a cluster at a socket", "unix:///run/redis.sock {\ncluster\n}", "a socket of this machine goes with neither"},
		{"a database of a cluster", "redis://localhost/1 {\ncluster\n}", "a cluster has no numbered databases"},
		{"a url as an address", "redis://localhost {\ncluster redis://:hunter2@localhost\n}", "an address is written host:port"},
		{"a master with a space", "redis://localhost {\nsentinel \"a b\"\n}", "sentinel: the name of the master"},
		{"a ca that is not there", "redis://localhost {\ntls {\nca " + filepath.Join(dir, "none") + "\n}\n}", "tls: ca: open "},
		{"a ca that is none", "redis://localhost {\ntls {\nca " + other + "\n}\n}", "tls: ca: the file has no certificate in PEM form"},
		{"a certificate without a key", "redis://localhost {\ntls {\ncert " + cert + "\n}\n}", "tls: cert and key go together"},
		{"a key that is none", "redis://localhost {\ntls {\ncert " + cert + "\nkey " + other + "\n}\n}", "tls: cert and key: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := redisAt(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q; %+v", err, c.want, p.key)
			}
			noSecret(t, err)
		})
	}
}

// TestRedisHubs: which changes of a configuration keep the hub.
func TestRedisHubs(t *testing.T) {
	dir := t.TempDir()
	ca, _ := certificate(t, dir, "one")
	base := "rediss://b:6379 {\npassword one\ntls {\nca " + ca + "\n}\ncluster a:6379\n}"
	key := func(text string) hubKey {
		p, err := redisAt(t, text)
		if err != nil {
			t.Fatal(err)
		}
		return p.key
	}
	was := key(base)
	for name, change := range map[string][2]string{
		"a password":           {"password one", "password two"},
		"another order":        {"b:6379 {\npassword one\n", "a:6379 {\npassword one\n"},
		"sync":                 {"cluster", "sync fsync\ncluster"},
		"pool":                 {"cluster", "pool 3\ncluster"},
		"retention":            {"cluster", "retention idle 1h\ncluster"},
		"a default in letters": {"cluster", "partitions 128\nprefix parlance\ncluster"},
	} {
		text := strings.Replace(base, change[0], change[1], 1)
		if name == "another order" {
			text = strings.Replace(text, "cluster a", "cluster b", 1)
		}
		if got := key(text); got != was {
			t.Errorf("%s: %+v is not %+v", name, got, was)
		}
	}
	for name, change := range map[string][2]string{
		"a prefix":       {"cluster", "prefix other\ncluster"},
		"a node":         {"cluster a:6379", "cluster a:6379 c"},
		"no cluster":     {"cluster a:6379", ""},
		"no TLS":         {"rediss://b:6379 {\npassword one\ntls {\nca " + ca + "\n}", "redis://b:6379 {\npassword one"},
		"the partitions": {"cluster", "partitions 64\ncluster"},
		"a server name":  {"ca " + ca, "ca " + ca + "\nserver_name x"},
		"no ca":          {"ca " + ca, ""},
	} {
		if got := key(strings.Replace(base, change[0], change[1], 1)); got == was {
			t.Errorf("%s is still %+v", name, got)
		}
	}
	sentinels := "redis://a {\nsentinel main {\npassword one\n}\n}"
	if key(sentinels) == key(strings.Replace(sentinels, "password one", "password two", 1)) {
		t.Error("the Sentinels' password, which is asked for once, is still the same hub")
	}
	certificate(t, dir, "one")
	if key(base) == was {
		t.Error("another certificate in the file is still the same hub")
	}
}

// TestRedisTLS: the client's certificate is the one that the files hold when a
// connection is made.
func TestRedisTLS(t *testing.T) {
	dir := t.TempDir()
	cert, private := certificate(t, dir, "edge")
	p, err := redisAt(t, "rediss://localhost {\ntls {\nca "+cert+"\ncert "+cert+"\nkey "+private+"\n}\n}")
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.redis.options.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, "edge")
	second, err := p.redis.options.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || slices.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Errorf("after the files were replaced: the certificate of before, %v", err)
	}
}

// TestRedisNow: what a reload changes is asked for anew, what it cannot change is
// told.
func TestRedisNow(t *testing.T) {
	at := func(text string) place {
		p, err := redisAt(t, text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var now redisNow
	one := at("redis://a {\nusername u\npassword one\nsentinel main {\npassword s1\n}\n}")
	one.storage = memory{}
	now.to(one)
	o := now.options(one.redis.options, nil)
	two := at("redis://a {\nusername u\npassword two\nsync fsync\npool 3\nretention idle 1h\nsentinel main {\npassword s2\n}\n}")
	two.storage = memory{}
	if got := now.tuned(one.redis); len(got) != 0 {
		t.Errorf("the same differs in %q", got)
	}
	for range 2 {
		if got := now.tuned(two.redis); !slices.Equal(got, []string{"sync", "pool", "retention"}) {
			t.Errorf("it differs in %q", got)
		}
		now.to(two)
	}
	if u, p := o.Credentials(); u != "u" || p != "two" {
		t.Errorf("the credentials are %q %q", u, p)
	}
	if u, p := o.SentinelCredentials(); u != "" || p != "s2" {
		t.Errorf("the Sentinels' credentials are %q %q", u, p)
	}
	if err := o.Storage.Store(t.Context(), "blob", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if len(one.storage.(memory)) != 0 || string(two.storage.(memory)["parlance/parlance/blob"]) != "x" {
		t.Errorf("stored in %v, %v", one.storage, two.storage)
	}
	if b, err := o.Storage.Load(t.Context(), "blob"); err != nil || string(b) != "x" {
		t.Errorf("loaded %q, %v", b, err)
	}
	if err := o.Storage.Delete(t.Context(), "blob"); err != nil || len(two.storage.(memory)) != 0 {
		t.Errorf("deleting: %v, left %v", err, two.storage)
	}
}

// certificate writes a fresh self-signed certificate and its key.
func certificate(t *testing.T, dir, name string) (cert, private string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", keyDER)
}
