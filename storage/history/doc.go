// Package history stores blocks that are older than the blocks that a node has executed: documents of
// blocks that a feed has published and that were verified against the chain.
//
//	in      Append: the next lower block, with the progress of the walk that verified it
//	state   a folder: log/ (segments of records, one a block), index/ (goleveldb)
//	units   heights in blocks, sizes in bytes
//	bound   memory: two blocks that are written, Options.CacheBytes of decoded documents, maxDecoders
//	        documents that are being decoded, 42 MiB of the index; files: one segment that is
//	        written, maxDecoders that are read and maxTables tables; disk: all blocks, see Stats
//	errors  ErrNone: no such block; storage.ErrLocked, ErrForeign, ErrFormat, ErrDamaged: the folder
//	        cannot be used; storage.ErrFull: no room; storage.ErrOrder: not the next block
//	source  the layout is our own. The documents are nearcore's StreamerMessage
//	        (chain/indexer-primitives/src/lib.rs) without state changes, which nothing proves
//
// # How a block reaches the disk
//
// Problem: an import of years of blocks is killed now and then. After each kill it must continue at a
// block that is stored, without a gap and without a block that is stored twice.
//
// Outline: Append writes a record to the current segment and gathers the rows of the index. When
// enough blocks are gathered, or at Flush, the segment is synced, and then one synced batch adds the
// rows, the end of the log and the progress of the walk. That batch is the atomic step. Readers see
// only what is committed.
//
// Invariants: the rows, the blocks below the recorded end and the progress agree at each moment.
// Bytes after the recorded end were never committed: Open removes them. A segment that is shorter
// than recorded is damage. The blocks are contiguous: each is the parent of the block before it.
//
// Rejected: a file for each block, because a disk has fewer inodes than a chain has blocks; documents
// in the index, which would be rewritten at each level of it.
package history
