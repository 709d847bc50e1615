package compiler

import "time"

// Limits are what a compilation may take.
type Limits struct {
	CPU    time.Duration // processor time
	Memory int64         // bytes of writable memory, above what the child has before its first request
	Output int64         // bytes of the artifact
}

// BoundOf is what the compilation of a contract of size bytes is to take at most
// (docs/performance.md). More is worth an alarm.
func BoundOf(size int) Limits {
	kb := int64(size)/1000 + 1
	return Limits{
		CPU:    2*time.Second + time.Duration(kb)*1500*time.Microsecond + time.Duration(max(kb-1000, 0))*time.Millisecond,
		Memory: 256<<20 + max(kb-250, 0)<<19,
		Output: 256<<10 + 100*int64(size),
	}
}

// inBackground is the memory that compilations in the background may take together: of what is hard
// to compile, one.
const inBackground = 256 << 20

// weightOf is the memory that a compilation may need: the worst that was found takes 1.9 KB for a
// byte of wasm (docs/performance.md).
func weightOf(size int) int64 { return min(16<<20+2000*int64(size), BoundOf(size).Memory) }

// mostCPU is where any compilation is ended.
const mostCPU = 3 * time.Minute

// LimitsOf is where a compilation is ended: at four times its bound, since machines differ, and 1
// GiB above it in memory, since what is mapped is more than what is used; at four times as much if
// a block waits for it and the first attempt came to its limits.
func LimitsOf(size int, again bool) Limits {
	l := BoundOf(size)
	factor := int64(4)
	if again {
		factor = 16
	}
	l.CPU = min(l.CPU*time.Duration(factor), mostCPU)
	l.Memory += factor << 28
	l.Output = min(l.Output*factor, MaxReply)
	return l
}
