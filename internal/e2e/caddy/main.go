// Command caddy is Caddy's standard build with Parlance in it, for tests that
// need a whole process. Users get theirs from xcaddy.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/parlance-gateway/parlance/caddymodule"
)

func main() { caddycmd.Main() }
