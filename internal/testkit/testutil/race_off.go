//go:build !race

package testutil

// Racing is whether the race detector is on. It makes everything ten times slower, so tests run
// fewer cases.
const Racing = false
