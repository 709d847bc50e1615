// Package badchunk stores a chunk that the node failed to apply in a file that can be run without
// the node's data, to debug the failure.
//
//	in      an *engine.ApplyFailure, while its block is held; files of a folder
//	out     File: the chunk's whole input, the state that it reads, and how it ended
//	state   none
//	units   heights in blocks, sizes in bytes
//	bound   MaxState of state in a file, MaxFiles in a folder, MaxFile for reading one
//	errors  ErrState if a run reads what the file does not contain; ErrFormat; those of the disk
//	source  our own
//
// A file contains the frontier of the shard's trie, which gives the root, and the subtrees that a
// second run of the chunk loaded, each of at most 64 KiB of memory usage. A corrected program runs
// past the point of the failure. It mostly finds what it reads, and otherwise ends with ErrState.
package badchunk
