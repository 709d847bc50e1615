package near

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// dial opens a connection to a peer and returns whether it dials. dial does nothing if a connection
// is open or being dialled, or if the peer is excluded.
func (n *PeerManager) dial(p wire.PeerInfo, tier wire.Tier) bool {
	_, under := n.out[tier][p.ID]
	if under || n.excluded[p.ID] || n.ready[tier][p.ID] != nil || p.ID == n.me && tier != wire.T1 || !p.Addr.IsValid() {
		return false
	}
	n.out[tier][p.ID] = p
	n.do(Dial{p, tier})
	return true
}

func (n *PeerManager) dialFailed(now time.Time, id wire.PeerID, tier wire.Tier) {
	switch tier {
	case wire.T2:
		n.known.failed(now, id)
	case wire.T3:
		delete(n.answers, id)
	}
}

// monitor keeps the number of T2 connections in range. Each call dials at most one peer or closes
// at most one connection.
func (n *PeerManager) monitor(now time.Time) {
	n.known.update(now)
	for id, at := range n.pendingT3 {
		if now.Sub(at) >= pendingT3Life {
			delete(n.pendingT3, id)
		}
	}
	t2, pending, ours := len(n.ready[wire.T2]), len(n.out[wire.T2]), 0
	for _, c := range n.ready[wire.T2] {
		if !c.inbound {
			ours++
		}
	}
	if !n.NoOutbound && (t2+pending < n.IdealLow || t2+pending < n.MaxPeers && ours+pending < n.MinOutbound) {
		prefer := n.Draw(100) < preferKnown
		p, found := n.known.candidate(n.Draw, prefer, func(p wire.PeerInfo) bool {
			_, under := n.out[wire.T2][p.ID]
			return p.ID == n.me || p.Addr == n.ListenAddr || under || n.excluded[p.ID]
		})
		if found {
			if !n.timers.foundPeer { // after the first candidate, monitor is called more often
				n.timers.foundPeer, n.timers.monitorStep = true, monitorFirst
			}
			n.dial(p, wire.T2)
		}
	}
	n.dropOne(now, ours)
	for _, c := range n.sorted(wire.T3) {
		if now.Sub(c.heard) >= idleT3 && now.Sub(c.since) >= idleT3 {
			n.close(now, c, Requested, NotBanned)
		}
	}
}

// dropOne closes a random connection if there are more than IdealHigh. dropOne keeps connections
// with whitelisted peers, outbound connections while these are few, and the SafeSet oldest active
// connections.
func (n *PeerManager) dropOne(now time.Time, ours int) {
	safe := map[wire.PeerID]bool{}
	list := n.sorted(wire.T2)
	for _, c := range list {
		if n.whitelisted(c.peer) {
			safe[c.peer.ID] = true
		}
	}
	if len(list)-len(safe) <= n.IdealHigh {
		return
	}
	if ours+len(n.out[wire.T2]) <= n.MinOutbound {
		for _, c := range list {
			safe[c.peer.ID] = safe[c.peer.ID] || !c.inbound
		}
	}
	byAge := slices.Clone(list)
	slices.SortStableFunc(byAge, func(a, b *conn) int { return a.since.Compare(b.since) })
	for _, c := range byAge {
		if now.Sub(c.heard) < recentlyActive && countTrue(safe) < n.SafeSet {
			safe[c.peer.ID] = true
		}
	}
	list = slices.DeleteFunc(list, func(c *conn) bool { return safe[c.peer.ID] })
	if len(list) > 0 {
		n.close(now, list[n.Draw(len(list))], Requested, NotBanned)
	}
}

func countTrue(m map[wire.PeerID]bool) (count int) {
	for _, v := range m {
		if v {
			count++
		}
	}
	return count
}

// remember records outbound connections that have lasted for recentAfter. remember schedules
// another dial for remembered connections that were lost.
func (n *PeerManager) remember(now time.Time) {
	for _, c := range n.sorted(wire.T2) {
		if !c.inbound && c.isReady && now.Sub(c.since) >= recentAfter {
			n.forgetOutbound(c.peer.ID)
			n.recent = slices.Insert(n.recent, 0, outbound{c.peer, c.since, now})
		}
	}
	n.recent = n.recent[:min(len(n.recent), maxRecent)]
	for _, p := range n.redial {
		n.retries[p.ID] = retry{p, maxRedials, now}
	}
	n.redial = nil
}

func (n *PeerManager) forgetOutbound(id wire.PeerID) {
	n.recent = slices.DeleteFunc(n.recent, func(o outbound) bool { return o.peer.ID == id })
}

// lost handles the end of an established connection. An outbound connection that had lasted for
// recentAfter is dialled again.
func (n *PeerManager) lost(c *conn, why CloseReason) {
	if c.inbound {
		return
	}
	if why.forgets() {
		n.forgetOutbound(c.peer.ID)
	}
	if slices.ContainsFunc(n.recent, func(o outbound) bool { return o.peer.ID == c.peer.ID }) {
		n.redial = append(n.redial, c.peer)
	}
}

func (n *PeerManager) tickRetries(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(n.retries)) {
		r := n.retries[id]
		switch {
		case now.Before(r.at):
		case r.left == 0 || n.ready[wire.T2][id] != nil:
			delete(n.retries, id)
		default:
			n.retries[id] = retry{r.peer, r.left - 1, now.Add(redialPeriod)}
			n.dial(r.peer, wire.T2)
		}
	}
}

// advertise requests the account data of all peers, and sends all peers this node's own data.
func (n *PeerManager) advertise(now time.Time) {
	n.toAll(now, ToAll{Msg: &wire.AccountsData{Incremental: true, RequestingFullSync: true}})
	n.timers.advertised, n.timers.advertise = now, now.Add(n.AdvertisePeriod)
	if d := n.accounts.advertise(now); d != nil {
		n.toAll(now, ToAll{Msg: &wire.AccountsData{Data: []*wire.AccountData{d}, Incremental: true}})
	}
}

// dialProxies dials this validator's own proxies over T1. If this node is its own proxy, it dials
// itself, which shows that the address is right (nearcore
// chain/network/src/peer_manager/network_state/tier1.rs tier1_advertise_proxies).
func (n *PeerManager) dialProxies() {
	if n.accounts.key.IsZero() || !n.accounts.keys[n.accounts.key.PublicKey()] {
		return
	}
	for _, p := range n.accounts.proxies {
		n.dial(wire.PeerInfo{ID: p.PeerID, Addr: p.Addr}, wire.T1)
	}
}

// closeOldLoop closes this node's T1 connection to itself if the connection is to an address that is
// no longer among the proxies. An idle connection to an address that the machine has lost stays open,
// and would keep the node from dialling its new address.
func (n *PeerManager) closeOldLoop(now time.Time) {
	c := n.ready[wire.T1][n.me]
	if c == nil || slices.Contains(n.accounts.proxies, wire.PeerAddr{PeerID: n.me, Addr: c.peer.Addr}) {
		return
	}
	if n.loop != nil {
		n.close(now, n.loop, Requested, NotBanned)
	}
	n.close(now, c, Requested, NotBanned)
}

// checkProxies schedules an advertisement if the proxies to which this node is connected have
// changed. All nodes relay an advertisement, so a proxy whose connection is lost again and again
// causes at most one per advertisePause.
func (n *PeerManager) checkProxies(now time.Time) {
	var connected []wire.PeerAddr
	for _, p := range n.accounts.proxies {
		if c := n.ready[wire.T1][p.PeerID]; c != nil && c.isReady && c.peer.Addr == p.Addr {
			connected = append(connected, p)
		}
	}
	if slices.Equal(connected, n.accounts.connected) {
		return
	}
	n.accounts.connected = connected
	if at := n.timers.advertised.Add(advertisePause); at.Before(n.timers.advertise) {
		n.timers.advertise = at
	}
}

// connectT1 closes T1 connections that no longer serve an account. connectT1 dials a proxy of each
// account that has no connection.
func (n *PeerManager) connectT1(now time.Time) {
	n.dialProxies()
	if n.NoOutboundT1 {
		return
	}
	key := n.accounts.key
	validating := !key.IsZero() && n.accounts.keys[key.PublicKey()]
	safe, keep := map[primitives.PublicKey]bool{}, map[wire.PeerID]bool{}
	for k, c := range n.byKey[wire.T1] {
		if n.accounts.keys[k] && (validating || c.inbound) {
			safe[k], keep[c.peer.ID] = true, true
		}
	}
	if validating {
		keep[n.me] = true
		for _, d := range n.accounts.all() {
			for _, p := range d.Proxies {
				if c := n.ready[wire.T1][p.PeerID]; c != nil && !c.inbound && !safe[d.AccountKey] {
					safe[d.AccountKey], keep[p.PeerID] = true, true
				}
			}
		}
		for _, p := range n.accounts.proxies {
			keep[p.PeerID] = true
		}
	}
	for _, c := range n.sorted(wire.T1) {
		if !keep[c.peer.ID] {
			n.close(now, c, Requested, NotBanned)
		}
	}
	if !validating {
		return
	}
	var wanted []*wire.AccountData
	for _, d := range n.accounts.all() {
		if !safe[d.AccountKey] && d.AccountKey != key.PublicKey() && len(d.Proxies) > 0 {
			wanted = append(wanted, d)
		}
	}
	for dials := 0; dials < n.NewT1 && len(wanted) > 0; {
		i := n.Draw(len(wanted))
		p := wanted[i].Proxies[n.Draw(len(wanted[i].Proxies))]
		if wanted = slices.Delete(wanted, i, i+1); n.dial(wire.PeerInfo{ID: p.PeerID, Addr: p.Addr}, wire.T1) {
			dials++
		}
	}
}
