// Package caddymodule is the Caddy face of Parlance: the app, the handler, the
// Caddyfile, and nothing of what they drive. Its job is to turn configuration
// into the values that package edge takes, and Caddy's lifecycle into calls on
// the hub that outlives it.
//
// A configuration is loaded in this order: every handler's Provision turns its
// options into an edge.Site and gives it to the app, which refuses what does not
// fit together; nothing is opened, so that a configuration can be validated
// while a server runs. The app's Start takes the hub from the pool, opening the
// journal if no configuration has it yet; when Caddy says that every app has
// started, the sites become current. Cleanup gives both back. Old and new
// overlap, so a hub that both use is never closed.
package caddymodule
