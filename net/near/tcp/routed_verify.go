package tcp

import (
	"math/rand/v2"

	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// routedVerifier verifies the routed messages of one connection in the connection's reading
// goroutine. This placement relieves the one goroutine that serves all connections.
//
// The signature of a routed message is for nodes that receive the message indirectly. If the
// neighbour is the author and this node the target, the signature adds little. In that case, on a
// connection that authenticates the neighbour, this node does not verify the signature. On a plain
// socket, it verifies the first probation messages, and after that a random one in sampleEvery.
// This node verifies all messages of other authors or for other targets.
type routedVerifier struct {
	me     wire.PeerID
	peer   wire.PeerID
	proven bool // the connection authenticates the peer
	// fresh means that the edge signed by the peer is recent. An old edge may have been stored and
	// replayed by another node.
	fresh    bool
	good     int                      // number of distinct valid messages since the last invalid one, at most probation
	verified map[primitives.Hash]bool // hashes of the messages that good counts
	draw     func(n int) int
	prove    func(m wire.Message, keys *primitives.Verifier) // wire.Prove
}

// The first probation messages of a new peer are all verified. Of the messages after these, a
// random one in sampleEvery is verified.
const (
	probation   = 64
	sampleEvery = 16
)

func (h *Server) newRoutedVerifier(peer wire.PeerID) routedVerifier {
	return routedVerifier{me: h.me, peer: peer, proven: peer != "", draw: rand.IntN, prove: wire.Prove}
}

// setPeer sets the peer from the handshake. fresh means that the edge of the handshake is recent. A
// change of the peer restarts the probation.
func (w *routedVerifier) setPeer(peer wire.PeerID, fresh bool) {
	if w.peer != peer {
		*w = routedVerifier{me: w.me, peer: peer, fresh: fresh, draw: w.draw, prove: w.prove}
	}
}

// verify verifies the signatures of a message if needed. keys caches decoded keys. A ForwardTx is not
// verified while full returns true, because the PeerManager then drops it before it looks at the
// signature, as neard does.
func (w *routedVerifier) verify(m wire.Message, keys *primitives.Verifier, full func() bool) {
	r, ok := m.(*wire.Routed)
	if ok && r.Body.BodyKind() == wire.BodyForwardTx && full() {
		return
	}
	if !ok || w.peer == "" || r.Author != w.peer || r.Target.PeerID != w.me {
		w.prove(m, keys)
		return
	}
	if w.proven || w.fresh && w.good >= probation && w.draw(sampleEvery) > 0 {
		r.Direct()
		return
	}
	w.prove(m, keys)
	switch hash := r.Hash(); {
	case !r.Verify():
		w.good, w.verified = 0, nil
	case !w.fresh || w.good >= probation || w.verified[hash]: // a message that may be replayed does not count
	default:
		if w.verified == nil {
			w.verified = map[primitives.Hash]bool{}
		}
		w.verified[hash] = true
		if w.good++; w.good == probation {
			w.verified = nil
		}
	}
}

// newEdgeLimiter limits the edges that a peer may send: a full graph at once, and then the rate at
// which edges are renewed in the largest possible network. An edge costs two signature checks
// before this node knows whether the edge is useful.
func newEdgeLimiter() *rate.Limiter { return rate.NewLimiter(edgeRate, wire.MaxEdges) }

const edgeRate = 500 // edges per second
