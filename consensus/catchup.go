package consensus

import (
	"slices"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// In a node, only a part of this file has an effect. The network actor drops HeadersRequest and
// passes BlockRequest to chain/blocksync (actors/network, Status.Send), which requests blocks and
// headers. Peers' requests do not reach the core either. Only the simulator uses the rest.

// Bounds and intervals, as in nearcore (chain/client/src/sync/{header,block}.rs,
// view_client_actor.rs). Times are in ns.
const (
	MaxHeaders          = 512           // maximum number of headers in one response
	maxRouteAhead       = 16            // maximum number of blocks above the tip that are requested at a time
	headersRetry  int64 = 2_000_000_000 // ns until headers are requested again
	blockRetry    int64 = 800_000_000   // ns until a block is requested again, from all connected peers
	maxTries            = 20            // maximum number of requests for a block
	// A node that is more than maxBehind heights behind produces no chunks, because they would be
	// too late.
	maxBehind = 4
)

// isBehind returns whether the head is more than maxBehind heights below the highest known block.
func (n *Node) isBehind() bool {
	at := n.highestKnown()
	return n.head != nil && at != nil && at.Height > n.head.height+maxBehind
}

// missing is a requested block that has not arrived.
type missing struct {
	from  Peer
	last  int64
	tries int
}

// requestBlock requests a block from the peer that referred to the block. If from is empty,
// requestBlock requests the block from all connected peers.
func (n *Node) requestBlock(hash primitives.Hash, from Peer) {
	if n.missing[hash] != nil || n.e.Imported(hash) != nil || n.blocks.Pool().Has(hash) || len(n.missing) >= MaxMissing {
		return
	}
	n.missing[hash] = &missing{from: from, last: n.now}
	n.sendPeer(from, BlockRequest{hash})
}

// retryRequests requests overdue blocks again, from all connected peers.
func (n *Node) retryRequests() {
	var due []primitives.Hash
	for hash, m := range n.missing {
		if n.now-m.last >= blockRetry {
			due = append(due, hash)
		}
	}
	slices.SortFunc(due, primitives.Hash.Compare)
	for _, hash := range due {
		m := n.missing[hash]
		if m.tries++; m.tries > maxTries || n.e.Imported(hash) != nil {
			delete(n.missing, hash)
			continue
		}
		m.last = n.now
		n.sendPeer("", BlockRequest{hash})
	}
	if len(n.route) > 0 && n.now-n.headersAskedAt >= headersRetry {
		n.requestRoute()
	}
}

// requestHeaders requests the headers after this node's head from a peer that is far ahead. Without
// these headers, this node does not know the epochs and producers of that peer's blocks.
func (n *Node) requestHeaders(from Peer) {
	if n.headersAskedAt != 0 && n.now-n.headersAskedAt < headersRetry {
		return
	}
	n.headersAskedAt = n.now
	q := HeadersRequest{}
	if h, err := n.o.HeaderChain.Head(); err == nil {
		q.Hashes = append(q.Hashes, h.Hash)
	}
	q.Hashes = append(q.Hashes, n.e.Head().Hash, n.e.Final().Hash)
	n.note(nil, "requests headers from %s", from)
	n.sendPeer(from, q)
}

// answerHeaders sends the headers that follow the first of hashes that is on this node's chain.
func (n *Node) answerHeaders(from Peer, hashes []primitives.Hash) {
	s := n.e.Store()
	for _, hash := range hashes {
		at, err := n.e.Header(hash)
		if err != nil {
			continue
		}
		if on, err := s.HashAt(at.Height); err != nil || on != hash {
			continue
		}
		var out Headers
		for h := at.Height; len(out.List) < MaxHeaders; {
			next, err := s.NextBlock(h + 1)
			if err != nil {
				break
			}
			header, err := n.e.Header(next.Hash)
			if err != nil {
				break
			}
			out.List, h = append(out.List, header), next.Height
		}
		if len(out.List) > 0 {
			n.sendPeer(from, out)
		}
		return
	}
}

// headers adds received headers to the header chain and requests their blocks.
func (n *Node) headers(from Peer, list []*primitives.BlockHeader) {
	if _, err := n.o.HeaderChain.Add(list); err != nil {
		if engine.VerdictOf(err) == engine.VerdictLocalFault {
			n.fail(err)
			return
		}
		n.note(err, "headers of %s", from)
	}
	n.route = n.route[:0]
	for _, h := range list {
		n.route = append(n.route, h.Hash())
	}
	n.requestRoute()
	n.importNext()
}

// requestRoute requests the first blocks of n.route that are not imported yet.
func (n *Node) requestRoute() {
	for len(n.route) > 0 && n.e.Imported(n.route[0]) != nil {
		n.route = n.route[1:]
	}
	for i, hash := range n.route {
		if i >= maxRouteAhead {
			break
		}
		n.requestBlock(hash, "")
	}
}
