package edge

// Pingerchips says where the Pingerchips dialect is served.
type Pingerchips struct {
	// Path is the endpoint's prefix, with its final slash: "/socket/".
	Path string
	// Frame bounds a message from a client, in bytes; 0 is the dialect's 2 MiB.
	Frame int64
}
