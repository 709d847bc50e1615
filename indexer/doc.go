// Package indexer hands the blocks of a NEAR chain to a function, one after the other: each with
// its chunks, transactions, receipts, outcomes and state changes, in the shape that nearcore's
// indexer framework has, byte for byte.
//
//	in      Config: a Source (URL: a running node; package indexer/node: one in this process),
//	        where to begin, how final blocks must be, which shards
//	out     calls of the Handler, in the order of the chain, one at a time
//	state   none: the consumer stores the cursor of a message with its own results and continues
//	        after it (FromInterruption)
//	units   heights in blocks
//	bound   what a source reads ahead: some messages, or 16 MiB; a consumer that is slow is waited
//	        for
//	errors  the Handler's own; stream.ErrGone, ErrAhead, ErrRefused; anything else is reported to
//	        OnTrouble and retried
//	source  nearcore chain/indexer/src/lib.rs
//
// A handler that stores the cursor in the same step as what it makes of the message sees each block
// exactly once, whatever dies between: it itself, the connection or the node. docs/guide/indexer.md
// has a whole one in thirty lines.
package indexer
