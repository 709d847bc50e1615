// Package load generates load on a node, or on a part of one, and measures latency and throughput.
// The times at which operations start do not depend on how fast the target responds.
//
//	in      a Target (performs one operation and returns when it is complete), a Plan (rate,
//	        time, arrivals) or a Search for the knee
//	out     Phase and Knee: counts, latencies as HDR histograms of each second, errors; a Report
//	        of them as JSON, text and HTML; Compare
//	state   a run's own: the times at which things are due, one histogram for each second and
//	        worker
//	units   rates a second; times in seconds in reports, otherwise in nanoseconds
//	bound   workers: the number of concurrent operations. Others wait, which counts as latency;
//	        64 MiB of arrivals
//	errors  ErrStopped: the target no longer answers; ErrNotNode, ErrPoor: no load is possible;
//	        errors of single operations are counted by their text
//	source  docs/guide/benchmarks.md; G. Tene, "How NOT to measure latency" (2015), for what
//	        coordinated omission is
package load
