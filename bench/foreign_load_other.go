//go:build !linux

package bench

import "time"

// machineTime returns 0: it is not known on this system.
func machineTime() time.Duration { return 0 }
