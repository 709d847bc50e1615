//go:build !linux

package bench

import "time"

// machineTime is not known here.
func machineTime() time.Duration { return 0 }
