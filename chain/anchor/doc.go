// Package anchor places chunk messages in the chain. From protocol feature EarlyKickout on, a
// chunk's producer depends on the parent of its parent, the anchor. Messages about a chunk arrive
// before its parent, so they name the anchor, and the receiver checks what they say against the
// blocks that it knows.
//
//	in      what a message says of its chunk; the blocks that the epoch manager knows
//	out     whether it is true, false, or cannot be decided before the parent arrives
//	state   Queue: messages that wait for the parent of their chunk
//	units   heights in blocks; bytes
//	bound   Queue: MaxQueued messages, MaxQueuedBytes; a quarter of both for each signer
//	errors  ErrWrong, ErrEarly, ErrForm
//	source  nearcore 2.14.0-rc.1 chain/chain/src/signature_verification.rs (key check); NEP-652
package anchor
