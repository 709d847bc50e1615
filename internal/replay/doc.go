// Package replay runs chains that neard recorded through our own engine and says where ours
// differs.
//
//	in      a recording: JSON lines (see the types of recording.go), gzip or plain
//	out     a Report: what was compared, and the first differences with their path and both values
//	state   one engine on a database in memory or in a folder
//	bound   a recording is read into memory, at most MaxRecording bytes of it
//	errors  a recording that cannot be read; differences are not errors but findings
//	source  recordings of nearcore f0c7706f1
//
// What a node cannot know is taken from the recording (times, votes, masks, the order of
// transactions); everything else is computed, and every block and chunk is made again from its
// predecessor with the known validator keys.
package replay
