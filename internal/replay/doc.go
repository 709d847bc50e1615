// Package replay runs chains that were recorded from neard through the engine and reports where the
// results differ.
//
//	in      a recording: JSON lines (see the types of recording.go), gzip or plain
//	out     a Report: what was compared, and the first differences with their path and both values
//	state   one engine on a database in memory or in a folder
//	bound   a recording is read into memory, at most MaxRecording bytes of it
//	errors  a recording that cannot be read; differences are not errors but findings
//	source  recordings of nearcore f0c7706f1
//
// The recording provides what a node cannot compute: timestamps, approvals, chunk masks, the order of
// transactions. Everything else is computed: each block and chunk is produced again on top of its
// parent, signed with the validator keys in the recording, and compared with the recorded one.
package replay
