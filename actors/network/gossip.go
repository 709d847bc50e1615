package network

import (
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// recentSize bounds the blocks that have been handed on and not been taken yet.
const recentSize = 64

// recentSet is what was put in last and not been taken yet, each thing once, recentSize at most, or as many as it says.
type recentSet[T comparable] struct {
	mu   sync.Mutex
	list []T
	most int
}

// add notes one; false: it was there.
func (l *recentSet[T]) put(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.list, x) {
		return false
	}
	if l.list = append(l.list, x); len(l.list) > max(l.most, recentSize) {
		l.list = slices.Delete(l.list, 0, 1)
	}
	return true
}

// has tells whether it is one of them, take also removes it.
func (l *recentSet[T]) has(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.list, x)
}

func (l *recentSet[T]) take(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.list, x)
	if i >= 0 {
		l.list = slices.Delete(l.list, i, i+1)
	}
	return i >= 0
}

// admits tells whether a block that came unasked is taken from a peer now. bounded: elsewhere it is seen to that there are not too many, by who may make them or by
// gossip's own rates. Of long ones so many bytes a second are taken: their bodies are hashed before more can be said of them. A producer may make them and neard would take them, so that the
// first is, and what is dropped is asked for if others build on it.
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

// check judges what a transport spreads, before it is handed on. It is called from goroutines of the host.
func (a *Actor) check(m wire.Message) near.Verdict {
	switch m := m.(type) {
	case *wire.Block:
		return a.checkBlock(m.Block)
	case *wire.Transaction:
		if !a.o.Signed(m.Transaction) {
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

// checkOrigin hands a block on whose parent is known, which the producer of its height has signed with this body and two thirds have voted for one of. Who has the parent
// comes to the same end, so that nobody is banned for what he could not know: whatever Actor.refused bans for is looked at here.
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
	err := e.Epochs(func(m *epoch.Manager) (err error) { // for which the chain waits: the signature is looked at behind it
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
	case h.EpochID != id || h.NextEpochID != next || h.Height <= parent.Height() || chain.ValidateOrigin(b, key, shards, voters, a.o.Verify) != nil:
		return near.Refuse
	}
	return near.Pass
}

const (
	relayWindow = primitives.Height(8) // above the tip, and below it
	maxCheckedOfHeight   = 3                    // blocks of a height, behind the first
	maxGossipSlots   = 256                  // places that are remembered: of the heights around the tip there are 64
)

// relaysGossip tells whether gossip hands on a block that its producer has signed: the first of its height at once, the next few if they are good but for what their chunks contain, as neard
// does with each. More of them this node tells others of when it has adopted them: who makes a height may sign as many as he likes, and each that is handed on unseen all nodes judge.
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

// maxEarlyOfHeight is how many blocks of a height are looked at to be handed on before they are adopted. Who makes more of them is an enemy: of two it is seen that he has made two.
const maxEarlyOfHeight = 2

// heightSlot is a place of a block that is handed on early.
type heightSlot struct {
	height primitives.Height
	n      int
}

// reserveEarly tells whether a block may be handed on early, and takes its place.
func (f *Status) reserveEarly(height primitives.Height) bool {
	for n := range maxEarlyOfHeight {
		if f.earlySlots.put(heightSlot{height, n}) {
			return true
		}
	}
	return false
}

// relayEarly tells others of a block that came unasked as soon as it is known to be good but for what its chunks contain, if all hurry: some of them may have it by
// this node alone, and would wait for what this one makes of it. Neards ban who hands on what is bad by itself.
func (a *Actor) relayEarly(hash primitives.Hash, b *primitives.Block, judged bool) {
	f, height := a.o.Status, b.Header.Height
	if a.o.Eager && f.isRecent(height) && height <= a.o.Engine.Tip().Height()+relayWindow && !f.early.has(hash) && (judged || a.checkOrigin(b) == near.Pass) && f.reserveEarly(height) && a.o.Engine.ValidateForGossip(b) == nil && f.early.put(hash) {
		a.host.Post(near.ToAll{Msg: &wire.Block{Block: b}})
	}
}
