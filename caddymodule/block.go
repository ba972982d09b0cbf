package caddymodule

import (
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// option reads what stands behind its word. Many allows it to stand more than
// once in a block.
type option struct {
	read func() error
	many bool
}

// once is an option that may stand once, many one that may be repeated.
func once(read func() error) option { return option{read: read} }
func many(read func() error) option { return option{read: read, many: true} }

// readBlock reads the block that may open next on d's line. Each word must be one
// of the options; unknown says, for some that are not, what to tell about them.
func readBlock(d *caddyfile.Dispenser, what string, options map[string]option, unknown func(word string) string) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word := d.Val()
		o, ok := options[word]
		if !ok {
			if word == "{" {
				return d.Err("a block opens where none can be")
			}
			if unknown != nil {
				if text := unknown(word); text != "" {
					return d.Err(text)
				}
			}
			return d.Errf("unrecognized option %q of %s", word, what)
		}
		if seen[word] && !o.many {
			return d.Errf("%s is there twice in %s", word, what)
		}
		seen[word] = true
		if err := o.read(); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// text reads exactly one argument, which is not empty.
func text(d *caddyfile.Dispenser, v *string) option {
	return once(func() error {
		if !d.NextArg() || d.Val() == "" {
			return d.ArgErr()
		}
		*v = d.Val()
		return nil
	})
}

// texts appends one or more arguments.
func texts(d *caddyfile.Dispenser, v *[]string) option {
	return many(func() error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		*v = append(*v, args...)
		return nil
	})
}

// flag is a word without arguments.
func flag(v *bool) option {
	return once(func() error {
		*v = true
		return nil
	})
}

// duration reads a time such as 30s; where none is allowed, the word none is
// no limit.
func duration(d *caddyfile.Dispenser, v *caddy.Duration, none bool) option {
	return once(func() error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		if none && d.Val() == "none" {
			*v = -1
			return nil
		}
		t, err := caddy.ParseDuration(d.Val())
		if err != nil || t <= 0 {
			return d.Errf("%q is no time: write it like 30s or 2m", d.Val())
		}
		*v = caddy.Duration(t)
		return nil
	})
}

// number reads a whole number above 0.
func number(d *caddyfile.Dispenser, v *int) option {
	return once(func() error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		n, err := strconv.Atoi(d.Val())
		if err != nil || n <= 0 {
			return d.Errf("%q is no whole number above 0", d.Val())
		}
		*v = n
		return nil
	})
}

// rate reads a number above 0.
func rate(d *caddyfile.Dispenser, v *float64) option {
	return once(func() error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		n, err := strconv.ParseFloat(d.Val(), 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return d.Errf("%q is no number above 0", d.Val())
		}
		*v = n
		return nil
	})
}

// size reads a number of bytes such as 60MiB.
func size[T int | int64](d *caddyfile.Dispenser, v *T) option {
	return once(func() error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		n, err := humanize.ParseBytes(d.Val())
		if err != nil || n == 0 || n > math.MaxInt32 {
			return d.Errf("%q is no size below 2GiB: write it like 60MiB", d.Val())
		}
		*v = T(n)
		return nil
	})
}
