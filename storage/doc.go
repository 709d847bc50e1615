// Package storage keeps everything of a chain that outlives the process: blocks, chunks, outcomes, receipts, state
// changes, the flat state with its history, and the small indices that find them.
//
//	in      Block: all of one block, handed to Commit; folds, imports, reverts, garbage collection
//	out     Records (a stored block and its parts), values of the state at any kept block, scans, statistics
//	state   a folder: log/ (append-only segments, one record a block), index/ (goleveldb), FORMAT (who owns the folder)
//	units   heights in blocks, sizes in bytes, timestamps in nanoseconds since 1970
//	bound   memory: write buffer + block cache + the changes of the blocks that are not folded yet; disk: GC's horizon
//	errors  ErrNotFound, ErrGone: no such thing, no longer; ErrLocked, ErrForeign, ErrDamaged: the folder cannot be
//	        used; ErrFull: no room; ErrFailed: an earlier write failed, so nothing is written any more
//	source  reference libraries.md 4 (goleveldb), chain.md 9.5 (what is kept); the layout is our own
//
// # How a block reaches the disk
//
// Commit appends one record to the log and syncs it: that is the atomic step. A record holds everything of its block, in
// frames that are compressed and checked one by one. What the index says about a block (its place, height, chunk hashes)
// follows from the record, so the index needs no sync of its own: Open makes again, from the records behind the last
// synced fold, whatever a crash has cut from it. The bulk is therefore written once, where an LSM tree would write it four
// times (journal, level 0, level 1, level 2). CommitAll does so for several blocks with one sync; a power cut may then leave
// a later record whole and an earlier one torn, which the later one's type says, so that Open cuts both off.
//
// Fold moves the state forward: it takes the changes of blocks that became final, writes the last value of each key to
// Flat, leaves in Undo where the value before is to be found (in the record of the block that changed it), points from
// outcome ids to places, forgets the forks that lost, and replaces the frontier hashes. The history goes first, in small
// batches that are right with or without the rest; then one synced batch.
// A value at an old block is then one seek in Undo, for the first change above that block, or else a get in Flat.
//
// Garbage collection drops index entries height by height, and whole segments of the log.
package storage
