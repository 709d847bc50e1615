// Package messages holds the messages between actors: plain values, one file for each receiver.
//
//	in      nothing
//	out     structs, Sender, Asker
//	state   none
//	units   as in package primitives
//	bound   values do not change after sending; large ones are shared by pointer and read only
//	errors  none
//	source  our own
//
// Each message's comment names sender and receiver, the reply, and what a loss or a duplicate
// does. "net" is the network actor or the host of a test; "node" is package actors/node.
package messages

import "context"

// Sender delivers a message to one receiver. It never blocks and does not report delivery.
type Sender[M any] func(M)

// Asker sends a question and waits for the answer until the context ends.
type Asker[Q, R any] func(context.Context, Q) (R, error)
