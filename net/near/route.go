package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// pendingT3Life is the time that a host has to connect and send the requested state.
const pendingT3Life = 60 * time.Second

// IsFull returns whether a ForwardTx is dropped until the next block, so that its signature need not
// be verified. Safe for concurrent use.
func (n *PeerManager) IsFull() bool { return n.txs.Load() > maxTxsPerBlock }

// handleRouted verifies a routed message. handleRouted then delivers the message or sends the
// message to the next hop. It drops a message without a route.
func (n *PeerManager) handleRouted(now time.Time, c *conn, m *wire.Routed) {
	kind := m.Body.BodyKind()
	if kind == wire.BodyForwardTx {
		if n.IsFull() {
			return
		}
		n.txs.Add(1)
	}
	forMe := m.Target.PeerID == n.me || m.Target.PeerID == "" && n.routeBack.peek(m.Target.Back) == n.me
	if good := forMe && m.VerifyFor() || !forMe && m.Verify(); !good {
		n.close(now, c, Banned, InvalidSignature)
		return
	}
	if forMe {
		n.Meter.arrived(now, m, c.tier, n.recentRouted.isFirst(m))
	}
	if kind.ExpectsResponse() && c.tier == wire.T2 {
		n.routeBack.put(now, m.Hash(), c.peer.ID)
	}
	if !forMe {
		if next := m.Hop(); next != nil {
			n.route(now, c.tier, next)
		}
		return
	}
	if m.Target.PeerID == "" {
		n.routeBack.take(m.Target.Back)
	}
	switch b := m.Body.(type) {
	case *wire.Ping:
		if !c.allow(now, pings) {
			return
		}
		n.route(now, c.tier, n.message(now, wire.RouteBack(m.Hash()), &wire.Pong{Nonce: b.Nonce, Source: n.me}))
	case *wire.Pong:
	default:
		n.deliver(c, m)
	}
}

// message returns a message of this node.
func (n *PeerManager) message(now time.Time, target wire.Target, body wire.Body) *wire.Routed {
	m := wire.Unsigned(n.Key, target, body, now.Unix())
	m.TTL = n.TTL
	return m
}

// route sends a message to its next hop. Over T1 and T3 the next hop is the target itself. Over T2
// the next hop is a neighbour on a shortest path or, for a response, the neighbour from which the
// request came. route returns whether there is a next hop.
func (n *PeerManager) route(now time.Time, tier wire.Tier, m *wire.Routed) bool {
	to := m.Target.PeerID
	if to == n.me {
		return false
	}
	if tier != wire.T2 {
		return to != "" && n.toPeer(tier, to, m)
	}
	if to == "" {
		to = n.routeBack.take(m.Target.Back)
	} else {
		to = n.graph.NextHop(to)
	}
	if to == "" {
		return false
	}
	if m.Author == n.me && m.Body.BodyKind().ExpectsResponse() {
		n.routeBack.put(now, m.Hash(), n.me)
	}
	return n.toPeer(wire.T2, to, m)
}

// proxy returns the T1 neighbour through which an account is reached; empty: none.
func (n *PeerManager) proxy(d *wire.AccountData) wire.PeerID {
	if c := n.byKey[wire.T1][d.AccountKey]; c != nil {
		return c.peer.ID
	}
	for _, p := range d.Proxies {
		if n.ready[wire.T1][p.PeerID] != nil {
			return p.PeerID
		}
	}
	return ""
}

// routeToAccount sends a body to an account, and returns whether it sent the body. If the account
// is this node's own, routeToAccount delivers the body to this node. If the body may be sent over
// T1 and the account is reachable over T1, routeToAccount uses T1. Otherwise it sends as many
// copies over T2 as the body's kind needs.
func (n *PeerManager) routeToAccount(now time.Time, ev RouteToAccount) bool {
	kind := ev.Body.BodyKind()
	if ev.AccountID == n.account && n.account != "" {
		if kind.MayGoToSelf() {
			n.do(Deliver{Tier: wire.T1, Msg: n.message(now, wire.ToPeer(n.me), ev.Body)})
		}
		return kind.MayGoToSelf()
	}
	data := n.accounts.of(ev.AccountID)
	if kind.IsT1() {
		for _, d := range data {
			if via := n.proxy(d); via != "" {
				return n.toPeer(wire.T1, via, n.message(now, wire.ToPeer(d.PeerID), ev.Body))
			}
		}
	}
	var to wire.PeerID
	if len(data) > 0 {
		to = data[0].PeerID
	} else if a := n.announced.of[ev.AccountID]; a != nil {
		to = a.PeerID
	} else {
		return false
	}
	m := n.message(now, wire.ToPeer(to), ev.Body)
	sent, copies := false, kind.Copies()
	if n.Sparing {
		copies = 1
	}
	for range copies {
		sent = n.route(now, wire.T2, m) || sent
	}
	return sent
}

// optimistic sends an optimistic block to the T1 neighbours of accounts, once to each.
func (n *PeerManager) optimistic(ev OptimisticTo) {
	sent := map[wire.PeerID]bool{}
	for _, id := range ev.Accounts {
		for _, d := range n.accounts.of(id) {
			if via := n.proxy(d); via != "" && !sent[via] {
				sent[via] = true
				n.toPeer(wire.T1, via, ev.Msg)
				break
			}
		}
	}
}

// askState requests state from a host. The host answers over T3 to this node's public address.
// Without a public address, askState does nothing.
func (n *PeerManager) askState(now time.Time, ev AskState) {
	if !n.PublicAddr.IsValid() {
		return
	}
	var body wire.Body = &wire.RoutedStatePartRequest{
		StatePartRequest: primitives.StatePartRequest{ShardID: ev.ShardID, SyncHash: ev.SyncHash, Part: ev.Part,
			Addr: n.PublicAddr}}
	if ev.IsHeader {
		body = &wire.RoutedStateHeaderRequest{
			StateHeaderRequest: primitives.StateHeaderRequest{ShardID: ev.ShardID, SyncHash: ev.SyncHash, Addr: n.PublicAddr}}
	}
	n.pendingT3[ev.Host] = now
	n.route(now, wire.T2, n.message(now, wire.ToPeer(ev.Host), body))
}

// HostFor returns the host to ask for a state header or part of a snapshot, and counts the request.
// The result is empty if no host serves that snapshot.
func (n *PeerManager) HostFor(sync primitives.Hash, shard primitives.ShardID, isHeader bool, part uint64) wire.PeerID {
	if !isHeader {
		return n.hosts.forPart(sync, shard, part)
	}
	if list := n.hosts.serving(sync, shard); len(list) > 0 {
		return list[n.Draw(len(list))]
	}
	return ""
}

// PartDone forgets the counted requests of a part that has arrived.
func (n *PeerManager) PartDone(shard primitives.ShardID, part uint64) { n.hosts.partDone(shard, part) }

// answerState sends a response over T3. Without a connection, answerState dials, and stores the
// responses until the connection is open. neard drops such responses.
func (n *PeerManager) answerState(ev AnswerState) {
	if n.toPeer(wire.T3, ev.Peer.ID, ev.Msg) {
		return
	}
	if len(n.answers[ev.Peer.ID]) >= maxAnswers || n.excluded[ev.Peer.ID] {
		return
	}
	n.answers[ev.Peer.ID] = append(n.answers[ev.Peer.ID], ev.Msg)
	if _, dialling := n.out[wire.T3][ev.Peer.ID]; !dialling {
		n.dial(ev.Peer, wire.T3)
	}
}

// sendAnswers sends the responses that waited for a T3 connection.
func (n *PeerManager) sendAnswers(c *conn) {
	for _, r := range n.answers[c.peer.ID] {
		n.write(c, r)
	}
	delete(n.answers, c.peer.ID)
}

// maxAnswers is the maximum number of state responses that wait for a connection to one node.
const maxAnswers = 8
