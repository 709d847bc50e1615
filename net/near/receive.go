package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// The bounds of plain messages. Above them the sender is banned.
const (
	maxPeersTold       = 512
	maxDirectPeersTold = 128
	maxLocator         = 20
	maxTxsPerBlock     = 1000 // ForwardTx between blocks, of all peers; more are dropped
	epochSyncPeriod    = 30 * time.Second
)

// received handles a message of c.
func (n *PeerManager) received(now time.Time, c *conn, m wire.Message) {
	switch {
	case c.waiting && len(c.held) >= maxHeld:
		n.close(now, c, StreamError, NotBanned)
	case c.waiting:
		c.held = append(c.held, held{msg: m, in: true})
	case limited(now, c, m):
	case !c.isReady:
		n.connecting(now, c, m)
	default:
		if c.heard = now; !c.tier.Allows(m) {
			n.close(now, c, DisallowedMessage, NotBanned)
			return
		}
		n.handle(now, c, m)
	}
}

// limit is what costs this node much more than its sender.
type limit byte

const (
	epochAsked limit = iota
	epochTold
	peersAsked
	peersTold
	nonceAsked
	accountsAsked
	pinged
	numLimits
)

// limits are how often a peer may have it, and how many times at once. Who keeps to the times of
// network.md needs a sixth of that; epoch sync is neard's own.
var limits = [numLimits]struct {
	period time.Duration
	burst  int
}{
	epochAsked: {epochSyncPeriod, 1}, epochTold: {epochSyncPeriod, 1}, peersAsked: {10 * time.Second, 6}, peersTold: {10 * time.Second, 6}, nonceAsked: {10 * time.Second, 6},
	accountsAsked: {time.Second, 10}, pinged: {10 * time.Millisecond, 100},
}

// may tells whether a peer may have it once more now.
func (c *conn) may(now time.Time, l limit) bool {
	x, full := &limits[l], c.spent[l]
	if full.Before(now) {
		full = now
	}
	if full.Sub(now) > time.Duration(x.burst-1)*x.period {
		return false
	}
	c.spent[l] = full.Add(x.period)
	return true
}

// limited tells whether a message comes too early after others of its kind.
func limited(now time.Time, c *conn, m wire.Message) bool {
	switch m.(type) {
	case *wire.EpochSyncRequest:
		return !c.may(now, epochAsked)
	case *wire.EpochSyncResponse:
		return !c.may(now, epochTold)
	case *wire.PeersRequest:
		return !c.may(now, peersAsked)
	case *wire.PeersResponse:
		return !c.may(now, peersTold)
	case *wire.NonceRequest:
		return !c.may(now, nonceAsked)
	}
	return false
}

// handle handles a message of a connection that is ready.
func (n *PeerManager) handle(now time.Time, c *conn, m wire.Message) {
	switch m := m.(type) {
	case *wire.Routed:
		n.handleRouted(now, c, m)
	case *wire.Disconnect:
		if m.RemoveFromStore {
			n.forgetOutbound(c.peer.ID)
		}
		n.close(now, c, Disconnected, NotBanned)
	case *wire.Handshake:
		n.close(now, c, DisallowedMessage, NotBanned)
	case *wire.PeersRequest:
		n.tellPeers(c, m)
	case *wire.PeersResponse:
		n.hearPeers(now, c, m)
	case *wire.NonceRequest:
		n.nonceRequest(now, c, m.PartialEdge)
	case *wire.RoutingTable:
		n.routingTable(now, c, m)
	case *wire.AccountsData:
		n.accountsData(now, c, m)
	case *wire.SnapshotHosts:
		fresh, ban := n.hosts.add(m.Hosts)
		n.gossipHosts(fresh)
		n.banIf(now, c, ban)
	case *wire.HeadersRequest:
		if len(m.Hashes) > maxLocator {
			n.close(now, c, Banned, Abusive)
			return
		}
		n.deliver(c, m)
	case *wire.Block:
		c.itself = m.Block.Hash()
		n.block(c, m, false)
	case *wire.BlockRequest:
		n.asks(now, c, m.Hash)
		n.deliver(c, m)
	case *wire.HandshakeFailure, *wire.LastEdge, *wire.Challenge: // too late, or of no use
	default:
		n.deliver(c, m)
	}
}

// gossiped passes on what a transport has judged.
func (n *PeerManager) gossiped(now time.Time, ev *Gossiped) {
	c, m := n.ready[wire.T2][ev.Peer], ev.Msg
	if c == nil || !c.isReady {
		n.do(Deliver{From: ev.Peer, Tier: wire.T2, Msg: m, Gossiped: true})
		return
	}
	c.heard = now
	if b, ok := m.(*wire.Block); ok {
		if n.Sparing {
			n.brought.put(b.Block.Hash(), "") // who hands gossip on does not tell all
		}
		n.block(c, b, true)
		return
	}
	n.do(Deliver{From: c.peer.ID, Tier: c.tier, Msg: m, Gossiped: true})
}

func (n *PeerManager) deliver(c *conn, m wire.Message) {
	n.do(Deliver{From: c.peer.ID, Tier: c.tier, Msg: m})
}

func (n *PeerManager) banIf(now time.Time, c *conn, ban Reason) {
	if ban != NotBanned {
		n.close(now, c, Banned, ban)
	}
}

// block notes how far the peer is and passes the block on.
func (n *PeerManager) block(c *conn, m *wire.Block, gossiped bool) {
	n.txs = 0
	h := m.Block.Header
	if !c.hasBlock || c.height <= h.Height {
		c.hasBlock, c.height, c.hash = true, h.Height, h.Hash()
	}
	asked := c.asked.has(h.Hash())
	if n.Sparing && !asked { // nor does who answers
		n.brought.put(h.Hash(), c.peer.ID)
	}
	n.do(Deliver{From: c.peer.ID, Tier: c.tier, Msg: m, Requested: asked, Gossiped: gossiped})
}

func (n *PeerManager) tellPeers(c *conn, q *wire.PeersRequest) {
	limit := maxPeersTold
	if q.MaxPeers != nil {
		limit = min(limit, int(*q.MaxPeers))
	}
	r := &wire.PeersResponse{Peers: n.store.healthy(n.Draw, limit)}
	for _, p := range n.sorted(wire.T2) {
		r.DirectPeers = append(r.DirectPeers, p.peer)
	}
	if q.MaxDirectPeers != nil {
		for len(r.DirectPeers) > int(*q.MaxDirectPeers) {
			i := n.Draw(len(r.DirectPeers))
			r.DirectPeers = slices.Delete(r.DirectPeers, i, i+1)
		}
	}
	if len(r.Peers)+len(r.DirectPeers) > 0 {
		n.write(c, r)
	}
}

func (n *PeerManager) hearPeers(now time.Time, c *conn, r *wire.PeersResponse) {
	if len(r.Peers) > maxPeersTold || len(r.DirectPeers) > maxDirectPeersTold {
		n.close(now, c, Banned, Abusive)
		return
	}
	for _, p := range r.DirectPeers {
		if p.ID == n.me && p.Addr.IsValid() && !n.PublicAddr.IsValid() {
			n.PublicAddr = p.Addr
		}
	}
	for _, list := range [...][]wire.PeerInfo{r.Peers, r.DirectPeers} {
		n.store.hear(now, slices.DeleteFunc(slices.Clone(list), func(p wire.PeerInfo) bool { return p.Addr.IsValid() && n.Blacklisted(p.Addr) }), n.me)
	}
}

// nonceRequest answers with the edge there is if it is as new, else signs the one that the peer
// wants.
func (n *PeerManager) nonceRequest(now time.Time, c *conn, half wire.PartialEdge) {
	if !validNonce(half.Nonce, now) {
		n.close(now, c, Banned, InvalidEdge)
		return
	}
	if e := n.graph.Local(c.peer.ID); e != nil && e.Active() && e.Nonce >= half.Nonce {
		n.write(c, &wire.RoutingTable{Edges: []*wire.Edge{e}})
		return
	}
	mine := wire.SignEdge(n.Key, c.peer.ID, half.Nonce)
	n.ownEdges = append(n.ownEdges, edgeBatch{from: c.id,
		edges: []*wire.Edge{wire.NewEdge(n.me, c.peer.ID, half.Nonce, mine.Signature, half.Signature)}})
}

func (n *PeerManager) routingTable(now time.Time, c *conn, m *wire.RoutingTable) {
	edges := m.Edges
	if n.SkipTombstones > 0 && now.Sub(c.since) < n.SkipTombstones {
		edges = activeOnly(edges)
	}
	if len(edges) > 0 && len(edges) <= maxEdgesInMessage && n.edgesWait+len(edges) <= maxEdgesWait {
		n.edgesWait += len(edges)
		n.edgeBatch = append(n.edgeBatch, edgeBatch{edges: edges, source: c.peer.ID, from: c.id})
	}
	if len(m.Accounts) == 0 {
		return
	}
	j := JudgeAnnouncements{From: c.peer.ID, List: m.Accounts, KnownEpoch: map[primitives.AccountID]primitives.EpochID{}}
	for _, a := range m.Accounts {
		if old := n.announced.of[a.AccountID]; old != nil {
			j.KnownEpoch[a.AccountID] = old.EpochID
		}
	}
	n.do(j)
}

// judged takes announcements that the rest of the node has verified and tells them on.
func (n *PeerManager) judged(now time.Time, j Judged) {
	if fresh := n.announced.add(j.Good); len(fresh) > 0 {
		n.toAll(now, ToAll{Msg: &wire.RoutingTable{Accounts: fresh}})
	}
	if j.Ban != NotBanned {
		n.ban(now, j.From, j.Ban)
	}
}

// ban ends the T2 connection of a peer, or remembers the ban for when it comes again.
func (n *PeerManager) ban(now time.Time, peer wire.PeerID, why Reason) {
	if c := n.ready[wire.T2][peer]; c != nil {
		n.close(now, c, Banned, why)
		return
	}
	n.store.gone(now, peer, why)
}

func (n *PeerManager) accountsData(now time.Time, c *conn, m *wire.AccountsData) {
	if m.RequestingFullSync && c.may(now, accountsAsked) {
		n.write(c, &wire.AccountsData{Data: n.accounts.all()})
	}
	fresh, ban := n.accounts.add(now, m.Data)
	for _, p := range n.sorted(wire.T2) {
		for _, d := range fresh {
			p.accounts.add(d.AccountKey, d, func(a, b *wire.AccountData) bool { return a.Version > b.Version })
		}
	}
	n.banIf(now, c, ban)
}

func (n *PeerManager) gossipHosts(fresh []*wire.SnapshotHost) {
	for _, p := range n.sorted(wire.T2) {
		for _, s := range fresh {
			p.hosts.add(s.PeerID, s, newerHost)
		}
	}
}

// snapshot tells everybody which shards this node serves.
func (n *PeerManager) snapshot(now time.Time, ev Snapshot) {
	s := wire.NewSnapshotHost(n.Key, ev.SyncHash, ev.EpochHeight, ev.Shards)
	if n.hosts.isNew(s) {
		n.hosts.put(s)
	}
	n.toAll(now, ToAll{Msg: &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{s}}})
}
