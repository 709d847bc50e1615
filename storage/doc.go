// Package storage keeps everything of a chain that outlives the process: blocks, chunks, outcomes, receipts, state
// changes, the flat state with its history, and the small indices that find them.
//
//	in      Block: all of one block, handed to Commit; folds, imports, garbage collection
//	out     Records (a stored block and its parts), values of the state at any kept block, scans, statistics
//	state   a folder: log/ (append-only segments, one record a block), index/ (goleveldb), FORMAT (who owns the folder)
//	units   heights in blocks, sizes in bytes, timestamps in nanoseconds since 1970
//	bound   memory: write buffer + block cache + the changes of the blocks that are not folded yet + 4 MiB of what was folded lately; disk: GC's horizon
//	errors  ErrNotFound, ErrGone: no such thing, no longer; ErrLocked, ErrForeign, ErrDamaged: the folder cannot be
//	        used; ErrFull: no room; ErrFailed: an earlier write failed, so nothing is written any more
//	source  reference libraries.md 4 (goleveldb), chain.md 9.5 (what is kept); the layout is our own
//
// # How a block reaches the disk
//
// Commit appends one record to the log and syncs it: that is the atomic step, and the only write. A record holds everything of its
// block, in frames that are compressed and checked one by one, packed and unpacked. The bulk is therefore written once, where an
// LSM tree would write it four times (journal, level 0, level 1, level 2). CommitAll does so for several blocks with one sync; a power
// cut may then leave a later record whole and an earlier one torn, which the later one's type says, so that Open cuts both
// off. Rows of the engine's own that belong to no block (Write) are records too.
//
// The head may go back to a block above the folded one (rewind.go): that is a record of its own.
//
// What is above the folded block is in memory, as a tree of blocks (block_tree.go), whatever branch it is on: what a block is called, where
// its ids stand, what it changed, which rows it puts. Open makes the tree again from the log. A commit costs the same whether two
// blocks wait for finality or ten thousand.
//
// Of blocks far above the folded one the memory has no more than what finds them (block_evict.go): the newest 1,024, or 32 MiB of
// changes, have all they did.
//
// Fold is what writes to the index: for the blocks that became final their places and names, the last value of each key to
// Flat, in Undo where the value before is to be found (in the record of the block that changed it), pointers from outcome ids,
// the frontier's hashes, and from where on in the log the next Open has to read. What does not hurt without the rest goes first, in
// pieces, and is synced; then the rest as one synced batch. So the index is always that of some fold, and needs nothing of its
// engine but that a synced write lasts and that a batch is whole or absent (index_sequence.go). Forks that lose never come to the index.
//
// A receipt is found where it was sent, and where a chunk took it off its queue; what made it is stored only where neither that block's outcomes
// nor its outgoing receipts tell (Origin).
//
// Who has waited for something asks for it just then: the places of the outcomes of what was folded lately stay in memory (outcome_recent.go), and who knows that an
// id is of no block before these is not led through the index, where a look costs the more the longer the chain is.
//
// A shard may stand elsewhere than the others (shard_stage.go, shard_catchup.go, shard_untrack.go): it comes in as pairs at a folded block, gets what the blocks behind
// that did in it by records of its own, goes with the others when it has come to the folded block, and leaves by the range of its accounts.
//
// A value at an old block is a seek in Undo in each era above it, for the first change above that block, or else a get in Flat.
//
// Garbage collection drops blocks' entries height by height, history era by era (history_bucket.go), and whole segments of the log. It reads no record.
//
// Headers ahead of the blocks (block_headers.go) are in no record; their rows are written in synced batches of their own.
package storage
