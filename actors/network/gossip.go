package network

import (
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/recent"
)

// A node relays a block of a peer at these moments. An eager relay replaces the later one. After a
// relay by gossip, the later ones reach only peers that gossip may not have reached. A follower in
// this table is a node without the validator actor.
//
//	mode      when                check                       blocks                    function
//	libp2p    on arrival by       checkOrigin                 first block of a height   relaysGossip
//	          gossip              (above the tip)
//	libp2p    the same            checkOrigin and             next maxCheckedOfHeight   relaysGossip
//	                              ValidateForGossip           blocks of the height
//	eager     before the import   the same                    at most maxEarlyOfHeight  relayEarly
//	                                                          unrequested of a height
//	follower  when on disk        the whole import            each recent block         blockAccepted
//	validator at the import       the whole import            each recent new tip       consensus's imported
//
// Only the follower's relay waits for the disk. A relayed block is no statement of this node: its
// producer signed the block, and this node adds nothing. After a crash, this node can import the
// block again. So the others do not break the purpose of invariant (2) of engine.commitPipeline. A
// validator's own block is sent when it is made; the block's parent is on disk.

// recentSet is a set that keeps only the most recently added values. Safe for concurrent use. The zero
// value is an empty set of at most recent.DefaultMax values.
type recentSet[T comparable] struct {
	mu sync.Mutex
	of recent.Map[T, struct{}]
}

// put adds a value and returns whether it was new. When the set is full, the oldest value is
// removed.
func (l *recentSet[T]) put(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of.Put(x, struct{}{})
}

// has returns whether a value is in the set.
func (l *recentSet[T]) has(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of.Has(x)
}

// take removes a value and returns whether it was in the set.
func (l *recentSet[T]) take(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.of.Take(x)
	return ok
}

// admits returns whether the actor accepts an unrequested block of a peer. bounded means that
// admits applies no block rate: the host has checked the block as gossip, or the rates of gossip
// bound such blocks. For long blocks there is a byte rate too, because this node hashes the body of
// a block before it checks anything else. admits always accepts a peer's first long block. The node
// requests a dropped block when a child of that block arrives.
func (a *Actor) admits(from wire.PeerID, bounded bool, b *primitives.Block) bool {
	if bounded {
		return true
	}
	r := a.limits[from]
	if r == nil {
		r = newBlockLimits()
		a.limits[from] = r
	}
	return r.allow(a.now(), b.Header.Height, b.Hash(), blockpool.SizeOf(b))
}

// check verifies a gossiped message before the host relays it. The host calls check on the host's
// goroutines.
func (a *Actor) check(m wire.Message) near.Verdict {
	switch m := m.(type) {
	case *wire.Block:
		return a.checkBlock(m.Block)
	case *wire.Transaction:
		if !a.o.Signatures.Check(m.Transaction) {
			return near.Refuse
		}
		return near.Pass
	}
	return near.Hold
}

func (a *Actor) checkBlock(b *primitives.Block) near.Verdict {
	v := a.checkOrigin(b)
	if v == near.Pass && !a.relaysGossip(b) {
		v = near.Hold
	}
	if v == near.Pass {
		a.gossiped.put(b)
	}
	return v
}

// checkOrigin returns near.Pass for a block with a known parent, its producer's signature over this
// body, and approvals of two thirds of the stake. Every node that knows the parent gets the same
// result. The check covers every reason for which Actor.refused bans a peer. So no peer bans this
// node for relaying a block that passes.
func (a *Actor) checkOrigin(b *primitives.Block) near.Verdict {
	e, h := a.o.Engine, b.Header
	if e.Imported(b.Hash()) != nil {
		return near.Hold
	}
	parent := e.Imported(h.PrevHash)
	if parent == nil || h.Height <= e.TipFinal().Height {
		return near.Hold
	}
	var (
		id     primitives.EpochID
		next   primitives.EpochID
		key    primitives.PublicKey
		shards int
		voters []chain.Approver
	)
	// The chain actor needs the lock of Epochs, so this node verifies signatures after it has
	// released the lock.
	err := e.Epochs(func(m *epoch.Manager) (err error) {
		if id, err = m.EpochIDFromPrev(parent.Hash); err != nil {
			return err
		}
		v, err := m.BlockProducer(id, h.Height)
		if err != nil {
			return err
		}
		if next, err = m.NextEpochIDFromPrev(parent.Hash); err != nil {
			return err
		}
		key = v.PublicKey
		layout, err := m.ShardLayout(id)
		if shards = layout.NumShards(); err == nil {
			voters, err = engine.ApproversOf(m, parent.Hash)
		}
		return err
	})
	switch {
	case err != nil:
		return near.Hold
	case h.EpochID != id || h.NextEpochID != next || h.Height <= parent.Height() ||
		chain.ValidateOrigin(b, key, shards, voters, a.o.Verify) != nil:
		return near.Refuse
	}
	return near.Pass
}

// Limits on relaying gossiped blocks.
const (
	relayWindow = primitives.Height(8) // maximum distance of a relayed block's height from the tip
	// maxCheckedOfHeight is the maximum number of further blocks of a height that are checked after
	// the first one.
	maxCheckedOfHeight = 3
	maxGossipSlots     = 256 // maximum number of entries in gossipSlots; relayWindow needs only 64
)

// relaysGossip returns whether this node relays a gossiped block with a valid origin. It relays the
// first block of a height at once. It relays the next few blocks of the height if they are valid
// except for chunk contents; neard does not check chunk contents before relaying either. Any
// further block of the height is only announced, after its import. This limit is needed because a
// malicious producer may sign any number of blocks, and every node that gets these blocks must
// check each of them.
func (a *Actor) relaysGossip(b *primitives.Block) bool {
	h, tip := b.Header.Height, a.o.Engine.Tip().Height()
	if h > tip+relayWindow || h+relayWindow <= tip {
		return false
	}
	if h > tip && a.gossipSlots.put(heightSlot{h, 0}) {
		return true
	}
	for n := range maxCheckedOfHeight {
		if a.gossipSlots.put(heightSlot{h, n + 1}) {
			return a.o.Engine.ValidateForGossip(b) == nil
		}
	}
	return false
}

// maxEarlyOfHeight is the maximum number of blocks of a height that this node relays before their
// import. Two blocks of a height prove that the producer is malicious.
const maxEarlyOfHeight = 2

// heightSlot stands for the n-th relayed block of a height.
type heightSlot struct {
	height primitives.Height
	n      int
}

// reserveEarly returns whether another block of the height may be relayed before its import, and
// counts that block.
func (f *Status) reserveEarly(height primitives.Height) bool {
	for n := range maxEarlyOfHeight {
		if f.earlySlots.put(heightSlot{height, n}) {
			return true
		}
	}
	return false
}

// relayEarly relays an unrequested block in eager mode before its import, once the block is valid
// except for chunk contents. Peers that get the block only from this node would otherwise wait
// until this node has imported it. relayEarly checks more than the signature, because neard bans
// peers that relay an invalid block.
func (a *Actor) relayEarly(hash primitives.Hash, b *primitives.Block, judged bool) {
	f, height := a.o.Status, b.Header.Height
	if a.o.Eager && f.isRecent(height) && height <= a.o.Engine.Tip().Height()+relayWindow && !f.early.has(hash) &&
		(judged || a.checkOrigin(b) == near.Pass) && f.reserveEarly(height) && a.o.Engine.ValidateForGossip(b) == nil &&
		f.early.put(hash) {
		a.host.Post(near.ToAll{Msg: &wire.Block{Block: b}})
	}
}
