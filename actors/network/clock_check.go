package network

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/recent"
)

// Bounds of the comparison of the machine's clock with the clocks of block producers.
const (
	clockSamples  = 60               // last blocks that are compared
	clockEnough   = 20               // number of samples from which on there is a result
	clockBehind   = time.Second      // the clock is behind if the median block arrives so much before its timestamp
	clockAhead    = 5 * time.Second  // the clock may be ahead if every block arrives so much after its timestamp
	clockAgain    = 10 * time.Minute // time until a warning is repeated
	clockArrivals = 64               // arrivals of blocks from each peer that are not imported yet
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
// Invariants.
//
//   - Only imported blocks count, as a peer cannot forge them: arrived records a time, and imported
//     takes it. Invented blocks of a peer displace only arrivals from that peer.
//   - Of several copies, the one that arrived first counts. So a peer cannot make a block late if
//     another neighbour sends it in time, and no peer can send a block before it is made.
//   - Only verified headers show that this node is behind, so that blocks are old when they arrive.
//     The heights that peers claim do not: a peer could claim a false height to stop the check. Near
//     the highest verified header, requested blocks count, too. A peer with false heights makes the
//     node request each block, and a late sample does no harm.
//   - A block whose timestamp is the least that its parent allows shows only that its producer's
//     clock was not ahead of that timestamp: its sample is at most zero. Otherwise a single producer
//     could move all timestamps that follow into the future. Without a sample for such a block, the
//     samples would soon be those of that producer alone. So fewer than half of the producers cannot
//     move the median far.
//
// The check cannot see: a clock that is less than clockBehind behind or clockAhead ahead; a clock that
// is ahead while one of the last blocks has a false early timestamp; anything while this node is behind
// the verified headers. A clock that is more than 120 s behind refuses all blocks and headers, so there
// is no sample: header sync finds it (engine.ProvenAhead). If all neighbours
// delay all blocks, a clock that is behind looks right, and a right one ahead. If half of the producers
// have wrong clocks, they count as right.
type clockCheck struct {
	// arrivals has, for each peer, the first arrivals of blocks that are not imported yet.
	arrivals map[wire.PeerID]*recent.Map[primitives.Hash, time.Time]
	samples  []time.Duration // timestamp − arrival of the last blocks, oldest first
	warned   time.Time       // time of the last warning; zero: none since the clock last agreed
}

// note records the arrival of a block that is not imported. tip and verified are the heights of the
// highest block and of the highest verified header.
func (c *clockCheck) note(from wire.PeerID, b heightAndHash, tip, verified primitives.Height, at time.Time) {
	switch {
	case verified > tip+relayWindow:
		c.forget()
	case b.height > tip && b.height <= tip+relayWindow:
		c.arrived(from, b.hash, at)
	}
}

// heightAndHash identifies a block.
type heightAndHash struct {
	height primitives.Height
	hash   primitives.Hash
}

// arrived records the first arrival of a block from a peer.
func (c *clockCheck) arrived(from wire.PeerID, hash primitives.Hash, at time.Time) {
	list := c.arrivals[from]
	if list == nil {
		if c.arrivals == nil {
			c.arrivals = map[wire.PeerID]*recent.Map[primitives.Hash, time.Time]{}
		}
		list = &recent.Map[primitives.Hash, time.Time]{Max: clockArrivals}
		c.arrivals[from] = list
	}
	list.Put(hash, at)
}

// keep removes the arrivals from all peers but these.
func (c *clockCheck) keep(peers map[wire.PeerID]bool) {
	maps.DeleteFunc(c.arrivals, func(id wire.PeerID, _ *recent.Map[primitives.Hash, time.Time]) bool { return !peers[id] })
}

// imported adds a sample, if an arrival of the block is known. timestamp and parent are the
// timestamps of the block and of its parent, in ns.
func (c *clockCheck) imported(hash primitives.Hash, timestamp, parent uint64) {
	var first time.Time
	for _, list := range c.arrivals {
		if at, known := list.Take(hash); known && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return
	}
	early := time.Unix(0, int64(timestamp)).Sub(first.Round(0))
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

const clockRemedy = "check that a time service (NTP: chrony, systemd-timesyncd) runs and is synchronized, " +
	"for instance with `timedatectl`"

// clockProvenBehind logs and publishes that the clock is behind by at least an offset, so that this
// node refuses the network's blocks and headers.
func (a *Actor) clockProvenBehind(offset time.Duration) {
	a.clock.forget()
	a.o.Status.clock.Store(&clockResult{offset, clockIsBehind})
	if a.clock.report(time.Now(), clockIsBehind) {
		a.o.Log.Warnf("network: the clock of this machine is behind by at least %v, as block producers with two thirds "+
			"of the stake prove. So this node refuses the blocks of its peers: %s", offset.Round(time.Second), clockRemedy)
	}
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
	switch shown := offset.Round(100 * time.Millisecond); state {
	case clockIsBehind:
		a.o.Log.Warnf("network: the clock of this machine is behind: blocks arrive %v before the time at which they were "+
			"made. Above 2 minutes the node refuses them: %s", shown, clockRemedy)
	case clockMaybeAhead:
		a.o.Log.Warnf("network: the last %d blocks arrived late, in the median %v after the time at which they were "+
			"made: either the clock of this machine is ahead, or its connection or processor is too slow: %s",
			len(a.clock.samples), -shown, clockRemedy)
	default:
		a.o.Log.Infof("network: the clock of this machine agrees with the blocks of the network again")
	}
}

// Bounds of the warning about handshakes that a difference of clocks ended.
const (
	skewPeers  = 3                // number of peers from which on there is a warning
	skewRecent = 10 * time.Minute // age of the handshakes that count
)

// handshakeSkew returns the median of the differences of clocks of the peers whose handshakes failed
// for it in the last skewRecent, and the number of these peers. Above 0: the peers' clocks are ahead.
func handshakeSkew(list []near.ClockSkew, now time.Time) (median time.Duration, peers int) {
	var recent []time.Duration
	for _, s := range list {
		if now.Sub(s.At) < skewRecent {
			recent = append(recent, s.Ahead)
		}
	}
	if len(recent) < skewPeers {
		return 0, len(recent)
	}
	slices.Sort(recent)
	return recent[len(recent)/2], len(recent)
}

// compareHandshakes logs that handshakes fail because the clock of this machine differs from the clocks
// of peers. Peers can invent this. So it is only logged, and only while blocks do not show whether the
// clock is right: status, metrics and alerts have the comparison with blocks alone.
func (a *Actor) compareHandshakes(info *near.Info) {
	now := time.Now()
	ahead, peers := handshakeSkew(info.Skews, now)
	if peers < skewPeers {
		return
	}
	if _, known := a.clock.offset(); known != clockUnknown {
		return
	}
	state, side := clockIsBehind, "behind"
	if ahead < 0 {
		state, side = clockMaybeAhead, "ahead of"
	}
	if a.clock.report(now, state) {
		a.o.Log.Warnf("network: handshakes with %d peers failed because the clock of this machine is %s theirs, in the "+
			"median by %v: %s", peers, side, ahead.Abs().Round(time.Second), clockRemedy)
	}
}

// clockResult is a result of the comparison for other goroutines.
type clockResult struct {
	offset time.Duration
	state  clockState
}
