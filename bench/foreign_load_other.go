//go:build !linux

package bench

import "time"

// machineTime returns 0, because the time is unknown on this system.
func machineTime() time.Duration { return 0 }
