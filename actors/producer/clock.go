package producer

import (
	"errors"
	"fmt"
	"math"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrClock rejects a time that no block after the head can have.
var ErrClock = errors.New("producer: invalid clock setting")

// clock gives blocks their timestamps. The clock follows the system's clock unless a sandbox
// changes the setting.
type clock struct {
	wall     func() uint64
	shift    uint64 // offset from the system's time in ns, modulo 2^64
	frozen   bool
	frozenAt uint64 // time of the frozen clock in ns since 1970
	next     uint64 // timestamp of the next block in ns since 1970; 0: not set
	step     uint64 // interval in ns between the timestamps of blocks; 0: not set
}

func (c *clock) now() uint64 {
	if c.frozen {
		return c.frozenAt
	}
	return c.wall() + c.shift
}

// set makes t the current time.
func (c *clock) set(t uint64) { c.frozenAt, c.shift = t, t-c.wall() }

// advance adds ns to the current time.
func (c *clock) advance(ns uint64) { c.set(c.now() + ns) }

// blockTime returns the timestamp of the next block. If c.next is set, blockTime returns and clears
// c.next. parent is the timestamp of the parent block in ns. passed is the time in ns that skipped
// heights take. The result may be at or below parent; the engine then raises it.
func (c *clock) blockTime(parent, passed uint64) uint64 {
	t := c.now() + passed
	switch {
	case c.next != 0:
		t, c.next = c.next, 0
	case c.step != 0:
		t = min(parent+c.step+passed, maxForwardTime)
	case passed == 0:
		return t
	}
	c.set(t)
	return t
}

func (c *clock) state() messages.Clock {
	return messages.Clock{Time: c.now(), Frozen: c.frozen, Next: c.next, Step: c.step}
}

func (c *clock) restore(s messages.Clock) {
	c.frozen, c.next, c.step = s.Frozen, s.Next, s.Step
	c.set(s.Time)
}

// captureClock answers with the state of the clock. Errors: the errors of requireSole.
func (a *Actor) captureClock(m system.Request[messages.CaptureClock, messages.Clock]) {
	if err := a.requireSole(); err != nil {
		m.Reply(messages.Clock{}, err)
		return
	}
	m.Reply(a.clock.state(), nil)
}

// setClock applies all changes of a request. If one of the changes is not allowed, setClock applies
// none.
func (a *Actor) setClock(m system.Request[messages.SetClock, messages.Clock]) {
	q, c := &m.Question, a.clock
	err := a.requireSole()
	if err == nil && q.Frozen != nil {
		c.set(c.now())
		c.frozen = *q.Frozen
	}
	if err == nil && q.Time != nil {
		if err = a.checkTime(*q.Time); err == nil {
			c.set(*q.Time)
		}
	}
	if err == nil && q.Advance > 0 {
		if q.Advance > maxForwardTime {
			err = fmt.Errorf("%w: %d ns later than now is beyond the largest possible time", ErrClock, q.Advance)
		} else if err = a.checkTime(c.now() + q.Advance); err == nil {
			c.advance(q.Advance)
		}
	}
	if err == nil && q.Next != nil {
		if *q.Next != 0 {
			err = a.checkTime(*q.Next)
		}
		c.next = *q.Next
	}
	if err == nil && q.Step != nil {
		if c.step = *q.Step; c.step > maxStep {
			err = fmt.Errorf("%w: %d ns between blocks are more than the limit of %d", ErrClock, c.step, uint64(maxStep))
		}
	}
	if err != nil {
		m.Reply(messages.Clock{}, err)
		return
	}
	a.clock = c
	m.Reply(c.state(), nil)
}

// maxStep is the longest time between two blocks, ns: a year.
const maxStep = 365 * 24 * 3_600_000_000_000

// checkTime returns ErrClock if t cannot be the next block's time. t must be above the head's
// timestamp.
func (a *Actor) checkTime(t uint64) error {
	switch head := a.o.Chain.Imported(a.head.hash).Header().Timestamp; {
	case t <= head:
		if unit, n := unitOf(t, head); unit != "" {
			return fmt.Errorf("%w: %d looks like %s; the time must be in nanoseconds: %d", ErrClock, t, unit, n)
		}
		return fmt.Errorf("%w: time %d is not after the head's time %d; time goes back only by a revert to a snapshot", ErrClock, t, head)
	case t > maxForwardTime:
		return fmt.Errorf("%w: %d is beyond the largest possible time", ErrClock, t)
	}
	return nil
}

// unitOf guesses the unit of a time t that should be in ns but is too small for that. head is a
// plausible time in ns. The result is the unit in which t is between half of head and twice head,
// and t converted to ns. An empty unit means that no unit fits.
func unitOf(t, head uint64) (unit string, n uint64) {
	for _, u := range []struct {
		name string
		ns   uint64
	}{{"microseconds", 1_000}, {"milliseconds", 1_000_000}, {"seconds", 1_000_000_000}} {
		if t > math.MaxUint64/u.ns { // larger units would overflow too
			break
		}
		if n := t * u.ns; n/2 <= head && head/2 <= n {
			return u.name, n
		}
	}
	return "", 0
}

// skippedTime returns the time that n skipped heights take, in ns (nearcore sandbox_delta_time).
func (a *Actor) skippedTime(n primitives.Height) uint64 {
	return uint64(n) * (uint64(a.o.Delays.Endorsement+a.o.Delays.Skip) / 2)
}
