// Package production decides at what pace blocks are made: at once, at Doomslug's own pace, or not yet.
//
//	in      Waiting: do transactions wait; Wanted: does a client wait for blocks to be final; Voted: this
//	        node votes for its head; Accepted: a new head; Mine: so many blocks are asked for; Due: the next
//	        one is; SetRules: what to do from now on; Tick: time passed
//	out     Out: the pace, until when it holds by itself, and the interval of Free
//	state   Scheduler: what is not final yet, blocks asked for, credit of blocks that may come ahead of the interval
//	units   times in ns on any monotonic clock, heights in blocks
//	bound   constant time and memory; MaxMine blocks asked for
//	errors  ErrTooMany
//	source  our own; interval is what nearcore does
//
// Whether a block may be made at all is for package doomslug: the pace only says when this node votes for its tip. The modes:
//
//	interval  the pace of nearcore's delays: a vote for the head each Interval
//	instant   at once as soon as a transaction waits and until all that was sent has run and, where a
//	          client waits for that, is final; the blocks that make it final come after Linger else;
//	          beside that whatever interval mode would make
//	manual    only what is asked for by Mine
//
// Instant mode is never slower than interval mode: its n-th block comes when that of interval mode
// would come, or before. So it votes after Interval in any case. All that follows bounds only the blocks
// that come ahead of that.
//
// Instant blocks must not outrun clients: a transaction names a block, and is valid for
// transaction_validity_period blocks after it. So blocks ahead of the interval have a credit. It is Burst
// blocks at most, or half the period if that is less, and it fills by the rest of the period in MinWindow.
// A period of V blocks with a burst of B lasts (V - B) / (1/Interval + (V - B)/MinWindow) at least.
// With mainnet's period of 86,400 blocks of 600 ms these are 30 s, and the credit is never felt. With
// 100 blocks of 120 ms, 50 come at once and then, while there is work, one each 120 ms and one more each
// 600 ms; the period lasts 5 s at least (in interval mode 12 s). Rejected: a period that lasts 30 s
// whatever the interval is. It made a chain with short epochs slower than neard.
package production
