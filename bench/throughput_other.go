//go:build !linux

package bench

import "os"

// dropCached does nothing: this system has no portable way to remove a file from its cache.
func dropCached(*os.File) {}
