// Package anchor checks chunk messages by the anchor that they contain. From protocol feature
// EarlyKickout on, a chunk's producer depends on the anchor: the parent of the chunk's previous
// block. Messages about a chunk may arrive before its previous block, which this package calls the
// parent. So these messages contain the anchor. The receiver checks the anchor, and the chunk's
// height and epoch, against the blocks that the receiver knows.
//
//	in      the key and anchor in a message about a chunk; the blocks that the epoch manager knows
//	out     whether they are right, wrong, or cannot be checked before the parent arrives
//	state   Queue: messages that wait for the parent of their chunk
//	units   heights in blocks; bytes
//	bound   Queue: MaxQueued messages, MaxQueuedBytes; a quarter of both for each signer
//	errors  ErrWrong, ErrEarly, ErrForm
//	source  nearcore 2.14.0-rc.1 chain/chain/src/signature_verification.rs (key check); NEP-652
package anchor
