package caddymodule

import "fmt"

// noKind says what this version does not have, in the same words whether it
// stood in a Caddyfile or in JSON.
func noKind(kind string) string {
	return fmt.Sprintf("agents of kind %s come with a later version of Parlance: this one has agui, socket and echo", kind)
}

func noDialect(name string) string {
	return fmt.Sprintf("%s comes with a later version of Parlance: this one speaks pilotoo, pingerchips and smooth", name)
}

// later says of a word that it belongs to a dialect of a later version.
func later(word string) string {
	switch word {
	case "agui":
		return noDialect(word)
	}
	return ""
}
