// Package load generates load on a node, or on a part of one, and measures latency and throughput.
// The times at which operations start do not depend on how fast the target responds.
//
//	in      a Target (what does one thing and says when it is done), a Plan (rate, time, arrivals)
//	        or a Search for the knee
//	out     Phase and Knee: counts, latencies as HDR histograms of each second, errors; a Report
//	        of them as JSON, text and HTML; Compare
//	state   a run's own: the times at which things are due, one histogram for each second and
//	        worker
//	units   rates a second; in reports seconds, inside nanoseconds
//	bound   workers: so many things are under way at a time, others wait, and their wait counts;
//	        64 MiB of arrivals
//	errors  ErrStopped: the target answers no more; ErrNotNode, ErrPoor: it can't be loaded;
//	        errors of single things are counted by what they say
//	source  docs/guide/benchmarks.md; G. Tene, "How NOT to measure latency" (2015), for what
//	        coordinated omission is
package load
