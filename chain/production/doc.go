// Package production decides at what pace blocks are made: at once, at Doomslug's own pace, or not yet.
//
//	in      Waiting: do transactions wait; Wanted: does somebody wait for blocks to be final; Accepted: a new head; Mine: so many
//	        blocks are asked for; Due: the next one is; SetRules: what to do from now on; Tick: time passed
//	out     Out: the pace, until when it holds by itself, and the interval between idle blocks
//	state   Scheduler: what is not final yet, blocks asked for, credit of blocks that may come at once
//	units   times in ns on any monotonic clock, heights in blocks
//	bound   constant time and memory; MaxMine blocks asked for
//	errors  ErrTooMany
//	source  our own; interval is what nearcore does
//
// Whether a block may be made at all is for package doomslug: the pace only says when this node votes for its tip. The modes:
//
//	interval  the pace of nearcore's delays
//	instant   at once as soon as a transaction waits and until all that was sent has run and, where somebody waits for that, is
//	          final; the blocks that make it final come after Linger else; then the interval
//	manual    only what is asked for by Mine
//
// Instant blocks must not outrun clients: a transaction names a block that it is valid for transaction_validity_period blocks
// after, and that period lasts at least MinWindow. So blocks have a credit of at most Burst, which fills up at the rate that
// keeps this promise. With the period of mainnet (86,400 blocks) this is never felt; with one of 100 blocks, 50 come at once
// and then one each 600 ms.
package production
