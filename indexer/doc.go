// Package indexer calls a function with the blocks of a NEAR chain, one after the other: each with
// its chunks, transactions, receipts, outcomes and state changes, as the JSON of nearcore's indexer
// framework, byte for byte.
//
//	in      Config: a Source (URL: a running node; package indexer/node: one in this process),
//	        the first block, the required finality, the shards
//	out     calls of the Handler, in the order of the chain, one at a time
//	state   none: the consumer stores the cursor of a message with its own results and continues
//	        after it (FromInterruption)
//	units   heights in blocks
//	bound   a source reads ahead at most some messages, or 16 MiB; then it waits for the consumer
//	errors  the Handler's own; stream.ErrGone, ErrAhead, ErrRefused; anything else is reported to
//	        OnTrouble and retried
//	source  nearcore chain/indexer/src/lib.rs
//
// A handler that stores the cursor in the same transaction as its results handles each block
// exactly once, even if the process, the connection or the node fails. docs/guide/indexer.md has a
// complete example in thirty lines.
package indexer
