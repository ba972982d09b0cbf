package redisjournal

import (
	"math/rand/v2"
	"strconv"
)

// assemble makes what stands beside the threads, all of it over one link.
func (j *Journal) assemble() {
	// Names this opening of the journal among all that use the prefix.
	boot := strconv.FormatUint(rand.Uint64(), 36)
	j.followers = newFollowers(j.link, j.keys, boot)
	j.shelf = &shelf{j: j, link: j.link, keys: j.keys}
	j.roster = &roster{j: j, link: j.link, keys: j.keys}
	j.blobs = newBlobs(j, boot)
}
