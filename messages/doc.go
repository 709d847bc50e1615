// Package messages holds the messages between actors: plain values, one file for each receiver.
//
//	in      nothing
//	out     structs, Sender, Asker
//	state   none
//	units   as in package primitives
//	bound   values do not change after sending; large values are shared by pointer and read only
//	errors  none
//	source  our own
//
// The comment of each message names the sender, the receiver and the reply. The comment also
// describes the effect of a loss or a duplicate. "asked" means that the sender waits for the reply
// (Asker). "net" is the network actor, or a test in its place. "node" is package actors/node.
//
// The two stages of a block after its execution:
//
//	stage      the block is            message        engine                    readers see it
//	imported   in memory (the tip)     BlockImported  FinishImport, Engine.Tip  no
//	persisted  on disk too (the head)  BlockAccepted  Stored, Engine.Head       yes
package messages

import "context"

// Sender sends a message to one receiver. A Sender never blocks and does not report whether the
// message arrived.
type Sender[M any] func(M)

// Asker sends a question and waits for the answer until the context ends.
type Asker[Q, R any] func(context.Context, Q) (R, error)
