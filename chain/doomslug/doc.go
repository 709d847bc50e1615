// Package doomslug decides when this node approves the tip, when it skips heights, and when a block
// may be produced.
//
//	in      Tip: a new canonical head; Tick: time passed; Vote: an approval with a verified signature
//	out     approvals to sign and send, with the height that must be on disk first; Ready: whether a
//	        height may be produced
//	state   votes by target height, one a validator and height; a timer; the largest height ever
//	        approved
//	units   times in ns on any monotonic clock, heights in blocks, stake in yoctoNEAR
//	bound   targets tip .. tip+MaxAhead; one vote an account and height; MaxSteps approvals a tick
//	errors  none: the result says whether a vote was taken; votes out of range or of accounts that
//	        are no approvers are not
//	source  nearcore chain/chain/src/doomslug.rs
package doomslug
