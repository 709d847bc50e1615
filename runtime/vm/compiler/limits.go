package compiler

import "time"

// Limits bound one compilation.
type Limits struct {
	CPU    time.Duration // processor time
	Memory int64         // bytes of writable memory, beyond that of the child before its first request
	Output int64         // bytes of the artifact
}

// BoundOf returns the expected maximum for a contract of size bytes (docs/performance.md). A
// compilation that takes more is reported.
func BoundOf(size int) Limits {
	kb := int64(size)/1000 + 1
	return Limits{
		CPU:    2*time.Second + time.Duration(kb)*1500*time.Microsecond + time.Duration(max(kb-1000, 0))*time.Millisecond,
		Memory: 256<<20 + max(kb-250, 0)<<19,
		Output: 256<<10 + 100*int64(size),
	}
}

// inBackground is the memory that background compilations may take together: enough for one module
// that is hard to compile.
const inBackground = 256 << 20

// weightOf returns the memory that a compilation may need. The worst case measured is 1.9 KB per
// byte of wasm (docs/performance.md).
func weightOf(size int) int64 { return min(16<<20+2000*int64(size), BoundOf(size).Memory) }

// mostCPU is the processor time at which every compilation is ended.
const mostCPU = 3 * time.Minute

// LimitsOf returns the limits at which a compilation is ended. They are four times BoundOf, since
// machines differ; the memory limit is another 1 GiB higher, since mapped memory counts as used.
// again is set for the second attempt for a block, after the first attempt reached its limits. The
// second attempt gets four times as much.
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
