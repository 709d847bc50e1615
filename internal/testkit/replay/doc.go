// Package replay runs chains that were recorded from neard through the engine and reports where the
// results differ.
//
//	in      a recording: JSON lines (see the types of recording.go), gzip or plain
//	out     a Report: what was compared, and the first differences with their path and both values
//	state   one engine on a database in memory or in a folder
//	bound   a recording is read into memory, at most MaxRecording bytes of it
//	errors  a recording that cannot be read. Differences are in the Report
//	source  recordings of nearcore f0c7706f1
//
// The recording provides what a node cannot compute: timestamps, approvals, chunk masks, the order
// of transactions. Run computes everything else. It produces each block and chunk again on top of
// its parent, signs it with the validator keys in the recording, and compares it with the recorded
// one.
package replay
