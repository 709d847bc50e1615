//go:build !unix

package apply

import "time"

// cpuTime returns 0 on systems where the processor time is not available.
func cpuTime() time.Duration { return 0 }
