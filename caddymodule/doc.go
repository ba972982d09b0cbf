// Package caddymodule is the Caddy face of Parlance: the app, the handler, the
// Caddyfile, and nothing of what they drive. Its job is to turn configuration
// into the values that package edge takes, and Caddy's lifecycle into calls on
// the hub that outlives it.
package caddymodule
