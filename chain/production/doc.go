// Package production determines the pace of block production: at once, at Doomslug's own pace, or
// not yet.
//
//	in      Waiting: whether transactions wait; Wanted: whether a client waits for finality; Voted:
//	        this node approves its head; Accepted: a new head; Mine: a number of blocks is requested;
//	        Due: the next block is requested; SetRules: new rules; Tick: time passed
//	out     Out: the pace, how long it holds without an event, and the interval of Free
//	state   Scheduler: unfinalized work, requested blocks, credit for blocks ahead of the interval
//	units   times in ns on any monotonic clock, heights in blocks
//	bound   constant time and memory; MaxMine requested blocks
//	errors  ErrTooMany
//	source  our own; mode interval does what nearcore does
//
// Package doomslug decides whether a block may be produced at all. The pace only says when this
// node approves its tip. The modes:
//
//	interval  the pace of nearcore's delays: an approval of the head each Interval
//	instant   at once as soon as a transaction waits and until everything sent was executed and, if a
//	          client waits for that, is final; otherwise the blocks that finalize it come after
//	          Linger;
//	          besides that whatever interval mode would produce
//	manual    only what Mine requests
//
// Instant mode is never slower than interval mode: its n-th block comes when that of interval mode
// would come, or before. So it approves after Interval in any case. All that follows bounds only
// the blocks that come ahead of that.
//
// Instant blocks must not outrun clients: a transaction names a block, and is valid for
// transaction_validity_period blocks after it. So blocks ahead of the interval use a credit. It is
// Burst blocks at most, or half the period if that is less, and it fills by the rest of the period
// in MinWindow. A period of V blocks with a burst of B lasts (V - B) / (1/Interval + (V -
// B)/MinWindow) at least. With mainnet's period of 86,400 blocks of 600 ms these are 30 s, and the
// credit is never exhausted. With 100 blocks of 120 ms, 50 come at once and then, while there is
// work, one each 120 ms and one more each 600 ms; the period lasts 5 s at least (in interval mode
// 12 s). Rejected: a period that lasts 30 s whatever the interval is. It made a chain with short
// epochs slower than neard.
package production
