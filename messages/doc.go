// Package messages holds what actors say to each other: plain values, one file for each receiver.
//
//	in      nothing
//	out     structs, Sender, Asker
//	state   none
//	units   as package primitives has them
//	bound   values are not changed after sending; large ones stand behind pointers that all only read
//	errors  none
//	source  our own
package messages

import "context"

// Sender delivers a message to one receiver. It never blocks and says nothing of arrival.
type Sender[M any] func(M)

// Asker sends a question and waits for the answer, at most until the context ends.
type Asker[Q, R any] func(context.Context, Q) (R, error)
