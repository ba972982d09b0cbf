// Package edge puts the parts together: a Hub is one journal with the rooms,
// runs and sockets of this process on it, and outlives configurations. A
// configuration is a list of Sites, one per handler, that a hub takes on with
// Activate; what a connection may do follows its site through reloads by name.
package edge
