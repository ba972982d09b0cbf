package redisjournal

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

const (
	defaultPrefix     = "parlance"
	defaultPartitions = 128
	maxPartitions     = 4096
	// slots is how many hash slots a Redis Cluster has.
	slots = 16384
	// maxName bounds each part of a thread's key, in bytes.
	maxName = 1024
)

// keyspace knows how everything is named in Redis. All names of a thread have
// the hash tag of its partition, so that one script touches one slot.
type keyspace struct {
	prefix string
	// heads[p] begins each name of partition p: "prefix:{tag}:".
	heads []string
	tags  []string
}

// newKeyspace checks a prefix and a number of partitions; zero values are the
// defaults.
func newKeyspace(prefix string, partitions int) (keyspace, error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	if partitions == 0 {
		partitions = defaultPartitions
	}
	if partitions < 1 || partitions > maxPartitions {
		return keyspace{}, fmt.Errorf("redisjournal: %d partitions, but there can be 1 to %d", partitions, maxPartitions)
	}
	// Braces would make a hash tag of their own, a star a pattern.
	for _, c := range []byte(prefix) {
		if !plain(c) && c != ':' && c != '/' {
			return keyspace{}, fmt.Errorf("redisjournal: a prefix may have letters, digits, and any of -_.:/ only")
		}
	}
	k := keyspace{prefix: prefix, tags: spread(partitions)}
	for _, tag := range k.tags {
		k.heads = append(k.heads, prefix+":{"+tag+"}:")
	}
	return k, nil
}

// spread finds a hash tag for each partition such that partition p of n is in
// the p-th n-th of the slots. It always finds the same ones.
func spread(n int) []string {
	tags := make([]string, n)
	for i, left := 0, n; left > 0; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		if p := int(slot(tag)) * n / slots; tags[p] == "" {
			tags[p] = tag
			left--
		}
	}
	return tags
}

// slot is the hash slot of a key that is, or whose tag is, s: CRC-16/XMODEM
// modulo the slots (Redis Cluster specification, "Key distribution model").
func slot(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// plain says that escape leaves the byte alone.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

const hexDigits = "0123456789abcdef"

// escape writes s in letters, digits, "-", "_", "." and "%": different texts
// never give the same, and none has what separates names or makes a hash tag.
func escape(s string) string {
	clean := true
	for i := range len(s) {
		clean = clean && plain(s[i])
	}
	if clean {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// unescape undoes escape; ok is false for what escape never wrote.
func unescape(s string) (text string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), true
}

// name is a thread's key as a part of names.
func name(key chat.Key) string {
	return escape(key.Realm) + ":" + escape(key.Tenant) + ":" + escape(key.Thread)
}

// parseName undoes name.
func parseName(s string) (key chat.Key, ok bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return key, false
	}
	for i, to := range []*string{&key.Realm, &key.Tenant, &key.Thread} {
		if *to, ok = unescape(parts[i]); !ok {
			return chat.Key{}, false
		}
	}
	return key, true
}

// checkKey refuses names that are too long.
func checkKey(key chat.Key) error {
	for _, s := range []string{key.Realm, key.Tenant, key.Thread} {
		if len(s) > maxName {
			return fmt.Errorf("%w: a name of %d bytes", journal.ErrTooLarge, len(s))
		}
	}
	return nil
}

// partitions is how many there are.
func (k keyspace) partitions() int { return len(k.tags) }

// hash is the partition of a name.
func (k keyspace) hash(name string) int {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int(h.Sum64() % uint64(len(k.tags)))
}

// tag is the hash tag of a partition, without braces.
func (k keyspace) tag(partition int) string { return k.tags[partition] }

// channel is where a thread's notices are published.
func (k keyspace) channel(key chat.Key) string { return k.thread(key).channel }

// threadKeys are the names of all that a thread is.
type threadKeys struct {
	partition int
	name      string
	// meta is a flat hash, stream has the records after the floor, base the
	// state there, pages and nodes are hashes by number and by id, commands a
	// hash that expires, segments a list of those that the thread is found by.
	meta, stream, base, pages, nodes, commands, segments string
	channel                                              string
}

func (k keyspace) thread(key chat.Key) threadKeys {
	n := name(key)
	p := k.hash(n)
	head := k.heads[p]
	return threadKeys{
		partition: p, name: n,
		meta: head + "m:" + n, stream: head + "x:" + n, base: head + "b:" + n, pages: head + "p:" + n,
		nodes: head + "n:" + n, commands: head + "k:" + n, segments: head + "g:" + n, channel: head + "c:" + n,
	}
}

// due, idle and segment are a partition's: sorted sets of the runs that have an
// owner or a time, and of the threads to be trimmed, both by when somebody must
// look; and a hash of threads by segment id.
func (k keyspace) due(partition int) string     { return k.heads[partition] + "due" }
func (k keyspace) idle(partition int) string    { return k.heads[partition] + "idle" }
func (k keyspace) segment(partition int) string { return k.heads[partition] + "seg" }

// schema is where the version stands that all edges write, if it is not the first.
func (k keyspace) schema() string { return k.prefix + ":schema" }

// layout is where the number of partitions stands.
func (k keyspace) layout() string { return k.prefix + ":layout" }
