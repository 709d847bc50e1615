//go:build !unix

package bench

import "time"

// cpuTime returns 0: it is not known on this system.
func cpuTime() time.Duration { return 0 }
