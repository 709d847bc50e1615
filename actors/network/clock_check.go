package network

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of the comparison of the machine's clock with the clocks of block producers.
const (
	clockSamples  = 60               // last blocks that are compared
	clockEnough   = 20               // number of samples from which on there is a result
	clockBehind   = time.Second      // the clock is behind if the median block arrives so much before its timestamp
	clockAhead    = 5 * time.Second  // the clock may be ahead if every block arrives so much after its timestamp
	clockAgain    = 10 * time.Minute // time until a warning is repeated
	clockArrivals = 256              // arrivals of blocks that are not imported yet
)

// clockState is the result of a comparison.
type clockState byte

const (
	clockUnknown    clockState = iota // too few samples
	clockAgrees                       //
	clockIsBehind                     // blocks arrive before their timestamps
	clockMaybeAhead                   // blocks arrive long after their timestamps, or the clock is ahead
)

// clockCheck compares the machine's clock with the clocks of block producers.
//
// # Clock check
//
// Problem. A node whose clock is more than 120 s behind refuses all blocks (nearcore
// chain/chain/src/chain.rs ACCEPTABLE_TIME_DIFFERENCE), and handshakes fail at a difference of 30
// minutes. A smaller difference has no visible effect until a peer or a producer differs the other
// way. neard does not warn of it.
//
// Outline. A producer puts the time of its own clock into its block. A block arrives after that time,
// by the delay of the network. So a block that arrives before its timestamp proves that two clocks
// differ, and the median of several blocks shows that it is this one. A late block proves nothing: it
// may have been on its way for long. So only if even the earliest of the last blocks was late, the
// result is that the clock may be ahead.
//
// Invariants. Only imported blocks count, as a peer cannot forge them: arrived records a time, and
// imported takes it. Requested blocks do not count, since they are old. A block whose timestamp is
// the least that its parent allows shows only that its producer's clock was not ahead of that
// timestamp: its sample is at most zero. Otherwise a single producer could move all timestamps that
// follow into the future. Without a sample for such a block, the samples would soon be those of that
// producer alone. So fewer than half of the producers cannot move the median far.
type clockCheck struct {
	arrivals map[primitives.Hash]time.Time // first arrival of blocks that are not imported yet
	order    []primitives.Hash             // keys of arrivals, oldest first
	samples  []time.Duration               // timestamp − arrival of the last blocks, oldest first
	warned   time.Time                     // time of the last warning; zero: none since the clock last agreed
}

// arrived records the first arrival of a block that was not requested.
func (c *clockCheck) arrived(hash primitives.Hash, at time.Time) {
	if _, known := c.arrivals[hash]; known {
		return
	}
	if c.arrivals == nil {
		c.arrivals = map[primitives.Hash]time.Time{}
	}
	if len(c.order) >= clockArrivals {
		delete(c.arrivals, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
	c.arrivals[hash], c.order = at, append(c.order, hash)
}

// imported adds a sample, if the arrival of the block is known. timestamp and parent are the
// timestamps of the block and of its parent, in ns.
func (c *clockCheck) imported(hash primitives.Hash, timestamp, parent uint64) {
	at, known := c.arrivals[hash]
	if !known {
		return
	}
	delete(c.arrivals, hash)
	c.order = slices.DeleteFunc(c.order, func(h primitives.Hash) bool { return h == hash })
	early := time.Unix(0, int64(timestamp)).Sub(at.Round(0))
	if timestamp <= parent+1 {
		early = min(early, 0)
	}
	if len(c.samples) >= clockSamples {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.samples = append(c.samples, early)
}

// forget removes all samples. The samples of a node that was behind its peers are old.
func (c *clockCheck) forget() { c.samples = nil }

// offset returns the median of timestamp − arrival, and the state that follows. The offset is near
// zero or a little below it if the clocks agree.
func (c *clockCheck) offset() (time.Duration, clockState) {
	if len(c.samples) < clockEnough {
		return 0, clockUnknown
	}
	sorted := slices.Sorted(slices.Values(c.samples))
	median, earliest := sorted[len(sorted)/2], sorted[len(sorted)-1]
	switch {
	case median > clockBehind:
		return median, clockIsBehind
	case earliest < -clockAhead:
		return median, clockMaybeAhead
	}
	return median, clockAgrees
}

// report returns whether to log the state now: each warning once in clockAgain, and the end of a
// warning once.
func (c *clockCheck) report(now time.Time, s clockState) bool {
	switch s {
	case clockIsBehind, clockMaybeAhead:
		if !c.warned.IsZero() && now.Sub(c.warned) < clockAgain {
			return false
		}
		c.warned = now
		return true
	case clockAgrees:
		was := !c.warned.IsZero()
		c.warned = time.Time{}
		return was
	}
	return false
}

// compareClock adds an imported block to the comparison, and logs and publishes the result.
func (a *Actor) compareClock(b *primitives.Block, hash primitives.Hash) {
	parent := a.o.Engine.Imported(b.Header.PrevHash)
	if parent == nil {
		return
	}
	a.clock.imported(hash, b.Header.Timestamp, parent.Header().Timestamp)
	offset, state := a.clock.offset()
	a.o.Status.clock.Store(&clockResult{offset, state})
	if !a.clock.report(time.Now(), state) {
		return
	}
	const remedy = "check that a time service (NTP: chrony, systemd-timesyncd) runs and is synchronized, for instance with `timedatectl`"
	switch shown := offset.Round(100 * time.Millisecond); state {
	case clockIsBehind:
		a.o.Log.Warnf("network: the clock of this machine is behind: blocks arrive %v before the time at which they were made. "+
			"Above 2 minutes the node refuses them: %s", shown, remedy)
	case clockMaybeAhead:
		a.o.Log.Warnf("network: the last %d blocks arrived late, in the median %v after the time at which they were made: either the clock of "+
			"this machine is ahead, or its connection or processor is too slow: %s", len(a.clock.samples), -shown, remedy)
	default:
		a.o.Log.Infof("network: the clock of this machine agrees with the blocks of the network again")
	}
}

// clockResult is a result of the comparison for other goroutines.
type clockResult struct {
	offset time.Duration
	state  clockState
}
