// Package production decides how fast this node produces blocks: at once, with Doomslug's delays,
// or not at all for now.
//
//	in      Waiting: whether transactions wait; Wanted: whether a client waits for finality; Voted:
//	        this node approves its head; Accepted: a new head; Mine: a number of blocks is requested;
//	        Due: the next block is requested; SetRules: new rules; Tick: time passed
//	out     Out: the pace, how long it applies without an event, and the interval for Free
//	state   Scheduler: work that is not final, requested blocks, credit for blocks ahead of the
//	        interval
//	units   times in ns on any monotonic clock, heights in blocks
//	bound   constant time and memory; MaxMine requested blocks
//	errors  ErrTooMany
//	source  our own; interval mode does what nearcore does
//
// Package doomslug decides whether a block may be produced at all. The pace only determines when
// this node approves its tip. The modes:
//
//	interval  as with nearcore's delays: the node approves its head once each Interval
//	instant   blocks are produced at once from when a transaction waits until everything sent was
//	          executed. If a client waits for finality, this continues until the work is final.
//	          Otherwise the blocks that finalize the work follow, also at once, after Linger.
//	          In addition there are the blocks of interval mode.
//	manual    only the blocks that Mine requests
//
// Instant mode is never slower than interval mode: the node approves its head after Interval in any
// case, so its n-th block is produced no later than in interval mode. The following bound applies
// only to blocks that are produced earlier than that.
//
// Instant blocks must not make clients' transactions expire. A transaction contains the hash of a
// block, and is valid for transaction_validity_period blocks after it. So blocks ahead of the
// interval use a credit. The maximum credit is Burst blocks, or half the period if that is less.
// Credit for the rest of the period accrues in MinWindow. With a period of V blocks and a burst of
// B blocks, the period lasts at least (V - B) / (1/Interval + (V - B)/MinWindow).
//
// With mainnet's period of 86,400 blocks of 600 ms that is 30 s, and the credit is never exhausted.
// With 100 blocks of 120 ms, 50 blocks are produced at once. After that, while there is work, one
// block is produced each 120 ms and one more each 600 ms. The period then lasts at least 5 s (in
// interval mode 12 s). Rejected: a period that lasts 30 s for any interval. It made a chain with
// short epochs slower than neard.
package production
