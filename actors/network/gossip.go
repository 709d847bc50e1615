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

// maxPassed bounds the blocks that have been handed on and not been taken yet.
const maxPassed = 64

// lately is what was put in last and not been taken yet, each thing once, maxPassed at most, or as many as it says.
type lately[T comparable] struct {
	mu   sync.Mutex
	list []T
	most int
}

// put notes one; false: it was there.
func (l *lately[T]) put(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.list, x) {
		return false
	}
	if l.list = append(l.list, x); len(l.list) > max(l.most, maxPassed) {
		l.list = slices.Delete(l.list, 0, 1)
	}
	return true
}

// has tells whether it is one of them, take also removes it.
func (l *lately[T]) has(x T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.list, x)
}

func (l *lately[T]) take(x T) bool {
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
	r := a.rates[from]
	if r == nil {
		r = newBlockRates()
		a.rates[from] = r
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
	v := a.vouched(b)
	if v == near.Pass && !a.handsOn(b) {
		v = near.Hold
	}
	if v == near.Pass {
		a.passed.put(b)
	}
	return v
}

// vouched hands a block on whose parent is known, which the producer of its height has signed with this body and two thirds have voted for one of. Who has the parent
// comes to the same end, so that nobody is banned for what he could not know: whatever Actor.refused bans for is looked at here.
func (a *Actor) vouched(b *primitives.Block) near.Verdict {
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
	maxUnlooked = primitives.Height(8) // above the tip, and below it
	maxLooked   = 3                    // blocks of a height, behind the first
	maxSpread   = 256                  // places that are remembered: of the heights around the tip there are 64
)

// handsOn tells whether gossip hands on a block that its producer has signed: the first of its height at once, the next few if they are good but for what their chunks contain, as neard
// does with each. More of them this node tells others of when it has adopted them: who makes a height may sign as many as he likes, and each that is handed on unseen all nodes judge.
func (a *Actor) handsOn(b *primitives.Block) bool {
	h, tip := b.Header.Height, a.o.Engine.Tip().Height()
	if h > tip+maxUnlooked || h+maxUnlooked <= tip {
		return false
	}
	if h > tip && a.spread.put(earlyAt{h, 0}) {
		return true
	}
	for n := range maxLooked {
		if a.spread.put(earlyAt{h, n + 1}) {
			return a.o.Engine.ValidateForGossip(b) == nil
		}
	}
	return false
}

// maxEarly is how many blocks of a height are looked at to be handed on before they are adopted. Who makes more of them is an enemy: of two it is seen that he has made two.
const maxEarly = 2

// earlyAt is a place of a block that is handed on early.
type earlyAt struct {
	height primitives.Height
	n      int
}

// mayHandOn tells whether a block may be handed on early, and takes its place.
func (f *Status) mayHandOn(height primitives.Height) bool {
	for n := range maxEarly {
		if f.places.put(earlyAt{height, n}) {
			return true
		}
	}
	return false
}

// handOnEarly tells others of a block that came unasked as soon as it is known to be good but for what its chunks contain, if all hurry: some of them may have it by
// this node alone, and would wait for what this one makes of it. Neards ban who hands on what is bad by itself.
func (a *Actor) handOnEarly(hash primitives.Hash, b *primitives.Block, judged bool) {
	f, height := a.o.Front, b.Header.Height
	if a.o.Eager && f.newsAt(height) && height <= a.o.Engine.Tip().Height()+maxUnlooked && !f.early.has(hash) && (judged || a.vouched(b) == near.Pass) && f.mayHandOn(height) && a.o.Engine.ValidateForGossip(b) == nil && f.early.put(hash) {
		a.host.Post(near.ToAll{Msg: &wire.Block{Block: b}})
	}
}
