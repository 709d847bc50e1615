//go:build !unix

package daemon

import "time"

// cpu reports nothing on systems without getrusage.
type cpu struct{ at time.Time }

func (c *cpu) percent(time.Time) float64 { return 0 }
