//go:build !unix

package apply

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
