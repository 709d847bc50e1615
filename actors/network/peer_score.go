package network

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// checkedAfterRelay are the faults of blocks that neard relays, because neard finds these faults only
// after it has broadcast the block (nearcore chain/chain/src/chain.rs preprocess_block). A peer is
// not banned for such blocks, however many the producer of a height signs. Actor.admits and, for
// gossip, Actor.relaysGossip bound how many of one height are checked.
var checkedAfterRelay = []error{chain.InvalidRandomness, chain.InvalidGasPrice, chain.InvalidTotalSupply,
	chain.InvalidShardSplit, chain.InvalidValidatorProposals, chain.ErrRepeatedChunk,
	chain.InvalidChunkEndorsement, chain.InvalidEndorsementBitmap}

// isCheckedAfterRelay returns whether an honest neard may have relayed a block with this error.
func isCheckedAfterRelay(err error) bool {
	return slices.ContainsFunc(checkedAfterRelay, func(fault error) bool { return errors.Is(err, fault) })
}

// Limits of invalid blocks (engine.ErrGossipCheck) of one peer. An honest peer relays blocks by
// gossip before it checks them: the first block of each height up to relayWindow above its tip, and
// a second block of a height after a restart. So an honest peer may relay a few invalid blocks.
const (
	maxBadOfHeight = 2 // maximum number of a peer's bad blocks of one height
	// maxBadBlocks is the maximum number of a peer's bad blocks of all heights, plus two for each new
	// height of the chain.
	maxBadBlocks = 32
	maxBadPeers  = 256
)

// badBlocks counts the invalid blocks of each peer. The producer of the height has signed each of
// these blocks. So a peer that sends many of them has a producer's key or helps the key's owner.
// neard bans a peer for the first invalid block.
type badBlocks struct {
	of    map[wire.PeerID]*peerBadBlocks
	order []wire.PeerID // peers in the order of their first bad block
}

// peerBadBlocks are the invalid blocks of one peer.
type peerBadBlocks struct {
	since  primitives.Height // height of the tip when the peer sent its first bad block
	n      uint64            // number of bad blocks
	lately []badBlock        // the last bad blocks, at most maxBadBlocks
}

type badBlock struct {
	height primitives.Height
	hash   primitives.Hash
}

func newBadBlocks() badBlocks { return badBlocks{of: map[wire.PeerID]*peerBadBlocks{}} }

// tooMany counts an invalid block and returns whether the peer has sent more invalid blocks than an
// honest peer relays. The count of a peer is kept after the peer has disconnected, because the peer
// may reconnect.
func (w *badBlocks) tooMany(from wire.PeerID, height primitives.Height, hash primitives.Hash,
	tip primitives.Height) bool {
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
