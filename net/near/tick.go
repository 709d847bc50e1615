package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// Intervals and bounds of neard, unless noted.
const (
	edgePeriod = time.Second // time between two batches of edges
	// Edges of peers wait one more edgePeriod for each edgesPerPeriod edges in the graph.
	edgesPerPeriod  = 10_000
	maxEdgesQueued  = 4 * maxEdgesInMessage
	peersPeriod     = time.Minute
	blockPeriod     = time.Minute
	accountsPeriod  = 10 * time.Minute
	noncePeriod     = edgeLife / 3
	advertisePeriod = 15 * time.Minute
	advertisePause  = 10 * time.Second // minimum time between two advertisements for changed proxies
	fixPeriod       = time.Minute
	fixPatience     = 6 * time.Second
	monitorFirst    = 10 * time.Millisecond
	monitorLast     = time.Minute
	recentPeriod    = time.Minute
	recentAfter     = 10 * time.Minute // minimum duration of a connection that this node remembers
	maxRecent       = 40
	redialPeriod    = 10 * time.Second
	maxRedials      = 6
	idleT3          = 15 * time.Second
	unreliableLag   = 60 // blocks behind the head from which on a peer is unreliable
	preferKnown     = 60 // percentage of dials that prefer a peer that was connected before
	recentlyActive  = 10 * time.Minute
)

// timers are the times of the next periodic tasks of the node.
type timers struct {
	monitor, fix, t1, advertise, recent time.Time
	advertised                          time.Time // time of the last advertisement
	monitorStep, t1Period               time.Duration
	foundPeer                           bool // monitor has found a candidate at least once
}

func (t *timers) start(now time.Time, t1 time.Duration) {
	t.monitor, t.monitorStep, t.t1Period = now, monitorFirst, t1
	t.fix, t.t1, t.recent = now.Add(fixPeriod), now, now.Add(recentPeriod)
}

// connTimers are the times of the next periodic messages of a connection; zero: never.
type connTimers struct{ accounts, peers, block, nonce time.Time }

func (t *connTimers) start(now time.Time, ours bool) {
	t.peers, t.block = now, now
	if ours {
		t.accounts, t.nonce = now, now.Add(noncePeriod)
	}
}

// catchUpMonitor lengthens the monitor's interval as if monitor had been called while there was no
// peer.
func (t *timers) catchUpMonitor(now time.Time) {
	for late := now.Sub(t.monitor); late >= t.monitorStep && t.monitorStep < monitorLast; t.lengthenStep() {
		late -= t.monitorStep
	}
}

func (t *timers) lengthenStep() { t.monitorStep = min(t.monitorStep*11/10, monitorLast) }

// edgeBatch is a group of edges to be processed.
type edgeBatch struct {
	edges  []*wire.Edge
	source wire.PeerID // peer that sent the edges; empty: this node
	from   ConnID      // connection to ban if an edge is invalid; 0: none
	done   ConnID      // connection whose handshake waits for the edges; 0: none
}

// fix is a local edge that contradicts the connections.
type fix struct {
	peer wire.PeerID
	at   time.Time
	// edge is removed if the peer is still not connected. If edge is nil, the peer is disconnected
	// unless the peer's edge is active by then.
	edge *wire.Edge
}

// retry is a peer to dial again.
type retry struct {
	peer wire.PeerInfo
	left int
	at   time.Time
}

// outbound is an outbound connection that lasted for recentAfter.
type outbound struct {
	peer         wire.PeerInfo
	since, until time.Time // until: time at which the connection was last seen open
}

func passed(now, at time.Time) bool { return !now.Before(at) }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// tick runs all tasks that are due.
func (n *PeerManager) tick(now time.Time) {
	n.processEdges(now)
	late, due := false, false // sort the connections only if a connection is late or due
	for _, c := range n.conns {
		late = late || c.isLate(now)
		due = due || c.isDue(now)
	}
	if late {
		for _, c := range n.byID() {
			if c.isLate(now) {
				n.close(now, c, HandshakeFailed, NotBanned)
			}
		}
	}
	if due {
		for _, c := range n.sorted(wire.T2) {
			if c.isReady {
				n.tickPeer(now, c)
			}
		}
	}
	n.tickRetries(now)
	t := &n.timers
	if passed(now, t.recent) {
		t.recent = now.Add(recentPeriod)
		n.remember(now)
	}
	n.checkProxies(now)
	if passed(now, t.advertise) {
		n.advertise(now)
	}
	if passed(now, t.t1) {
		t.t1 = now.Add(t.t1Period)
		n.connectT1(now)
	}
	if passed(now, t.fix) {
		t.fix = now.Add(fixPeriod)
		n.findFixes(now)
	}
	n.applyFixes(now)
	if passed(now, t.monitor) {
		t.catchUpMonitor(now)
		n.monitor(now)
		t.monitor = now.Add(t.monitorStep)
		t.lengthenStep()
	}
	n.processEdges(now)
}

// isLate returns whether the handshake timed out.
func (c *conn) isLate(now time.Time) bool {
	return !c.isReady && !c.waiting && now.Sub(c.opened) >= handshakeLimit
}

// isDue returns whether a periodic message to the peer is due.
func (c *conn) isDue(now time.Time) bool {
	for _, at := range [...]time.Time{c.due.accounts, c.due.peers, c.due.block, c.due.nonce} {
		if !at.IsZero() && passed(now, at) {
			return true
		}
	}
	return len(c.accounts.pending) > 0 && passed(now, c.accounts.next) ||
		len(c.hosts.pending) > 0 && passed(now, c.hosts.next)
}

// byID returns the connections, oldest first.
func (n *PeerManager) byID() []*conn {
	out := make([]*conn, 0, len(n.conns))
	for _, c := range n.conns {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *conn) int { return int(a.id) - int(b.id) })
	return out
}

// Wake returns when the next Tick is due, if no other event occurs before.
func (n *PeerManager) Wake() time.Time {
	wake := n.timers.fix
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(wake) {
			wake = at
		}
	}
	for _, at := range [...]time.Time{n.timers.t1, n.timers.advertise, n.timers.recent} {
		sooner(at)
	}
	if !n.alone() { // otherwise monitor has no candidates
		sooner(n.timers.monitor)
	}
	if len(n.ownEdges) > 0 {
		sooner(n.edgesAt)
	}
	if len(n.edgeBatch) > 0 {
		sooner(later(n.edgesAt, n.searchAt))
	}
	for _, c := range n.conns {
		if !c.isReady && !c.waiting {
			sooner(c.opened.Add(handshakeLimit))
		}
		for _, at := range [...]time.Time{c.due.accounts, c.due.peers, c.due.block, c.due.nonce} {
			sooner(at)
		}
		if len(c.accounts.pending) > 0 {
			sooner(c.accounts.next)
		}
		if len(c.hosts.pending) > 0 {
			sooner(c.hosts.next)
		}
	}
	for _, r := range n.retries {
		sooner(r.at)
	}
	for _, f := range n.fixing {
		sooner(f.at)
	}
	return wake
}

// alone returns whether no connection is open or being opened, and no peer is known to dial.
func (n *PeerManager) alone() bool {
	dials := len(n.out[wire.T1]) + len(n.out[wire.T2]) + len(n.out[wire.T3])
	return len(n.conns)+dials+len(n.retries)+len(n.known.peers)+len(n.pendingT3) == 0
}

// addLocal schedules an edge of this node (a connection that this node has opened or closed) for the
// next run of processEdges.
func (n *PeerManager) addLocal(e *wire.Edge) {
	n.ownEdges = append(n.ownEdges, edgeBatch{edges: []*wire.Edge{e}})
}

// processEdges stores edges, at most once in edgePeriod. processEdges completes the handshakes that
// waited for own edges. Edges of peers are stored, and routes recomputed, at longer intervals. This
// interval grows with the number of edges, because a search over more edges costs more, and any
// peer can cause a search. New edges are sent to all peers, including the edge's source.
func (n *PeerManager) processEdges(now time.Time) {
	all := len(n.edgeBatch) > 0 && passed(now, n.searchAt)
	if !all && len(n.ownEdges) == 0 || now.Before(n.edgesAt) {
		return
	}
	batch := n.ownEdges
	n.ownEdges, n.edgesAt = nil, now.Add(edgePeriod)
	if all = all || passed(now, n.searchAt); all {
		batch = append(batch, n.edgeBatch...)
		n.edgeBatch, n.edgesQueued = nil, 0
	}
	n.graph.validatorNodes = map[wire.PeerID]bool{}
	for _, id := range n.validatorNodes() {
		n.graph.validatorNodes[id] = true
	}
	var fresh []*wire.Edge
	bad := make([]bool, len(batch))
	for i, b := range batch {
		got, ok := n.graph.Add(now, b.edges, b.source)
		fresh, bad[i] = append(fresh, got...), !ok
	}
	if all {
		n.graph.Recompute(now, n.unreliable())
		n.searchAt = now.Add(n.graph.searchPause())
	} else {
		n.graph.addNeighbours(now, fresh)
	}
	if n.SkipTombstones > 0 && now.Sub(n.created) < n.SkipTombstones {
		fresh = activeOnly(fresh)
	}
	if len(fresh) > 0 {
		n.toAll(now, ToAll{Msg: &wire.RoutingTable{Edges: deduplicate(fresh)}})
	}
	for i, b := range batch {
		if c := n.conns[b.from]; c != nil && bad[i] {
			n.close(now, c, Banned, InvalidEdge)
		}
		if c := n.conns[b.done]; c != nil && c.waiting {
			n.established(now, c)
		}
	}
}

// tickPeer sends a T2 peer the periodic messages that are due.
func (n *PeerManager) tickPeer(now time.Time, c *conn) {
	d := &c.due
	again := func(at *time.Time, period time.Duration) bool {
		if at.IsZero() || now.Before(*at) {
			return false
		}
		*at = now.Add(period)
		return true
	}
	if again(&d.accounts, accountsPeriod) {
		n.write(c, &wire.AccountsData{Data: n.accounts.all(), RequestingFullSync: true})
	}
	if again(&d.peers, peersPeriod) {
		peers, direct := uint32(maxPeersSent), uint32(maxDirectPeersSent)
		n.write(c, &wire.PeersRequest{MaxPeers: &peers, MaxDirectPeers: &direct})
	}
	if again(&d.block, blockPeriod) && n.head != nil {
		n.write(c, &wire.Block{Block: n.head.Block})
	}
	if again(&d.nonce, noncePeriod) {
		n.write(c, &wire.NonceRequest{PartialEdge: wire.SignEdge(n.Key, c.peer.ID, wire.FreshNonce(now.Unix()))})
	}
	if data := c.accounts.due(now); data != nil {
		n.write(c, &wire.AccountsData{Data: data, Incremental: true})
	}
	if list := c.hosts.due(now); list != nil {
		n.write(c, &wire.SnapshotHosts{Hosts: list})
	}
}

// unreliable returns the peers that are too many blocks behind to route through.
func (n *PeerManager) unreliable() map[wire.PeerID]bool {
	out := map[wire.PeerID]bool{}
	if n.head == nil {
		return out
	}
	for id, c := range n.ready[wire.T2] {
		if c.hasBlock && c.height+unreliableLag < n.head.Block.Header.Height {
			out[id] = true
		}
	}
	return out
}

// findFixes starts to fix edges that contradict the connections.
func (n *PeerManager) findFixes(now time.Time) {
	for _, e := range n.graph.Locals() {
		other := e.Other(n.me)
		c := n.ready[wire.T2][other]
		switch {
		case c != nil && c.isReady && !e.Active():
			nonce := max(wire.FreshNonce(now.Unix()), wire.NextNonce(e.Nonce))
			n.write(c, &wire.NonceRequest{PartialEdge: wire.SignEdge(n.Key, other, nonce)})
			n.fixing = append(n.fixing, fix{other, now.Add(fixPatience), nil})
		case c == nil && e.Active():
			n.fixing = append(n.fixing, fix{other, now.Add(fixPatience), e})
		}
	}
}

func (n *PeerManager) applyFixes(now time.Time) {
	n.fixing = slices.DeleteFunc(n.fixing, func(f fix) bool {
		if now.Before(f.at) {
			return false
		}
		c, e := n.ready[wire.T2][f.peer], n.graph.Local(f.peer)
		switch {
		case f.edge != nil && c == nil:
			n.addLocal(f.edge.Remove(n.Key))
		case f.edge == nil && c != nil && (e == nil || !e.Active()):
			n.close(now, c, Requested, NotBanned)
		}
		return true
	})
}
