package network

import (
	"slices"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// What an honest peer may hand on of what is wrong by itself (engine.ErrGossipCheck): over gossip the first block of a height, before it is looked at, one more if it has begun again, and that of
// each height that is at most relayWindow above its tip.
const (
	maxBadOfHeight     = 2  // of a height
	maxBadBlocks  = 32 // of all, and two more for each height that the chain has come further
	maxBadPeers = 256
)

// badBlocks counts the wrong blocks that each peer has brought. Each is signed by who makes its height: who brings many has his key, or is where he sends all that. A neard bans for the
// first.
type badBlocks struct {
	of    map[wire.PeerID]*peerBadBlocks
	order []wire.PeerID // of their first, the oldest first
}

// peerBadBlocks are those of a peer.
type peerBadBlocks struct {
	since  primitives.Height // the tip when it brought the first
	n      uint64
	lately []badBlock // the last maxBadBlocks
}

type badBlock struct {
	height primitives.Height
	hash   primitives.Hash
}

func newBadBlocks() badBlocks { return badBlocks{of: map[wire.PeerID]*peerBadBlocks{}} }

// tooMany notes one, and tells whether the peer has brought more than an honest one hands on. A peer is not forgotten when it goes: it may come again.
func (w *badBlocks) tooMany(from wire.PeerID, height primitives.Height, hash primitives.Hash, tip primitives.Height) bool {
	x := w.of[from]
	if x == nil {
		if len(w.order) >= maxBadPeers {
			delete(w.of, w.order[0])
			w.order = slices.Delete(w.order, 0, 1)
		}
		x = &peerBadBlocks{since: tip}
		w.of[from] = x
		w.order = append(w.order, from)
	}
	b := badBlock{height, hash}
	if slices.Contains(x.lately, b) {
		return false
	}
	if x.n++; len(x.lately) >= maxBadBlocks {
		x.lately = slices.Delete(x.lately, 0, 1)
	}
	x.lately = append(x.lately, b)
	same := 0
	for _, b := range x.lately {
		if b.height == height {
			same++
		}
	}
	return same > maxBadOfHeight || x.n > maxBadBlocks+2*uint64(tip-min(tip, x.since))
}
