// Package doomslug decides when this node votes for the tip, when it skips heights, and when a block may be made.
//
//	in      Tip: a new canonical head; Tick: time passed; Vote: somebody's approval, its signature already checked
//	out     approvals to sign and send, with the height that must be on disk first; Ready: may a height be produced
//	state   votes by target height, one a validator and height; a timer; the largest height ever voted for
//	units   times in ns on any monotonic clock, heights in blocks, stake in yoctoNEAR
//	bound   targets tip .. tip+MaxAhead; one vote an account and height; MaxSteps approvals a tick
//	errors  votes out of range or of strangers are dropped, said by the result
//	source  nearcore chain/chain/src/doomslug.rs
package doomslug
