package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of messages, as in neard. This node bans a peer that exceeds one of these bounds, except
// maxTxsPerBlock.
const (
	maxPeersSent       = 512
	maxDirectPeersSent = 128
	maxLocator         = 20
	maxTxsPerBlock     = 1000 // number of ForwardTx messages of all peers that are accepted between two blocks
)

// received handles a message of connection c. admitted is Received.Admitted.
func (n *PeerManager) received(now time.Time, c *conn, m wire.Message, admitted bool) {
	switch {
	case c.waiting && len(c.queued) >= maxQueuedMsgs:
		n.close(now, c, StreamError, NotBanned)
	case c.waiting:
		c.queued = append(c.queued, queuedMsg{msg: m, in: true, admitted: admitted})
	case !admitted && !n.admits(now, c, m):
	case c.isRateLimited(now, m):
		n.Meter.limited(m)
	case !c.isReady:
		n.handleHandshake(now, c, m)
	default:
		if c.heard = now; !c.tier.Allows(m) {
			n.close(now, c, DisallowedMessage, NotBanned)
			return
		}
		n.handle(now, c, m)
	}
}

// limit is a kind of message that costs this node much more than its sender.
type limit byte

const (
	peersRequests limit = iota
	peersResponses
	nonceRequests
	accountsSyncs
	pings
	numLimits
)

// limits bound how often a peer may send a kind of message: burst messages at once, and one more in
// each period. A peer that sends at neard's intervals uses a sixth of this rate. These limits apply
// in addition to Config.Rates.
var limits = [numLimits]struct {
	period time.Duration
	burst  int
}{
	peersRequests: {10 * time.Second, 6}, peersResponses: {10 * time.Second, 6}, nonceRequests: {10 * time.Second, 6},
	accountsSyncs: {time.Second, 10}, pings: {10 * time.Millisecond, 100},
}

// allow returns whether a message of kind l is within the limit. If so, allow counts the message.
func (c *conn) allow(now time.Time, l limit) bool {
	x, full := &limits[l], c.quota[l]
	if full.Before(now) {
		full = now
	}
	if full.Sub(now) > time.Duration(x.burst-1)*x.period {
		return false
	}
	c.quota[l] = full.Add(x.period)
	return true
}

// admits returns whether the connection's admission admits a message.
func (n *PeerManager) admits(now time.Time, c *conn, m wire.Message) bool {
	if c.admission == nil {
		c.admission = n.NewAdmission(c.opened)
	}
	return c.admission.Admit(now, m)
}

// isRateLimited returns whether a message exceeds one of limits. Such a message is dropped, and the
// connection stays open, as in neard.
func (c *conn) isRateLimited(now time.Time, m wire.Message) bool {
	switch m.(type) {
	case *wire.PeersRequest:
		return !c.allow(now, peersRequests)
	case *wire.PeersResponse:
		return !c.allow(now, peersResponses)
	case *wire.NonceRequest:
		return !c.allow(now, nonceRequests)
	}
	return false
}

// handle handles a message of an established connection.
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
		n.sendPeers(c, m)
	case *wire.PeersResponse:
		n.receivePeers(now, c, m)
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
		c.lastSentBlock = m.Block.Hash()
		n.block(c, m, false)
	case *wire.BlockRequest:
		n.noteBlockRequest(now, c, m.Hash)
		n.deliver(c, m)
	// These are handshake messages after the handshake, or obsolete messages. This node ignores
	// such messages.
	case *wire.HandshakeFailure, *wire.LastEdge, *wire.Challenge:
	default:
		n.deliver(c, m)
	}
}

// gossiped delivers a message that a transport has validated.
func (n *PeerManager) gossiped(now time.Time, ev *Gossiped) {
	c, m := n.ready[wire.T2][ev.Peer], ev.Msg
	if c == nil || !c.isReady {
		n.do(Deliver{From: ev.Peer, Tier: wire.T2, Msg: m, Gossiped: true})
		return
	}
	c.heard = now
	if b, ok := m.(*wire.Block); ok {
		if n.Sparing {
			// A relaying peer may not have sent the block to all of its neighbours.
			n.blockSources.Put(b.Block.Hash(), "")
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

// block records the height of the peer and delivers the block.
func (n *PeerManager) block(c *conn, m *wire.Block, gossiped bool) {
	n.txs.Store(0)
	h := m.Block.Header
	if !c.hasBlock || c.height <= h.Height {
		c.hasBlock, c.height, c.hash = true, h.Height, h.Hash()
	}
	asked := c.asked.has(h.Hash())
	// A peer that answers a request does not send the block to its other neighbours.
	if n.Sparing && !asked {
		n.blockSources.Put(h.Hash(), c.peer.ID)
	}
	n.do(Deliver{From: c.peer.ID, Tier: c.tier, Msg: m, Requested: asked, Gossiped: gossiped})
}

func (n *PeerManager) sendPeers(c *conn, q *wire.PeersRequest) {
	limit := min(max(n.MaxPeersSent, 0), maxPeersSent)
	if q.MaxPeers != nil {
		limit = min(limit, int(*q.MaxPeers))
	}
	r := &wire.PeersResponse{Peers: n.known.healthy(n.Draw, limit)}
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

func (n *PeerManager) receivePeers(now time.Time, c *conn, r *wire.PeersResponse) {
	if len(r.Peers) > maxPeersSent || len(r.DirectPeers) > maxDirectPeersSent {
		n.close(now, c, Banned, Abusive)
		return
	}
	for _, p := range r.DirectPeers {
		if p.ID == n.me && p.Addr.IsValid() && !n.PublicAddr.IsValid() {
			n.PublicAddr = p.Addr
		}
	}
	for _, list := range [...][]wire.PeerInfo{r.Peers, r.DirectPeers} {
		banned := func(p wire.PeerInfo) bool { return p.Addr.IsValid() && n.Blacklisted(p.Addr) }
		n.known.learn(now, slices.DeleteFunc(slices.Clone(list), banned), n.me)
	}
}

// nonceRequest signs the edge that the peer proposes. If this node has an edge that is at least as
// new, nonceRequest answers with that edge instead.
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
	if len(edges) > 0 && len(edges) <= maxEdgesInMessage && n.edgesQueued+len(edges) <= maxEdgesQueued {
		n.edgesQueued += len(edges)
		n.edgeBatch = append(n.edgeBatch, edgeBatch{edges: edges, source: c.peer.ID, from: c.id})
	} else {
		n.graph.dropped += uint64(len(edges))
	}
	if len(m.Accounts) == 0 {
		return
	}
	j := VerifyAnnouncements{From: c.peer.ID, List: m.Accounts, KnownEpoch: map[primitives.AccountID]primitives.EpochID{}}
	for _, a := range m.Accounts {
		if old := n.announced.of[a.AccountID]; old != nil {
			j.KnownEpoch[a.AccountID] = old.EpochID
		}
	}
	n.do(j)
}

// announcementsVerified stores verified announcements and sends the new ones to all peers.
func (n *PeerManager) announcementsVerified(now time.Time, j AnnouncementsVerified) {
	if fresh := n.announced.add(j.Good); len(fresh) > 0 {
		n.toAll(now, ToAll{Msg: &wire.RoutingTable{Accounts: fresh}})
	}
	if j.Ban != NotBanned {
		n.ban(now, j.From, j.Ban)
	}
}

// ban closes a peer's T2 connection and bans the peer. Without a connection, ban only records the
// ban.
func (n *PeerManager) ban(now time.Time, peer wire.PeerID, why Reason) {
	if c := n.ready[wire.T2][peer]; c != nil {
		n.close(now, c, Banned, why)
		return
	}
	n.known.disconnected(now, peer, why)
}

func (n *PeerManager) accountsData(now time.Time, c *conn, m *wire.AccountsData) {
	if m.RequestingFullSync && c.allow(now, accountsSyncs) {
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

// snapshot announces to all peers the shards whose state this node serves.
func (n *PeerManager) snapshot(now time.Time, ev Snapshot) {
	s := wire.NewSnapshotHost(n.Key, ev.SyncHash, ev.EpochHeight, ev.Shards)
	if n.hosts.isNew(s) {
		n.hosts.put(s)
	}
	n.toAll(now, ToAll{Msg: &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{s}}})
}
