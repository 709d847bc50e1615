package compiler

import "time"

// Limits are what a compilation may take.
type Limits struct {
	CPU    time.Duration // processor time
	Memory int64         // bytes of writable memory, above what the child has before its first request
	Output int64         // bytes of the artifact
}

// BoundOf is what the compilation of a contract of size bytes is to take at most (docs/PERFORMANCE.md). More is worth an alarm.
func BoundOf(size int) Limits {
	kb := int64(size)/1024 + 1
	return Limits{
		CPU:    2*time.Second + time.Duration(kb)*1500*time.Microsecond,
		Memory: 256<<20 + max(kb-250, 0)<<20,
		Output: 1<<20 + kb<<15,
	}
}

// LimitsOf is where a compilation is ended: at four times its bound, since machines differ; sixteen times if a block waits for it
// and the first attempt came to its limits.
func LimitsOf(size int, again bool) Limits {
	l := BoundOf(size)
	factor := int64(4)
	if again {
		factor = 16
	}
	l.CPU *= time.Duration(factor)
	l.Memory = min(l.Memory*factor, 1<<40)
	l.Output = min(l.Output*factor, MaxReply)
	return l
}
