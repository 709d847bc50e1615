package network

import (
	"slices"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// What an honest peer may hand on of what is wrong by itself (engine.ErrGossipCheck): over gossip the first block of a height, before it is looked at, one more if it has begun again, and that of
// each height that is at most maxUnlooked above its tip.
const (
	maxWrong     = 2  // of a height
	maxWrongAll  = 32 // of all, and two more for each height that the chain has come further
	maxWrongOnes = 256
)

// wrongs counts the wrong blocks that each peer has brought. Each is signed by who makes its height: who brings many has his key, or is where he sends all that. A neard bans for the
// first.
type wrongs struct {
	of    map[wire.PeerID]*wrong
	order []wire.PeerID // of their first, the oldest first
}

// wrong are those of a peer.
type wrong struct {
	since  primitives.Height // the tip when it brought the first
	n      uint64
	lately []wrongBlock // the last maxWrongAll
}

type wrongBlock struct {
	height primitives.Height
	hash   primitives.Hash
}

func newWrongs() wrongs { return wrongs{of: map[wire.PeerID]*wrong{}} }

// tooMany notes one, and tells whether the peer has brought more than an honest one hands on. A peer is not forgotten when it goes: it may come again.
func (w *wrongs) tooMany(from wire.PeerID, height primitives.Height, hash primitives.Hash, tip primitives.Height) bool {
	x := w.of[from]
	if x == nil {
		if len(w.order) >= maxWrongOnes {
			delete(w.of, w.order[0])
			w.order = slices.Delete(w.order, 0, 1)
		}
		x = &wrong{since: tip}
		w.of[from] = x
		w.order = append(w.order, from)
	}
	b := wrongBlock{height, hash}
	if slices.Contains(x.lately, b) {
		return false
	}
	if x.n++; len(x.lately) >= maxWrongAll {
		x.lately = slices.Delete(x.lately, 0, 1)
	}
	x.lately = append(x.lately, b)
	same := 0
	for _, b := range x.lately {
		if b.height == height {
			same++
		}
	}
	return same > maxWrong || x.n > maxWrongAll+2*uint64(tip-min(tip, x.since))
}
