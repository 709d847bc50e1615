//go:build !unix

package indexer_test

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
