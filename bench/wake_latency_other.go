//go:build !unix

package bench

// wake returns 0, because the latency is not measured on this system.
func wake() (median, late float64, err error) { return 0, 0, nil }
