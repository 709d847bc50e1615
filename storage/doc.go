// Package storage keeps everything of a chain that outlives the process: blocks, chunks, outcomes,
// receipts, state changes, the flat state with its history, and the indices that find them.
//
//	in      Block: all of one block, handed to Commit; AdvanceFlatHead; imports, garbage collection
//	state   a folder: log/ (append-only segments, one record a block), index/ (goleveldb),
//	        FORMAT (owner and version)
//	units   heights in blocks, sizes in bytes, timestamps in nanoseconds since 1970
//	bound   memory: write buffer, block cache, changes above the flat head, 4 MiB of recent
//	        outcomes; disk: the horizon of garbage collection
//	errors  ErrNotFound, ErrGone: absent, collected; ErrLocked, ErrForeign, ErrDamaged: the folder
//	        cannot be used; ErrFull: no room; ErrFailed: an earlier write failed, no more writes
//	source  the layout is our own, docs/design/storage.md; what is kept follows nearcore
//	        core/store/src/columns.rs
//
// # How a block reaches the disk
//
// Commit appends one record to the log and syncs it. That is the atomic step and the only write. A
// record holds everything of its block, in frames that are compressed and checked one by one. Most
// data is therefore written once, whereas an LSM tree would write it four times (journal, levels 0,
// 1 and 2). CommitAll writes several blocks with one sync: see log.go. The log also has records for
// rows of the engine that belong to no block (Write), and for a return of the head to an older
// block (rewind.go).
//
// Everything above the flat head is in memory, as a tree of blocks on all branches (block_tree.go).
// Open rebuilds the tree from the log. A commit costs the same whether two blocks wait for finality
// or ten thousand. Bodies of older blocks are evicted (block_evict.go).
//
// AdvanceFlatHead writes to the index (flat_head.go). It writes names and places of the blocks that
// became final, the last value of each key, the location of each older value (history_bucket.go),
// and the hashes of the frontier. The index always describes the state at one block, the flat head.
// It relies on only two properties of goleveldb: a synced write is durable, and a batch is applied
// whole or not at all (index_sequence.go). Abandoned branches never reach the index.
//
// # How things are found
//
// A receipt is found in the chunk that sent it, and in a chunk that took it off its queue. The
// transaction or receipt that created it is stored (Origin) only if it follows neither from the
// outcomes nor from the outgoing receipts of the creating block. Places of recent outcomes stay in
// memory (outcome_recent.go), because clients request them just after their block was imported.
//
// To read a value at an older block, a reader seeks in Undo, in each history bucket from that block
// on, for the first later change. If there is none, the value is the one in Flat.
//
// # What else is here
//
// Single shards may have the state of another block than the flat head (shard_stage.go,
// shard_catchup.go, shard_untrack.go). Garbage collection (gc.go) works without reading records.
// Headers that are ahead of the blocks are in no record: their rows are written in synced batches
// of their own (block_headers.go).
//
// # Parts
//
// These types own their data, and Store holds each in one field or makes it on request:
//
//	DiskSpace     room on the disk, waits for room (disk_space.go)
//	Finder        places of transactions, receipts, outcomes and chunks by ID (lookup.go)
//	LogReader     records of the log in their order, and their check (log_ship.go)
//	collection    one call of CollectGarbage (gc.go)
//	staleState    the stale index (index_stale.go)
//	snapshotPool  the newest snapshot of the index, and its cursors (index_snapshot.go)
//	bucketList    the list of history buckets (history_bucket.go)
//
// Functions that read or write only rows take the index as an argument.
//
// The other 140 methods of Store stay together for three reasons. They publish one value, the view,
// which readers load once. They hold indexMu, commitMu or both in one order. Each of their writes to
// the index is a step whose number must follow that of the step before (index_sequence.go).
// State snapshots and staged shards have rows of their own, but take both the locks and steps: as
// parts, each would need an interface with most of what Store hides now. The recovery and the import
// build the very fields that a part would receive.
package storage
