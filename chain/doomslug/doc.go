// Package doomslug decides when this node approves the tip, when it skips a height, and when it can
// produce a block.
//
//	in      Tip: there is a new head; Tick: time has passed; Vote: an approval with a verified
//	        signature
//	out     approvals to sign and send, each with the height that must be on disk first; Ready:
//	        whether a block of a height can be produced
//	state   approvals by target height, one per validator and height; a timer; the largest height
//	        ever approved
//	units   times in ns of a monotonic clock, heights in blocks, stakes in yoctoNEAR
//	bound   targets tip .. tip+MaxAhead; one approval per account and height; MaxSteps approvals
//	        per tick
//	errors  none: Vote returns false for approvals out of range or of accounts that are no approvers
//	source  nearcore chain/chain/src/doomslug.rs
package doomslug
