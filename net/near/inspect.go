package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// This file lets debug pages look at the tables of a PeerManager. The results are copies.

// KnownPeer is an entry of the table of known peers.
type KnownPeer struct {
	Info                wire.PeerInfo
	Status              string // neard's name: Unknown, NotConnected, Connected or Banned
	Reason              Reason // of a ban
	BannedAt            time.Time
	FirstSeen, LastSeen time.Time
	// Attempt is the time of the last dial; zero: the peer was not dialled. Failed is its result.
	Attempt time.Time
	Failed  bool
}

var statusNames = [...]string{unknown: "Unknown", notConnected: "NotConnected", connected: "Connected",
	banned: "Banned"}

// KnownPeers returns the known peers, sorted by id.
func (n *PeerManager) KnownPeers() (out []KnownPeer) {
	for _, k := range n.known.sorted(func(*known) bool { return true }) {
		out = append(out, KnownPeer{k.info, statusNames[k.status], k.reason, k.bannedAt, k.first, k.seen, k.attempt,
			k.attemptFailed})
	}
	return out
}

// RoutingGraph returns all edges, in any order, and the next hops to each peer that can be reached.
func (n *PeerManager) RoutingGraph() (edges []*wire.Edge, hops map[wire.PeerID][]wire.PeerID) {
	edges = make([]*wire.Edge, 0, len(n.graph.edges))
	for _, e := range n.graph.edges {
		edges = append(edges, e)
	}
	hops = make(map[wire.PeerID][]wire.PeerID, len(n.graph.hops))
	for to, by := range n.graph.hops {
		hops[to] = slices.Clone(by)
	}
	return edges, hops
}

// RecentConnection is an outbound T2 connection that has lasted for ten minutes.
type RecentConnection struct {
	Peer         wire.PeerInfo
	Since, Until time.Time // Until: when the connection was last seen open
}

// RecentConnections returns the last such connections, newest first.
func (n *PeerManager) RecentConnections() (out []RecentConnection) {
	for _, o := range n.recent {
		out = append(out, RecentConnection{o.peer, o.since, o.until})
	}
	return out
}
