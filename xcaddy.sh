#!/usr/bin/env bash
# One verb for each thing a person does here; `./xcaddy.sh help` lists them.
set -euo pipefail
cd "$(dirname "$0")"

CADDY_VERSION=v2.11.9
XCADDY_VERSION=v0.4.5
GOFUMPT_VERSION=v0.12.0
STATICCHECK_VERSION=v0.8.2

PLATFORMS=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}

cache=.cache
binary=$cache/caddy

say() { printf '==> %s\n' "$*" >&2; }
die() {
	printf 'xcaddy.sh: %s\n' "$*" >&2
	exit 1
}

help() {
	cat <<'TXT'
usage: ./xcaddy.sh VERB

  run            build Caddy with Parlance and serve Caddyfile.example
                 (PORT, default 8080; PARLANCE_DATA, where threads are kept)
  build [OUT]    build Caddy with Parlance; OUT defaults to ./caddy
  test [ARGS]    run every test, or `go test` with ARGS; installs what is missing
  bench          run the benchmarks and print them as one table
  lint           formatting, vet, static analysis, go.mod, the shell scripts,
                 and a build for each of PLATFORMS
  help           this text
TXT
}

# need COMMAND WHAT-FOR: a tool that this script cannot install itself.
need() { command -v "$1" >/dev/null || die "$1 is missing ($2): install it and try again"; }

apt_updated=no
# install_debian COMMAND PACKAGE: from the distribution, where that is possible.
install_debian() {
	command -v "$1" >/dev/null && return
	command -v apt-get >/dev/null || die "$1 is missing and there is no apt-get here: install it and try again"
	[ "$(id -u)" = 0 ] || die "$1 is missing and only root can install it: run 'sudo apt-get install $2', then try again"
	say "installing $2"
	mkdir -p $cache
	export DEBIAN_FRONTEND=noninteractive
	if ! { [ $apt_updated = yes ] || apt-get update; } >$cache/apt.log 2>&1 ||
		! apt-get install -y --no-install-recommends "$2" >>$cache/apt.log 2>&1; then
		cat $cache/apt.log >&2
		die "apt-get could not install $2; its output is above"
	fi
	apt_updated=yes
}

# --- build ------------------------------------------------------------------

stale() {
	[ ! -x $binary ] || [ -n "$(find go.mod go.sum xcaddy.sh caddymodule internal \
		-name testdata -prune -o -name '*_test.go' -prune -o -newer $binary -print)" ]
}

# The module cache is filled and checked against go.sum first; then xcaddy works
# without a network. Online, the bare `go get` in its temporary module asks about
# module paths that do not exist, and a strict proxy answers that with an error.
warm_modules() {
	local stamp=$cache/modules.sum
	cmp -s go.sum $stamp && return
	say "fetching and verifying modules"
	go mod download
	go mod verify >&2
	cp go.sum $stamp
}

build_cached() {
	need go "https://go.dev/dl"
	local module required xcaddy=$cache/xcaddy-$XCADDY_VERSION
	module=$(go list -m)
	required=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
	[ "$required" = "$CADDY_VERSION" ] ||
		die "go.mod requires Caddy $required, but CADDY_VERSION here is $CADDY_VERSION: make them equal"
	stale || return 0

	mkdir -p $cache
	if [ ! -x "$xcaddy" ]; then
		say "installing xcaddy $XCADDY_VERSION"
		GOBIN=$PWD/$cache go install "github.com/caddyserver/xcaddy/cmd/xcaddy@$XCADDY_VERSION"
		mv $cache/xcaddy "$xcaddy"
	fi
	warm_modules
	say "building Caddy $CADDY_VERSION with $module (the first time takes minutes)"
	if ! GOPROXY=off GOSUMDB=off "$xcaddy" build "$CADDY_VERSION" \
		--with "$module/caddymodule" --replace "$module=." --output $binary.new >$cache/build.log 2>&1; then
		cat $cache/build.log >&2
		rm -f $cache/modules.sum # should the module cache have been emptied since
		die "the build failed; its output is above"
	fi
	$binary.new list-modules >$cache/modules.txt
	grep -qx http.handlers.parlance $cache/modules.txt ||
		die "the new Caddy lacks http.handlers.parlance: does caddymodule register it?"
	mv $binary.new $binary
}

build() {
	local out=${1:-caddy}
	build_cached
	cp $binary "$out"
	say "built $out"
}

# --- run --------------------------------------------------------------------

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

announce() {
	until listening; do
		kill -0 $$ 2>/dev/null || return
		sleep 0.1
	done
	say "open http://127.0.0.1:$PORT/ (Ctrl-C stops)"
}

run() {
	export PORT=${PORT:-8080}
	case $PORT in *[!0-9]*) die "PORT must be a number, not '$PORT'" ;; esac
	export PARLANCE_DATA=${PARLANCE_DATA:-${XDG_DATA_HOME:-$HOME/.local/share}/parlance}
	# Asked before the build, so that nobody waits minutes for this answer.
	if listening; then
		die "port $PORT is taken: choose another with PORT=8081 ./xcaddy.sh run"
	fi
	build_cached
	(umask 077 && mkdir -p "$PARLANCE_DATA")
	say "threads are kept in $PARLANCE_DATA"
	announce &
	exec $binary run --config Caddyfile.example --adapter caddyfile
}

# --- test -------------------------------------------------------------------

# node_modules DIR: what DIR's lock file says, no more and no less.
node_modules() {
	[ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ] && return
	say "npm ci in $1"
	(cd "$1" && npm ci --loglevel=error >&2)
}

find_chromium() {
	local name
	for name in "${CHROMIUM:-chromium}" chromium chromium-browser google-chrome; do
		if command -v "$name" >/dev/null; then
			CHROMIUM=$(command -v "$name")
			return
		fi
	done
	install_debian chromium chromium
	CHROMIUM=$(command -v chromium)
}

prepare_e2e() {
	need node "Node 20 or newer"
	need npm "it comes with Node"
	local lock
	while IFS= read -r lock; do
		node_modules "$(dirname "$lock")"
	done < <(find internal -name node_modules -prune -o -name package-lock.json -print)
	find_chromium
	export CHROMIUM
}

prepare_tests() {
	need go "https://go.dev/dl"
	need "$(go env CC)" "the race detector needs a C compiler"
	local all=no e2e=no redis=no arg
	for arg; do
		case $arg in
		./... | ./internal/...) all=yes ;;
		*e2e*) e2e=yes ;;
		*redisjournal* | ./internal/journal/...) redis=yes ;;
		esac
	done
	if [ $all = yes ] || [ $e2e = yes ]; then
		prepare_e2e
	fi
	if [ -d internal/journal/redisjournal ] && { [ $all = yes ] || [ $redis = yes ]; }; then
		install_debian redis-server redis-server
	fi
}

run_tests() {
	if [ $# = 0 ]; then
		# The whole processes come first: they take the longest and wait the most, so
		# all other packages run beside them. What go vet says is asked for below.
		set -- -vet=off ./internal/e2e ./...
		prepare_tests "$@"
		say "go vet"
		go vet ./...
		# The simulation has one goroutine: without the race detector, which has
		# nothing to look for there, it plays many times as many histories.
		say "simulation"
		go test -count=1 ./internal/sim
	else
		prepare_tests "$@"
	fi
	say "go test -race $*"
	CGO_ENABLED=1 go test -race -count=1 -timeout 40m "$@"
}

# --- bench ------------------------------------------------------------------

# table: lines of `go test -bench` as aligned columns; figures keep their units.
table() {
	awk '/^Benchmark/ {
		printf "%-56s", $1
		for (i = 3; i < NF; i += 2) printf "  %14s %-12s", $i, $(i + 1)
		print ""
	}'
}

bench() {
	need go "https://go.dev/dl"
	mkdir -p $cache
	local log=$cache/bench.txt dir e2e=no packages=()
	while IFS= read -r dir; do
		case $dir in
		internal/e2e) e2e=yes ;;
		*) packages+=("./$dir") ;;
		esac
	done < <(find caddymodule internal -name '*_test.go' -exec grep -l '^func Benchmark' {} + |
		sed 's|/[^/]*$||' | sort -u)
	install_debian redis-server redis-server
	: >$log
	if [ ${#packages[@]} -gt 0 ]; then
		say "benchmarks: ${packages[*]}"
		go test -run '^$' -bench . -benchmem "${packages[@]}" | tee -a $log >&2
	fi
	# A whole process is measured once: each of these benchmarks repeats by itself.
	if [ $e2e = yes ]; then
		say "whole-process benchmarks"
		go test -run '^$' -bench . -benchtime 1x -timeout 20m ./internal/e2e | tee -a $log >&2
	fi
	table <$log
}

# --- lint -------------------------------------------------------------------

failed=0
# check NAME COMMAND...: passes if the command succeeds; says which one did not.
check() {
	local name=$1
	shift
	say "$name"
	"$@" || {
		failed=1
		printf 'xcaddy.sh: %s failed\n' "$name" >&2
	}
}

# silent COMMAND...: for tools that list what is wrong and still exit with 0.
silent() {
	local out
	out=$("$@") || return
	[ -z "$out" ] || {
		printf '%s\n' "$out"
		return 1
	}
}

scripts() {
	bash -n xcaddy.sh && bash -n .ci/run
	if command -v shellcheck >/dev/null; then shellcheck xcaddy.sh .ci/run; fi
}

for_platform() { CGO_ENABLED=0 GOOS=$1 GOARCH=$2 go build ./internal/... ./caddymodule/...; }

lint() {
	need go "https://go.dev/dl"
	check gofmt silent gofmt -l caddymodule internal
	check gofumpt silent go run "mvdan.cc/gofumpt@$GOFUMPT_VERSION" -l caddymodule internal
	check "shell syntax" scripts
	check "go mod tidy" go mod tidy -diff
	check "go vet" go vet ./...
	check staticcheck go run "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK_VERSION" ./...
	if command -v golangci-lint >/dev/null; then check golangci-lint golangci-lint run; fi
	local platform
	for platform in $PLATFORMS; do
		check "build for $platform" for_platform "${platform%/*}" "${platform#*/}"
	done
	[ $failed = 0 ] || die "lint found something; see above"
}

# ----------------------------------------------------------------------------

verb=${1:-help}
[ $# -eq 0 ] || shift
case $verb in
run | build | bench | lint | help) "$verb" "$@" ;;
test) run_tests "$@" ;;
*) die "unknown verb '$verb': use run, build, test, bench, lint or help" ;;
esac
