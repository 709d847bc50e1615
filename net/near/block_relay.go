package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	maxBlockSources = 64 // blocks with a remembered first sender
	// at every so many heights a block is sent to all peers, so that they know each other's height
	resendEvery         = 8
	maxSilentNeighbours = 64 // neighbours of a peer that did not send it a block
)

// silentLife is for how long this node sends a peer the blocks that come from one of the peer's
// neighbours, after that neighbour failed to send the peer a block. It is longer than it takes to
// detect a dead connection and remove its edge. A neighbour that is silent on purpose delays one
// block for the peer in that time.
const silentLife = 2 * time.Minute

// blockSources remembers the peer that first sent each of the last blocks.
type blockSources struct {
	// empty: the sender may not have sent it to its other neighbours
	by    map[primitives.Hash]wire.PeerID
	order []primitives.Hash
}

func (b *blockSources) put(hash primitives.Hash, by wire.PeerID) {
	if _, there := b.by[hash]; there {
		return
	}
	if b.by == nil {
		b.by = map[primitives.Hash]wire.PeerID{}
	}
	if len(b.order) >= maxBlockSources {
		delete(b.by, b.order[0])
		b.order = b.order[1:]
	}
	b.by[hash] = by
	b.order = append(b.order, hash)
}

// noteBlockRequest notes that a peer requests a block. If this node did not send it the block
// because the block came from a neighbour of the peer, then that neighbour did not send it to the
// peer either: the edge is outdated, the neighbour withholds blocks, or the message was lost. For
// silentLife, this node sends the peer the blocks that come from that neighbour.
func (n *PeerManager) noteBlockRequest(now time.Time, c *conn, hash primitives.Hash) {
	by := n.blockSources.by[hash]
	if !n.Sparing || by == "" || by == c.peer.ID || !n.graph.Adjacent(by, c.peer.ID) {
		return
	}
	if c.silentNeighbours == nil || len(c.silentNeighbours) >= maxSilentNeighbours {
		c.silentNeighbours = map[wire.PeerID]time.Time{}
	}
	c.silentNeighbours[by] = now.Add(silentLife)
}

// knowsBlock returns whether a block need not be sent to a peer. That is so if the first sender of
// the block is this peer or a neighbour of it, because a node sends a new block to all of its
// neighbours except those that have it from another node. If the block is lost on that way, the
// peer requests it when the block's child arrives. If no child arrives, ToAll.Again sends the block
// once more.
func (n *PeerManager) knowsBlock(now time.Time, c *conn, b *primitives.Block) bool {
	if !n.Sparing || b.Header.Height%resendEvery == 0 {
		return false
	}
	by, peer := n.blockSources.by[b.Hash()], c.peer.ID
	return by != "" && (by == peer || n.graph.Adjacent(by, peer) && !now.Before(c.silentNeighbours[by]))
}
