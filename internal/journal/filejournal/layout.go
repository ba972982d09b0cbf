package filejournal

import (
	"encoding/binary"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// The buckets. "thread" stands for a thread's number, 8 bytes; numbers are
// big-endian, so that keys sort as they count.
var (
	bucketMeta     = []byte("meta")     // marker → state of the folder
	bucketThreads  = []byte("threads")  // key → head
	bucketLive     = []byte("live")     // key of a thread with live runs → nothing
	bucketIdle     = []byte("idle")     // time, key of a thread to be looked at then → nothing
	bucketTombs    = []byte("tombs")    // time, key of a deleted thread → nothing
	bucketBase     = []byte("base")     // thread → state
	bucketRecords  = []byte("records")  // thread, position → record
	bucketPages    = []byte("pages")    // thread, page → messages
	bucketNodes    = []byte("nodes")    // thread, id → node
	bucketCommands = []byte("commands") // thread, order → command
	bucketOwnSegs  = []byte("ownsegs")  // thread, segment id → nothing
	bucketSegments = []byte("segments") // segment id → key
	bucketShelf    = []byte("shelf")    // realm, kind, id → value
	bucketOwned    = []byte("owned")    // realm, kind, owner, newest first, id → nothing
	bucketExpiring = []byte("expiring") // time, key of a shelf value → nothing

	buckets = [][]byte{
		bucketMeta, bucketThreads, bucketLive, bucketIdle, bucketTombs, bucketBase, bucketRecords, bucketPages,
		bucketNodes, bucketCommands, bucketOwnSegs, bucketSegments, bucketShelf, bucketOwned, bucketExpiring,
	}
	// perThread are those whose keys begin with a thread's number.
	perThread = [][]byte{bucketBase, bucketRecords, bucketPages, bucketNodes, bucketCommands, bucketOwnSegs}
)

// maxName bounds each part of a key, in bytes.
const maxName = 1024

// encode joins names so that different lists never give the same bytes.
func encode(names ...string) []byte {
	var b []byte
	for _, s := range names {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// decode undoes encode for n names; ok is false if b is nothing of the kind.
func decode(b []byte, n int) (names []string, ok bool) {
	for range n {
		size, k := binary.Uvarint(b)
		if k <= 0 || size > uint64(len(b)-k) {
			return nil, false
		}
		names = append(names, string(b[k:k+int(size)]))
		b = b[k+int(size):]
	}
	return names, len(b) == 0
}

func encodeKey(k chat.Key) []byte { return encode(k.Realm, k.Tenant, k.Thread) }

func decodeKey(b []byte) (chat.Key, bool) {
	n, ok := decode(b, 3)
	if !ok {
		return chat.Key{}, false
	}
	return chat.Key{Realm: n[0], Tenant: n[1], Thread: n[2]}, true
}

// checkNames refuses names that are too long for a key of a bucket.
func checkNames(names ...string) error {
	for _, s := range names {
		if len(s) > maxName {
			return fmt.Errorf("%w: a name of %d bytes", journal.ErrTooLarge, len(s))
		}
	}
	return nil
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// at joins a number and what follows it in a key.
func at(n uint64, rest []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(rest)), n), rest...)
}

// put and del are Put and Delete on a bucket that is there since Open.
func put(tx *bolt.Tx, bucket, key, value []byte) error { return tx.Bucket(bucket).Put(key, value) }

func del(tx *bolt.Tx, bucket, key []byte) error { return tx.Bucket(bucket).Delete(key) }

// scan calls f for each key of a bucket from the first that is not below
// start, as long as f says so. f must not change the bucket.
func scan(tx *bolt.Tx, bucket, start []byte, f func(k, v []byte) bool) {
	c := tx.Bucket(bucket).Cursor()
	for k, v := c.Seek(start); k != nil && f(k, v); k, v = c.Next() {
	}
}

// drop deletes the keys from start on for which f says so, up to the first
// for which it does not.
func drop(tx *bolt.Tx, bucket, start []byte, f func(k []byte) bool) error {
	b := tx.Bucket(bucket)
	var keys [][]byte
	scan(tx, bucket, start, func(k, _ []byte) bool {
		if !f(k) {
			return false
		}
		keys = append(keys, append([]byte(nil), k...))
		return true
	})
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
