package tcp

import (
	"math/rand/v2"

	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// routedVerifier are the routed messages that a peer sends to this node of its own over a
// connection. They are signed for who gets them from others: of one whom the connection itself has
// proven none is checked; of one who has shown here that he has his key the first earned all, and
// then, drawn by lot, one in each. What is for others, or goes back by a way, is checked always:
// here, and not by who serves all connections.
type routedVerifier struct {
	me     wire.PeerID
	peer   wire.PeerID
	proven bool                     // by the connection
	fresh  bool                     // the edge that the peer has signed is of now, and nobody's who has kept an old one
	good   int                      // that were checked in a row, each of them another one
	heard  map[primitives.Hash]bool // those, up to earned
	lot    func(n int) int
}

// The first messages of a peer that are checked, and of how many one is later on.
const (
	earned = 64
	each   = 16
)

func (h *Server) words(peer wire.PeerID) routedVerifier {
	return routedVerifier{me: h.me, peer: peer, proven: peer != "", lot: rand.IntN}
}

// of notes who the peer says that it is, by an edge that is of now or not. Another one later on
// begins anew.
func (w *routedVerifier) of(peer wire.PeerID, fresh bool) {
	if w.peer != peer {
		*w = routedVerifier{me: w.me, peer: peer, fresh: fresh, lot: w.lot}
	}
}

// prove checks the signatures of a message that has come, as far as the reader is to.
func (w *routedVerifier) prove(m wire.Message, keys *primitives.Verifier) {
	r, ok := m.(*wire.Routed)
	if !ok || w.peer == "" || r.Author != w.peer || r.Target.PeerID != w.me {
		wire.Prove(m, keys)
		return
	}
	if w.proven || w.fresh && w.good >= earned && w.lot(each) > 0 {
		r.Direct()
		return
	}
	wire.Prove(m, keys)
	switch hash := r.Hash(); {
	case !r.Verify():
		w.good, w.heard = 0, nil
	case !w.fresh || w.good >= earned || w.heard[hash]: // who repeats what he has heard has shown nothing
	default:
		if w.heard == nil {
			w.heard = map[primitives.Hash]bool{}
		}
		w.heard[hash] = true
		if w.good++; w.good == earned {
			w.heard = nil
		}
	}
}

// newEdgesTold is how many edges a peer may tell of: all that there may be at once, with which it
// begins, and behind that as many as are renewed in a network that is as large as one may be. Two
// signatures of each are checked, before it can be seen whether it is of any use.
func newEdgesTold() *rate.Limiter { return rate.NewLimiter(edgeRate, wire.MaxEdges) }

const edgeRate = 500 // a second
