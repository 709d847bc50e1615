// Package badchunk stores a chunk that the node failed to apply in a file. To debug the failure,
// the chunk can be applied from the file without the node's data.
//
//	in      an *engine.ApplyFailure, while its block is held; files of a folder
//	out     File: the chunk's whole input, the state that it reads, and how it failed
//	state   none
//	units   heights in blocks, sizes in bytes
//	bound   MaxState: state in a file; MaxFiles: files in a folder; MaxFile: file that is read
//	errors  ErrState: the run needs state that the file does not contain; ErrFormat; errors of
//	        the disk
//	source  our own
//
// A file contains the frontier of the shard's trie, which determines the state root, and the
// subtrees that a second run of the chunk loaded, each with a memory usage of at most 64 KiB. A
// corrected program runs past the point of the failure. Usually the file contains the state that
// the program reads there; otherwise the run ends with ErrState.
package badchunk
