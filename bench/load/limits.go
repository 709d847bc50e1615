package load

import "fmt"

// Limits are the speeds of the machine, measured in the same run. Reports compare the figures of
// the target with these limits.
type Limits struct {
	SHA256Seconds  float64 `json:"sha256_64B_seconds"`     // time of a hash of 64 bytes
	ED25519Seconds float64 `json:"ed25519_verify_seconds"` // time of a signature verification with a cached key
	FsyncSeconds   float64 `json:"fsync_64KiB_seconds"`    // median time to append 64 KiB to a file and sync the file
	// HTTPRequests is the number of requests per second to an empty fasthttp handler over loopback,
	// with keep-alive.
	HTTPRequests    float64 `json:"http_empty_per_second"`
	HTTPConnections int     `json:"http_connections"` // number of connections in the measurement of HTTPRequests
	// time of a random read in 256 MiB whose address depends on the previous read
	MemoryReadSeconds float64 `json:"memory_random_seconds"`
	// WakeSeconds is the median time to wake a thread that waits for a byte on a socket. 0: unknown
	// on this system.
	WakeSeconds float64 `json:"wake_seconds,omitempty"`
	// LateSeconds is the 99th percentile of this time while another thread computes.
	LateSeconds float64 `json:"wake_p99_busy_seconds,omitempty"`
}

// String returns the limits as one line of text.
func (l *Limits) String() string {
	micro := func(seconds float64) string { return fmt.Sprintf("%.3g us", seconds*1e6) }
	s := fmt.Sprintf("sha256 of 64 B %s, ed25519 verify %s, random memory read %s, fsync of 64 KiB %s, empty HTTP %.0f/s at %d connections",
		micro(l.SHA256Seconds), micro(l.ED25519Seconds), micro(l.MemoryReadSeconds), micro(l.FsyncSeconds), l.HTTPRequests, l.HTTPConnections)
	if l.WakeSeconds > 0 {
		s += fmt.Sprintf(", a thread woken after %s, beside a busy one p99 %s", micro(l.WakeSeconds), micro(l.LateSeconds))
	}
	return s
}
