//go:build race

package pingerchips_test

const rounds = 10
