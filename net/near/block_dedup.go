package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	maxBrought = 64 // blocks of which it is remembered who has brought them
	toldAgain  = 8  // of so many heights one is told to everybody, so that peers know of each other how far they are
	maxSilent  = 64 // neighbours of a peer who are known not to have told it
)

// silentFor is how long a peer is told of what a neighbour of it brings that has not told it of a
// block: longer than it takes to see that a connection is none any more and to take its edge away,
// and who is silent by choice costs one block in that time.
const silentFor = 2 * time.Minute

// brought is who has brought the last blocks first.
type brought struct {
	by    map[primitives.Hash]wire.PeerID // "": one that is not known to have told its neighbours
	order []primitives.Hash
}

func (b *brought) put(hash primitives.Hash, by wire.PeerID) {
	if _, there := b.by[hash]; there {
		return
	}
	if b.by == nil {
		b.by = map[primitives.Hash]wire.PeerID{}
	}
	if len(b.order) >= maxBrought {
		delete(b.by, b.order[0])
		b.order = b.order[1:]
	}
	b.by[hash] = by
	b.order = append(b.order, hash)
}

// asks notes that a peer asks for a block. Was it spared that since a neighbour had brought it,
// then that one has not told it: their edge is of before, or it lies, or what it told was lost.
// What it brings from now on is told to this peer.
func (n *PeerManager) asks(now time.Time, c *conn, hash primitives.Hash) {
	by := n.brought.by[hash]
	if !n.Sparing || by == "" || by == c.peer.ID || !n.graph.Adjacent(by, c.peer.ID) {
		return
	}
	if c.silent == nil || len(c.silent) >= maxSilent {
		c.silent = map[wire.PeerID]time.Time{}
	}
	c.silent[by] = now.Add(silentFor)
}

// hasHeard tells whether a peer need not be told of a block, since who has brought it has told it:
// it tells all of its neighbours but those whom another has told before. What gets lost on the way
// is asked for when its child comes, and where none comes everybody is told again (ToAll.Again).
func (n *PeerManager) hasHeard(now time.Time, c *conn, b *primitives.Block) bool {
	if !n.Sparing || b.Header.Height%toldAgain == 0 {
		return false
	}
	by, peer := n.brought.by[b.Hash()], c.peer.ID
	return by != "" && (by == peer || n.graph.Adjacent(by, peer) && !now.Before(c.silent[by]))
}
