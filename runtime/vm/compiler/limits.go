package compiler

import "time"

// Limits bound one compilation.
type Limits struct {
	CPU    time.Duration // processor time
	Memory int64         // bytes of writable memory, beyond what the child uses before its first request
	Output int64         // maximum size of the artifact in bytes
}

// BoundOf returns the expected maximum for a contract of size bytes (docs/performance.md).
// Stats.OverBound counts the compilations that exceed BoundOf.
func BoundOf(size int) Limits {
	kb := int64(size)/1000 + 1
	return Limits{
		CPU:    2*time.Second + time.Duration(kb)*1500*time.Microsecond + time.Duration(max(kb-1000, 0))*time.Millisecond,
		Memory: 256<<20 + max(kb-250, 0)<<19,
		Output: 256<<10 + 100*int64(size),
	}
}

// inBackground is the memory limit of the gate for background compilations, in bytes. inBackground
// is enough for one module that is hard to compile.
const inBackground = 256 << 20

// weightOf returns the memory that a compilation may need. The worst case measured is 1.9 KB per
// byte of wasm (docs/performance.md).
func weightOf(size int) int64 { return min(16<<20+2000*int64(size), BoundOf(size).Memory) }

// mostCPU is the largest limit of processor time.
const mostCPU = 3 * time.Minute

// LimitsOf returns the limits at which a compilation is ended. Processor time and output are
// limited to four times BoundOf, because machines differ. The memory limit is BoundOf plus 1 GiB,
// because mapped memory counts as used. If again is set, the factor and the 1 GiB are four times as
// large. again means that a previous attempt of the job reached its limits or lacked memory.
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
