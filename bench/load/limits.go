package load

import "fmt"

// Limits are what the machine can do at most, measured in the run that figures are compared with.
type Limits struct {
	SHA256Seconds  float64 `json:"sha256_64B_seconds"`     // one hash of 64 bytes
	ED25519Seconds float64 `json:"ed25519_verify_seconds"` // one verification, the key known
	FsyncSeconds   float64 `json:"fsync_64KiB_seconds"`    // median of appending 64 KiB and syncing them
	// of an empty fasthttp handler over loopback, keep-alive
	HTTPRequests      float64 `json:"http_empty_per_second"`
	HTTPConnections   int     `json:"http_connections"`      // that asked at the same time
	MemoryReadSeconds float64 `json:"memory_random_seconds"` // one dependent read at random in 256 MiB
	// a byte to a thread that waits for it, which runs then; 0: not known on this system
	WakeSeconds float64 `json:"wake_seconds,omitempty"`
	// its 99th percentile beside one thread that computes all the time
	LateSeconds float64 `json:"wake_p99_busy_seconds,omitempty"`
}

// String is a line of a report.
func (l *Limits) String() string {
	micro := func(seconds float64) string { return fmt.Sprintf("%.3g us", seconds*1e6) }
	s := fmt.Sprintf("sha256 of 64 B %s, ed25519 verify %s, random memory read %s, fsync of 64 KiB %s, empty HTTP %.0f/s at %d connections",
		micro(l.SHA256Seconds), micro(l.ED25519Seconds), micro(l.MemoryReadSeconds), micro(l.FsyncSeconds), l.HTTPRequests, l.HTTPConnections)
	if l.WakeSeconds > 0 {
		s += fmt.Sprintf(", a thread woken after %s, beside a busy one p99 %s", micro(l.WakeSeconds), micro(l.LateSeconds))
	}
	return s
}
