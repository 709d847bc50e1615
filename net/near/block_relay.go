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

// silentLife is how long a peer is sent the blocks of a neighbour that did not send it one. It is
// longer than it takes to detect a dead connection and remove its edge. A neighbour that is silent
// on purpose costs the peer one delayed block in that time.
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

// noteBlockRequest notes that a peer requests a block. If it was not sent to the peer because a
// neighbour of it had sent it here, that neighbour did not send it to the peer: the edge is
// outdated, the neighbour withholds blocks, or the message was lost. For silentLife, the
// neighbour's blocks are sent to this peer.
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

// knowsBlock returns whether a block need not be sent to a peer, since the first sender of the
// block is this peer or a neighbour of it: a node sends a new block to all of its neighbours,
// except those that have it from another one. If a block is lost, the peer requests it when its
// child arrives; if no child arrives, ToAll.Again sends it once more.
func (n *PeerManager) knowsBlock(now time.Time, c *conn, b *primitives.Block) bool {
	if !n.Sparing || b.Header.Height%resendEvery == 0 {
		return false
	}
	by, peer := n.blockSources.by[b.Hash()], c.peer.ID
	return by != "" && (by == peer || n.graph.Adjacent(by, peer) && !now.Before(c.silentNeighbours[by]))
}
