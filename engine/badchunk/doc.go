// Package badchunk keeps a chunk that the node failed to apply as a file that runs by itself, so that whoever mends the failure can
// see it without the node's data.
//
//	in      an *engine.ApplyFailure, while its block is held; files of a folder
//	out     File: the chunk's whole input, what its run reads of the state, and how it ended
//	state   none
//	units   heights in blocks, sizes in bytes
//	bound   MaxState of state in a file, MaxFiles in a folder, MaxFile for reading one
//	errors  ErrState where a run reads what the file does not hold; those of the disk
//	source  our own
//
// Of the state a file has the frontier of the shard's trie, which gives the root, and the subtrees that a second run of the chunk
// loaded: at most 64 KiB of memory usage each. So a mended program, which goes on where the failed one stopped, mostly finds what it
// reads, and ends with ErrState where it does not.
package badchunk
