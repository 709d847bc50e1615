package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/recent"
)

const (
	maxBlockSources = 64 // maximum number of blocks whose first sender is remembered
	// At every resendEvery-th height, a block is sent to all peers, so that they learn each other's
	// height.
	resendEvery         = 8
	maxSilentNeighbours = 64 // maximum number of silent neighbours of a peer (see conn.silentNeighbours)
)

// silentLife is a period after a peer's neighbour failed to send the peer a block. During this
// period, this node sends the peer the blocks that come from that neighbour. silentLife is longer
// than it takes to detect a dead connection and remove the connection's edge. A neighbour that is
// silent on purpose delays one block for the peer in this period.
const silentLife = 2 * time.Minute

// blockSources remembers the peer that first sent each of the most recent blocks. The value is empty
// if the sender may not have sent the block to its other neighbours.
type blockSources = recent.Map[primitives.Hash, wire.PeerID]

// noteBlockRequest handles a peer's request for a block. The request matters if this node did not
// send the peer the block because the block came from one of the peer's neighbours. In that case
// the neighbour did not send the block to the peer: the edge is outdated, the neighbour withholds
// blocks, or the message was lost. For silentLife, this node then sends the peer the blocks that
// come from that neighbour.
func (n *PeerManager) noteBlockRequest(now time.Time, c *conn, hash primitives.Hash) {
	by, _ := n.blockSources.Get(hash)
	if !n.Sparing || by == "" || by == c.peer.ID || !n.graph.Adjacent(by, c.peer.ID) {
		return
	}
	if c.silentNeighbours == nil || len(c.silentNeighbours) >= maxSilentNeighbours {
		c.silentNeighbours = map[wire.PeerID]time.Time{}
	}
	c.silentNeighbours[by] = now.Add(silentLife)
}

// knowsBlock returns whether a block need not be sent to a peer. A block need not be sent if the
// block's first sender is the peer or one of the peer's neighbours. A node sends a new block to all
// of its neighbours, except the neighbours from which the node may have got the block. If that
// message is lost, the peer requests the block when the block's child arrives. If no child arrives,
// ToAll.Again sends the block once more.
func (n *PeerManager) knowsBlock(now time.Time, c *conn, b *primitives.Block) bool {
	if !n.Sparing || b.Header.Height%resendEvery == 0 {
		return false
	}
	by, _ := n.blockSources.Get(b.Hash())
	peer := c.peer.ID
	return by != "" && (by == peer || n.graph.Adjacent(by, peer) && !now.Before(c.silentNeighbours[by]))
}
