package production

import (
	"errors"
	"fmt"
	"math"

	"github.com/troupe-chain/troupe/primitives"
)

// Mode determines when blocks are produced. See the package comment.
type Mode byte

const (
	Instant Mode = iota
	Interval
	Manual
)

// String returns the mode's name in config.json.
func (m Mode) String() string { return [...]string{"instant", "interval", "manual"}[m] }

const (
	Burst     = 50             // maximum credit, in blocks that are produced ahead of the interval
	MinWindow = 30_000_000_000 // ns in which credit for transaction_validity_period blocks accrues
	MaxMine   = 1_000_000      // maximum number of blocks that are requested and not produced yet
)

// ErrTooMany means that more than MaxMine blocks were requested.
var ErrTooMany = errors.New("production: too many blocks requested")

// Rules configure a Scheduler. After New only SetRules changes them.
type Rules struct {
	Mode     Mode
	Interval int64             // ns between two approvals of the head; not used in manual mode
	Validity primitives.Height // transaction_validity_period of the genesis, in blocks
	// SkipEmpty stops production while there is nothing to do (produce_empty_blocks = false).
	SkipEmpty bool
	// Linger is a delay in ns in instant mode. The delay begins once everything that clients sent
	// was executed. During the delay, this node produces blocks at the interval. After the delay,
	// it produces the blocks that finalize the work at once. If a client waits for finality, there
	// is no delay.
	Linger int64
}

// Pace determines when this node approves its tip.
type Pace byte

const (
	Hold Pace = iota // do not approve the tip yet
	Free             // approve with Doomslug's delays, which the caller sets according to Out.Interval
	Now              // approve at once
)

// String returns the name of the pace.
func (p Pace) String() string { return [...]string{"hold", "free", "now"}[p] }

// Event is Waiting, Wanted, Voted, Accepted, Mine, Due, SetRules or Tick.
type Event interface{ event() }

// Waiting reports whether transactions wait in the pools.
type Waiting struct{ Any bool }

// Wanted reports whether a client waits for blocks to be final.
type Wanted struct{ Any bool }

// Voted reports that this node approved its head. On a chain with one validator, the approval leads
// to the next block.
type Voted struct{}

// Accepted reports a new head. Busy means that the block has transactions or outcomes, that it left
// receipts for the next block, or that the block must become final soon for a reason outside the
// block. Fresh means that the block has transactions, or that Linger begins for a reason other than
// transactions. Pressing means that at least one of the receipts that the block left is not a
// refund.
type Accepted struct {
	Height, Final         primitives.Height
	Busy, Fresh, Pressing bool
}

// Mine requests blocks, in addition to the blocks of previous Mine events, in any mode.
type Mine struct{ Blocks uint64 }

// Due reports whether the next block must be produced at once in any mode, because of its contents.
type Due struct{ Any bool }

// SetRules replaces the rules.
type SetRules struct{ Rules Rules }

// Tick reports that time has passed.
type Tick struct{}

func (Waiting) event()  {}
func (Wanted) event()   {}
func (Voted) event()    {}
func (Accepted) event() {}
func (Mine) event()     {}
func (Due) event()      {}
func (SetRules) event() {}
func (Tick) event()     {}

// Out is the pace from now on. At is the time at which the pace may change without an event, or 0
// if it cannot change.
type Out struct {
	Pace     Pace
	At       int64
	Interval int64 // ns between two approvals, if Pace is Free
}

// Scheduler computes the pace. A Scheduler is not safe for concurrent use.
type Scheduler struct {
	rules  Rules
	period int64 // credit for one block ahead of the interval, in ns
	full   int64 // the maximum credit, in ns
	credit int64
	last   int64 // time of the last update of credit
	voted  int64 // time of this node's last approval

	waiting bool
	wanted  bool
	due     bool
	// pressing is set if the head left receipts that are not refunds, because a client may wait for
	// them. ran is the time of the last block that has transactions, or that executed or left
	// receipts other than refunds.
	pressing bool
	ran      int64
	busy     primitives.Height // height of the highest block with work
	final    primitives.Height // height of the final block
	mine     uint64            // number of blocks that Mine requested and that are not produced yet
}

// New returns a scheduler with full credit. now is the current time in ns.
func New(r Rules, now int64) *Scheduler {
	burst := max(min(Burst, int64(min(r.Validity, math.MaxInt32))/2), 1)
	rest := max(int64(min(r.Validity, math.MaxInt32))-burst, 1)
	s := &Scheduler{rules: r, period: (MinWindow + rest - 1) / rest, last: now, voted: now}
	s.full = burst * s.period
	s.credit = s.full
	return s
}

// Step applies an event. now is in ns and must not decrease. Errors: ErrTooMany. Step panics on an
// unknown Event type.
func (s *Scheduler) Step(ev Event, now int64) (Out, error) {
	s.earn(now)
	var err error
	switch ev := ev.(type) {
	case Waiting:
		s.waiting = ev.Any
	case Wanted:
		s.wanted = ev.Any
	case Voted:
		s.vote(now)
	case Accepted:
		s.accept(ev, now)
	case Mine:
		if ev.Blocks > MaxMine-s.mine {
			err = fmt.Errorf("%w: %d requested while %d earlier ones are not produced yet; the limit for both is %d", ErrTooMany,
				ev.Blocks, s.mine, MaxMine)
			break
		}
		s.mine += ev.Blocks
	case Due:
		s.due = ev.Any
	case SetRules:
		s.rules = ev.Rules
	case Tick:
	default:
		panic(fmt.Sprintf("production: no case for %T", ev))
	}
	return s.out(now), err
}

func (s *Scheduler) earn(now int64) {
	if now > s.last {
		s.credit = min(s.full, s.credit+min(now-s.last, s.full))
		s.last = now
	}
}

// vote spends credit if the approval comes less than the interval after the previous one.
func (s *Scheduler) vote(now int64) {
	if now-s.voted < s.rules.Interval {
		s.credit = max(s.credit-s.period, 0)
	}
	s.voted = now
}

func (s *Scheduler) accept(ev Accepted, now int64) {
	if ev.Fresh || ev.Pressing || s.pressing {
		s.ran = now
	}
	s.pressing = ev.Pressing
	s.final = ev.Final
	if ev.Busy || s.busy > ev.Height { // after a reorganisation the new head may be lower
		s.busy = ev.Height
	}
	s.mine -= min(s.mine, 1)
}

// Settled returns whether no transaction waits and all blocks with work are final.
func (s *Scheduler) Settled() bool { return !s.waiting && s.busy <= s.final }

// Rules returns the current rules.
func (s *Scheduler) Rules() Rules { return s.rules }

// Left returns the number of blocks that Mine requested and that are not produced yet.
func (s *Scheduler) Left() uint64 { return s.mine }

func (s *Scheduler) out(now int64) Out {
	settled := s.Settled()
	switch {
	case s.mine > 0, s.due:
		return Out{Pace: Now}
	case s.rules.Mode == Manual, s.rules.SkipEmpty && settled:
		return Out{Pace: Hold}
	case s.rules.Mode == Interval, settled:
		return Out{Pace: Free, Interval: s.rules.Interval}
	case !s.waiting && !s.pressing && !s.wanted && now < s.ran+s.rules.Linger:
		return Out{Pace: Free, At: s.ran + s.rules.Linger, Interval: s.rules.Interval}
	case s.credit < s.period:
		return Out{Pace: Free, At: now + s.period - s.credit, Interval: s.rules.Interval}
	}
	return Out{Pace: Now}
}
