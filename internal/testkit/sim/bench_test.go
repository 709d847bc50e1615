//go:build unix

package sim

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// spent is the processor's time that this process has had, the system's not counted.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// BenchmarkFaultlessValidators measures how much faster than their virtual clock four validators of four shards
// run. It counts processor time instead of wall time, so that other load of the machine matters
// little.
func BenchmarkFaultlessValidators(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	s, err := ScenarioOf("calm", 0)
	if err != nil {
		b.Fatal(err)
	}
	began, virtual, seed := spent(b), int64(0), uint64(0)
	for b.Loop() {
		r, err := Run(Options{Seed: seed, Scenario: s})
		if err != nil || r.Violation != nil {
			b.Fatal(err, r.Violation)
		}
		virtual += r.Time
		seed++
	}
	b.ReportMetric(float64(virtual)/float64(spent(b)-began), "times")
}
