package near

import (
	"net/netip"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	handshakeLimit  = 20 * time.Second
	maxInHandshake  = 60 // maximum number of inbound connections in their handshake
	maxAccountSkew  = 30 * time.Minute
	maxSeenMessages = 1000
	duplicateWindow = 50 * time.Millisecond
)

// conn is a connection, during its handshake or after it.
type conn struct {
	id      ConnID
	addr    netip.AddrPort // remote address of the socket
	inbound bool
	opened  time.Time
	isReady bool
	waiting bool // the handshake is valid, but the edge of the handshake was not added to the graph yet

	// Values that this node proposed, if the connection is outbound.
	tier    wire.Tier
	target  wire.PeerID
	version uint32
	half    wire.PartialEdge

	// Values that are known after the handshake.
	peer     wire.PeerInfo
	owned    primitives.PublicKey
	tracked  []primitives.ShardID
	archival bool
	since    time.Time
	heard    time.Time
	height   primitives.Height
	hash     primitives.Hash
	hasBlock bool
	// lastSentBlock is the last block that the peer sent over the connection. Sending the block
	// proves that the peer has accepted the block. A block that arrives by gossip from the peer may
	// only have been relayed.
	lastSentBlock primitives.Hash

	queued []queuedMsg // messages that wait while waiting is set, in order
	asked  lastHashes  // blocks that this node requested from the peer
	// silentNeighbours contains neighbours that did not send the peer a block. The value is the
	// time at which a neighbour is forgotten (after silentLife).
	silentNeighbours map[wire.PeerID]time.Time
	admission        *Admission // of messages that the caller has not admitted; nil: there was none
	due              connTimers
	// quota contains, for each rate limit, the time at which the peer will be fully within the
	// limit again.
	quota [numLimits]time.Time

	accounts gossip[primitives.PublicKey, *wire.AccountData]
	hosts    gossip[wire.PeerID, *wire.SnapshotHost]
}

// queuedMsg is a message that was received or is to be sent while a handshake waits for its edge.
type queuedMsg struct {
	msg      wire.Message
	in       bool
	admitted bool // see Received
}

// maxQueuedMsgs bounds the messages queued for a handshake. A handshake waits at most a second for
// its edge.
const maxQueuedMsgs = 10_000

func (n *PeerManager) dialled(now time.Time, ev Dialled) {
	c := &conn{id: ev.Conn, addr: ev.Peer.Addr, opened: now, tier: ev.Tier, target: ev.Peer.ID, version: n.Version,
		peer: ev.Peer}
	if n.ready[ev.Tier][ev.Peer.ID] != nil || ev.Peer.ID == n.me && ev.Tier != wire.T1 || n.excluded[ev.Peer.ID] {
		delete(n.out[ev.Tier], ev.Peer.ID)
		if c := n.ready[ev.Tier][ev.Peer.ID]; c != nil && ev.Tier == wire.T3 {
			n.sendAnswers(c)
		}
		n.do(Close{Conn: ev.Conn, Reason: OutboundNotAllowed})
		return
	}
	n.conns[c.id] = c
	n.out[ev.Tier][ev.Peer.ID] = ev.Peer
	c.half = n.propose(now, c.target)
	n.write(c, n.handshake(now, c.tier, c.target, c.version, c.half))
}

func (n *PeerManager) accepted(now time.Time, ev Accepted) {
	inHandshake, same := 0, 0
	for _, c := range n.conns {
		if c.inbound && !c.isReady {
			inHandshake++
			if c.addr.Addr() == ev.Addr.Addr() {
				same++
			}
		}
	}
	// One address may take half of the remaining slots. So silent connections from one address do
	// not keep out peers with other addresses.
	if inHandshake >= maxInHandshake || same > 0 && same >= (maxInHandshake-inHandshake+same)/2 {
		n.do(Close{Conn: ev.Conn, Reason: TooManyInbound})
		return
	}
	n.conns[ev.Conn] = &conn{id: ev.Conn, addr: ev.Addr, inbound: true, opened: now}
}

// propose signs this node's half of an edge. The nonce is the current time, and above the nonce of
// the existing edge.
func (n *PeerManager) propose(now time.Time, to wire.PeerID) wire.PartialEdge {
	nonce := wire.FreshNonce(now.Unix())
	if e := n.graph.Local(to); e != nil {
		nonce = max(nonce, wire.NextNonce(e.Nonce))
	}
	return wire.SignEdge(n.Key, to, nonce)
}

func (n *PeerManager) handshake(
	now time.Time, tier wire.Tier, to wire.PeerID, version uint32, half wire.PartialEdge,
) *wire.Handshake {
	h := &wire.Handshake{Tier: tier, Version: version, Oldest: n.Oldest, Sender: n.me, Target: to, PartialEdge: half,
		ListenPort: n.ListenAddr.Port(), Chain: wire.ChainInfo{Genesis: n.Genesis, Archival: n.Archival}}
	if n.head != nil {
		h.Chain.Height, h.Chain.TrackedShards = n.head.Block.Header.Height, n.head.TrackedShards
	}
	if key := n.accounts.key; !key.IsZero() {
		h.OwnedAccount = &wire.OwnedAccount{PeerID: n.me, Timestamp: timestamp(now)}
		h.OwnedAccount.Sign(key)
	}
	return h
}

func (n *PeerManager) self() wire.PeerInfo {
	return wire.PeerInfo{ID: n.me, Addr: n.ListenAddr, AccountID: n.account}
}

// handleHandshake handles a message of a connection before its handshake is complete. Unexpected
// messages are ignored.
func (n *PeerManager) handleHandshake(now time.Time, c *conn, m wire.Message) {
	switch m := m.(type) {
	case *wire.Handshake:
		if !c.waiting {
			n.checkHandshake(now, c, m)
		}
	case *wire.HandshakeFailure:
		if !c.inbound {
			n.handshakeRefused(now, c, m)
		}
	case *wire.LastEdge:
		if c.inbound {
			return
		}
		if e := m.Edge; e.Other(n.me) != c.target || e.Nonce < c.half.Nonce || !e.Verify() {
			n.close(now, c, HandshakeFailed, NotBanned)
			return
		}
		c.half = wire.SignEdge(n.Key, c.target, max(wire.NextNonce(m.Edge.Nonce), wire.FreshNonce(now.Unix())))
		n.write(c, n.handshake(now, c.tier, c.target, c.version, c.half))
	}
}

// handshakeRefused handles a HandshakeFailure of an outbound connection.
func (n *PeerManager) handshakeRefused(now time.Time, c *conn, f *wire.HandshakeFailure) {
	switch f.Reason {
	case wire.VersionMismatch:
		common := min(f.Version, n.Version)
		if common >= f.Oldest && common >= n.Oldest {
			c.version = common
			n.write(c, n.handshake(now, c.tier, c.target, c.version, c.half))
			return
		}
	case wire.InvalidTarget:
		n.known.learnDirect(now, f.Peer)
	}
	n.close(now, c, HandshakeFailed, NotBanned)
}

// checkHandshake validates a handshake, in the order of neard's checks.
func (n *PeerManager) checkHandshake(now time.Time, c *conn, h *wire.Handshake) {
	if n.excluded[h.Sender] {
		n.close(now, c, Requested, NotBanned)
		return
	}
	if c.inbound {
		if !n.checkInbound(now, c, h) {
			return
		}
	} else if h.Version != c.version || h.Chain.Genesis != n.Genesis || h.Sender != c.target || h.Tier != c.tier ||
		h.PartialEdge.Nonce != c.half.Nonce {
		n.close(now, c, HandshakeFailed, NotBanned)
		return
	}
	if o := h.OwnedAccount; o != nil {
		at := time.Unix(o.Timestamp.Seconds, int64(o.Timestamp.Nanos))
		switch d := at.Sub(now); {
		case !o.Verify(o.AccountKey):
			n.setPeer(c, h)
			n.close(now, c, Banned, InvalidSignature)
			return
		case o.PeerID != h.Sender:
			n.close(now, c, AccountMismatch, NotBanned)
			return
		case d >= maxAccountSkew || d <= -maxAccountSkew:
			n.noteSkew(now, h.Sender, d)
			n.close(now, c, TooLargeSkew, NotBanned)
			return
		}
	}
	if c.inbound {
		c.tier, c.version, c.half = h.Tier, h.Version, wire.SignEdge(n.Key, h.Sender, h.PartialEdge.Nonce)
	}
	n.setPeer(c, h)
	edge := wire.NewEdge(n.me, h.Sender, h.PartialEdge.Nonce, c.half.Signature, h.PartialEdge.Signature)
	if !n.isAdmissible(now, c, edge) || !n.insert(c) {
		n.close(now, c, Rejected, NotBanned)
		return
	}
	if c.waiting = true; c.tier == wire.T2 { // edges are processed once a second
		n.ownEdges = append(n.ownEdges, edgeBatch{edges: []*wire.Edge{edge}, done: c.id})
		return
	}
	n.established(now, c)
}

// checkInbound returns whether an inbound handshake is acceptable. If not, checkInbound sends a
// HandshakeFailure, after which the peer may send another handshake.
func (n *PeerManager) checkInbound(now time.Time, c *conn, h *wire.Handshake) bool {
	fail := func(f wire.HandshakeFailure) bool {
		f.Peer = n.self()
		n.write(c, &f)
		return false
	}
	switch {
	case h.Version < n.Oldest || h.Version > n.Version:
		return fail(wire.HandshakeFailure{Reason: wire.VersionMismatch, Version: n.Version, Oldest: n.Oldest})
	case h.Chain.Genesis != n.Genesis:
		return fail(wire.HandshakeFailure{Reason: wire.GenesisMismatch, Genesis: n.Genesis})
	case h.Target != n.me:
		return fail(wire.HandshakeFailure{Reason: wire.InvalidTarget})
	case !validNonce(h.PartialEdge.Nonce, now):
		if d, ok := nonceSkew(h.PartialEdge.Nonce, now); ok {
			n.noteSkew(now, h.Sender, d)
		}
		n.close(now, c, HandshakeFailed, NotBanned)
		return false
	}
	if e := n.graph.Local(h.Sender); e != nil && e.Nonce >= h.PartialEdge.Nonce {
		n.write(c, &wire.LastEdge{Edge: e})
		return false
	}
	return true
}

// setPeer takes the peer's identity from the handshake h.
func (n *PeerManager) setPeer(c *conn, h *wire.Handshake) {
	c.peer = wire.PeerInfo{ID: h.Sender}
	if h.ListenPort != 0 {
		c.peer.Addr = netip.AddrPortFrom(c.addr.Addr(), h.ListenPort)
	}
	c.tracked, c.archival = h.Chain.TrackedShards, h.Chain.Archival
	if c.owned = ""; h.OwnedAccount != nil {
		c.owned = h.OwnedAccount.AccountKey
	}
}

// isAdmissible returns whether the peer may connect on this tier (network_state/mod.rs:406).
func (n *PeerManager) isAdmissible(now time.Time, c *conn, edge *wire.Edge) bool {
	if !c.peer.Addr.IsValid() || n.Blacklisted(c.peer.Addr) || n.known.isBanned(c.peer.ID) {
		return false
	}
	if c.inbound {
		switch c.tier {
		case wire.T1:
			if n.NoInboundT1 || c.owned == "" || !n.accounts.keys[c.owned] {
				return false
			}
		case wire.T2:
			full := len(n.ready[wire.T2])+len(n.out[wire.T2]) >= n.MaxPeers
			if (full || n.NoInbound) && !n.whitelisted(c.peer) {
				return false
			}
		case wire.T3:
			if at, asked := n.pendingT3[c.peer.ID]; !asked || now.Sub(at) >= pendingT3Life {
				return false
			}
		}
	}
	return edge.Verify()
}

func (n *PeerManager) whitelisted(p wire.PeerInfo) bool {
	for _, w := range n.Whitelist {
		if w.ID == p.ID && w.Addr == p.Addr && (w.AccountID == "" || w.AccountID == p.AccountID) {
			return true
		}
	}
	return false
}

// insert adds a connection to its tier and returns true. insert returns false if the peer or the
// peer's validator key is already connected. If both nodes dial at the same time, the connection
// dialled by the node with the lower id is kept.
func (n *PeerManager) insert(c *conn) bool {
	ready, out := n.ready[c.tier], n.out[c.tier]
	if c.inbound && c.peer.ID == n.me {
		if _, dialling := out[n.me]; n.loop != nil || ready[n.me] == nil && !dialling {
			return false
		}
		n.loop = c
		return true
	}
	if _, dialling := out[c.peer.ID]; c.inbound && dialling && c.peer.ID >= n.me {
		return false
	}
	if ready[c.peer.ID] != nil || c.owned != "" && n.byKey[c.tier][c.owned] != nil {
		return false
	}
	if ready[c.peer.ID] = c; c.owned != "" {
		n.byKey[c.tier][c.owned] = c
	}
	return true
}

// established completes a handshake. established sends the answer, and the messages that neard
// sends right after the answer.
func (n *PeerManager) established(now time.Time, c *conn) {
	waited := c.queued
	c.isReady, c.waiting, c.queued, c.since, c.heard = true, false, nil, now, now
	if !c.inbound {
		delete(n.out[c.tier], c.target)
	} else {
		n.write(c, n.handshake(now, c.tier, c.peer.ID, c.version, c.half))
	}
	switch c.tier {
	case wire.T2:
		delete(n.retries, c.peer.ID)
		n.known.connected(now, c.peer)
		if !c.inbound {
			n.known.attempted(now, c.peer.ID, false)
		}
		n.greet(now, c)
	case wire.T3:
		n.sendAnswers(c)
	}
	for _, h := range waited {
		if n.conns[c.id] != c {
			return
		}
		if h.in {
			n.received(now, c, h.msg, h.admitted)
		} else {
			n.write(c, h.msg)
		}
	}
}

// greet sends the initial messages of a T2 connection: all edges, announcements and hosts. tick
// sends the periodic messages, the first ones at once.
func (n *PeerManager) greet(now time.Time, c *conn) {
	edges := n.graph.Edges()
	if n.SkipTombstones > 0 {
		edges = activeOnly(edges)
	}
	n.write(c, &wire.RoutingTable{Edges: edges, Accounts: n.announced.all()})
	n.write(c, &wire.SnapshotHosts{Hosts: n.hosts.all()})
	c.due.start(now, !c.inbound)
}

func activeOnly(edges []*wire.Edge) []*wire.Edge {
	var out []*wire.Edge
	for _, e := range edges {
		if e.Active() {
			out = append(out, e)
		}
	}
	return out
}

// close ends a connection: close sends Disconnect, and removes the connection from all tables.
func (n *PeerManager) close(now time.Time, c *conn, why CloseReason, ban Reason) {
	if n.conns[c.id] != c {
		return
	}
	c.waiting, c.queued = false, nil
	n.write(c, &wire.Disconnect{RemoveFromStore: c.inbound && why.forgets()})
	n.do(Close{c.id, why, ban})
	delete(n.conns, c.id)
	if !c.isReady && !c.inbound {
		delete(n.out[c.tier], c.target)
		n.dialFailed(now, c.target, c.tier)
	}
	if n.loop == c {
		n.loop = nil
		return
	}
	inPool := c.tier != 0 && n.ready[c.tier][c.peer.ID] == c
	if !inPool {
		return
	}
	delete(n.ready[c.tier], c.peer.ID)
	if c.owned != "" && n.byKey[c.tier][c.owned] == c {
		delete(n.byKey[c.tier], c.owned)
	}
	if c.tier != wire.T2 || !c.isReady {
		return
	}
	if e := n.graph.Local(c.peer.ID); e != nil && e.Active() {
		n.addLocal(e.Remove(n.Key))
	}
	n.known.disconnected(now, c.peer.ID, ban)
	n.lost(c, why)
}
