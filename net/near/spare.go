package near

import (
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	maxBrought = 64 // blocks of which it is remembered who has brought them
	toldAgain  = 8  // of so many heights one is told to everybody, so that peers know of each other how far they are
)

// brought is who has brought the last blocks first; "": it is not known to have told its neighbours.
type brought struct {
	by    map[primitives.Hash]wire.PeerID
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

// told has a block that is told once more be told to everybody: nothing moves, and its bringer may have told nobody.
func (b *brought) told(hash primitives.Hash) {
	if _, there := b.by[hash]; there {
		b.by[hash] = ""
	}
}

// hasHeard tells whether a peer need not be told of a block, since who has brought it has told it: it tells all of its neighbours but those whom another has told
// before. What gets lost on the way is asked for when its child comes.
func (n *Node) hasHeard(peer wire.PeerID, b *primitives.Block) bool {
	if !n.Sparing || b.Header.Height%toldAgain == 0 {
		return false
	}
	by := n.brought.by[b.Hash()]
	return by != "" && (by == peer || n.graph.Adjacent(by, peer))
}
