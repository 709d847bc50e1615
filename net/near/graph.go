package near

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// Bounds of a graph (nearcore config.rs:32), in edges and peers.
const (
	maxEdgesInMessage     = wire.MaxEdges
	maxEdgesOfSource      = 50_000
	maxGraphPeers         = 100_000
	maxPrivilegedOfNode   = 200    // number of privileged edges of a node that are stored beyond the other bounds
	maxPrivilegedOfSource = 10_000 // number of privileged edges from a source that are stored beyond the other bounds
	// neard allows 1,000,000 edges. A search over that many takes seconds and blocks other work.
	maxEdges = 200_000
)

// Lifetimes of edges and of unreachable peers (network_state/mod.rs:74), and the allowed difference
// between a nonce and the clock (routing/edge.rs:6).
const (
	edgeLife        = 30 * time.Minute
	unreachableLife = time.Hour
	maxNonceSkew    = 20 * time.Minute
	maxNonce        = 253_402_300_799 // the last second of the year 9999
)

// edgeKey has the ends of an edge, the lower id first.
type edgeKey struct{ low, high wire.PeerID }

// Graph is the known part of the network graph, with the next hops from this node to each peer. Not
// safe for concurrent use.
type Graph struct {
	me             wire.PeerID
	edges          map[edgeKey]*wire.Edge
	active         map[wire.PeerID]map[wire.PeerID]bool
	source         map[edgeKey]wire.PeerID
	ofSource       map[wire.PeerID]int  // number of edges by the peer that sent the edges
	validatorNodes map[wire.PeerID]bool // ids of the nodes of validators
	reachedAt      map[wire.PeerID]time.Time
	hops           map[wire.PeerID][]wire.PeerID // target -> next hops, as of the last Recompute
	used           map[wire.PeerID]uint64        // value of calls when the hop was last used
	calls          uint64                        // number of calls of NextHop

	activeEdges      int    // number of edges in active
	updates, dropped uint64 // number of edges that Add got, and of those that it dropped because of a bound
}

// EdgeCounts describes the edges of a Graph, for metrics.
type EdgeCounts struct {
	Total, Active    int
	Updates, Dropped uint64 // since the start: edges received or made, and edges beyond a bound
}

func (g *Graph) counts() EdgeCounts {
	return EdgeCounts{len(g.edges), g.activeEdges, g.updates, g.dropped}
}

// NewGraph returns an empty graph of the node me.
func NewGraph(me wire.PeerID) *Graph {
	return &Graph{me: me, edges: map[edgeKey]*wire.Edge{}, active: map[wire.PeerID]map[wire.PeerID]bool{},
		source:   map[edgeKey]wire.PeerID{},
		ofSource: map[wire.PeerID]int{}, reachedAt: map[wire.PeerID]time.Time{}, used: map[wire.PeerID]uint64{}}
}

func keyOf(e *wire.Edge) edgeKey { return edgeKey{e.Low, e.High} }

// Local returns the edge between this node and other, or nil if the graph has no such edge.
func (g *Graph) Local(other wire.PeerID) *wire.Edge {
	low, high := g.me, other
	if low > high {
		low, high = high, low
	}
	return g.edges[edgeKey{low, high}]
}

// Locals returns the edges of this node, sorted by the other end.
func (g *Graph) Locals() []*wire.Edge {
	var out []*wire.Edge
	for _, e := range g.edges {
		if e.Other(g.me) != "" {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *wire.Edge) int { return compareStrings(a.Other(g.me), b.Other(g.me)) })
	return out
}

// Edges returns all edges, sorted by their ends.
func (g *Graph) Edges() []*wire.Edge {
	out := make([]*wire.Edge, 0, len(g.edges))
	for _, e := range g.edges {
		out = append(out, e)
	}
	slices.SortFunc(out, compareEdges)
	return out
}

func compareStrings[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareEdges(a, b *wire.Edge) int {
	if c := compareStrings(a.Low, b.Low); c != 0 {
		return c
	}
	return compareStrings(a.High, b.High)
}

func (g *Graph) has(e *wire.Edge) bool {
	old := g.edges[keyOf(e)]
	return old != nil && old.Nonce >= e.Nonce
}

// Add verifies and stores edges, and returns the new edges. source is the peer that sent the edges;
// empty: this node. Add stops at the first invalid edge and returns ok false. The caller should
// then ban source. Edges before the invalid edge stay. Edges beyond a bound are dropped before
// their signatures are verified.
func (g *Graph) Add(now time.Time, edges []*wire.Edge, source wire.PeerID) (fresh []*wire.Edge, ok bool) {
	ok = true
	g.updates += uint64(len(edges))
	for _, e := range deduplicate(edges) {
		switch {
		case g.has(e), tooOld(e, now):
		// Do not publish the loop of a validator's own T1 connection.
		case e.Low == e.High && source == "":
		case e.Low == e.High:
			return fresh, false
		case g.edges[keyOf(e)] == nil && g.full(source) && !g.isPrivileged(e, source):
			g.dropped++
		case !e.Verify():
			return fresh, false
		default:
			if g.put(e, source) || g.isPrivileged(e, source) && g.set(e, source) {
				fresh = append(fresh, e)
			} else {
				g.dropped++
			}
		}
	}
	return fresh, ok
}

// deduplicate keeps the edge with the highest nonce of each pair, in descending order of pairs as
// in neard.
func deduplicate(edges []*wire.Edge) []*wire.Edge {
	out := slices.Clone(edges)
	slices.SortStableFunc(out, func(a, b *wire.Edge) int {
		if c := compareEdges(b, a); c != 0 {
			return c
		}
		switch {
		case a.Nonce > b.Nonce:
			return -1
		case a.Nonce < b.Nonce:
			return 1
		}
		return 0
	})
	return slices.CompactFunc(out, func(a, b *wire.Edge) bool { return keyOf(a) == keyOf(b) })
}

// tooOld returns whether an edge has exceeded edgeLife. An edge whose nonce is no valid time never
// does.
func tooOld(e *wire.Edge, now time.Time) bool {
	return e.Nonce <= 253_402_300_799 && time.Unix(int64(e.Nonce), 0).Before(now.Add(-edgeLife))
}

// isPrivileged returns whether an edge is stored beyond the bounds. An edge is privileged if one of
// its ends is the source, or a node that a validator has signed as its own. No other node can forge
// such an edge. So an attacker that fills the graph with invented edges cannot cut off validators,
// even if the attacker is the first to send edges.
func (g *Graph) isPrivileged(e *wire.Edge, source wire.PeerID) bool {
	if !e.Active() || g.ofSource[source] >= maxEdgesOfSource+maxPrivilegedOfSource {
		return false
	}
	for _, p := range [...]wire.PeerID{e.Low, e.High} {
		if (g.validatorNodes[p] || p == source) && len(g.active[p]) < maxPrivilegedOfNode {
			return true
		}
	}
	return false
}

func (g *Graph) full(source wire.PeerID) bool {
	return len(g.edges) >= maxEdges || source != "" && g.ofSource[source] >= maxEdgesOfSource
}

// put stores a verified edge. put returns false if the graph has too many peers.
func (g *Graph) put(e *wire.Edge, source wire.PeerID) bool {
	k := keyOf(e)
	if e.Active() {
		peers := len(g.active)
		for _, p := range [...]wire.PeerID{k.low, k.high} {
			if g.active[p] == nil && p != g.me {
				peers++
			}
		}
		if peers > maxGraphPeers {
			return false
		}
	}
	return g.set(e, source)
}

// set does the same as put, without a bound.
func (g *Graph) set(e *wire.Edge, source wire.PeerID) bool {
	k := keyOf(e)
	if e.Active() {
		if !g.active[k.low][k.high] {
			g.activeEdges++
		}
		g.link(k.low, k.high)
		g.link(k.high, k.low)
	} else {
		g.unlink(k)
	}
	if g.edges[k] == nil && source != "" {
		g.source[k] = source
		g.ofSource[source]++
	}
	g.edges[k] = e
	return true
}

func (g *Graph) link(a, b wire.PeerID) {
	if g.active[a] == nil {
		g.active[a] = map[wire.PeerID]bool{}
	}
	g.active[a][b] = true
}

func (g *Graph) unlink(k edgeKey) {
	if g.active[k.low][k.high] {
		g.activeEdges--
	}
	for _, ends := range [...]edgeKey{k, {k.high, k.low}} {
		if delete(g.active[ends.low], ends.high); len(g.active[ends.low]) == 0 {
			delete(g.active, ends.low)
		}
	}
}

// Adjacent returns whether the graph has an active edge between two nodes.
func (g *Graph) Adjacent(a, b wire.PeerID) bool { return g.active[a][b] }

func (g *Graph) drop(k edgeKey) {
	delete(g.edges, k)
	g.unlink(k)
	if source, known := g.source[k]; known {
		delete(g.source, k)
		if g.ofSource[source]--; g.ofSource[source] == 0 {
			delete(g.ofSource, source)
		}
	}
}

// Recompute drops old edges, computes the next hops, and drops peers that were unreachable for
// unreachableLife. No route passes through an unreliable peer, but a route may end at an unreliable
// peer.
func (g *Graph) Recompute(now time.Time, unreliable map[wire.PeerID]bool) {
	for k, e := range g.edges {
		if tooOld(e, now) {
			g.drop(k)
		}
	}
	g.hops = g.search(unreliable)
	maps.DeleteFunc(g.used, func(p wire.PeerID, _ uint64) bool { return !g.active[g.me][p] })
	g.reachedAt[g.me] = now
	for p := range g.hops {
		g.reachedAt[p] = now
	}
	limit := now.Add(-unreachableLife)
	lost := func(p wire.PeerID) bool {
		at, reached := g.reachedAt[p]
		return !reached || at.Before(limit)
	}
	for k := range g.edges {
		if lost(k.low) || lost(k.high) {
			g.drop(k)
		}
	}
	for p, at := range g.reachedAt {
		if at.Before(limit) {
			delete(g.reachedAt, p)
		}
	}
}

// searchPause returns the time between two searches. In between, routes do not change. The pause
// grows with the number of edges, because the time of a search does.
func (g *Graph) searchPause() time.Duration {
	return edgePeriod * time.Duration(1+len(g.edges)/edgesPerPeriod)
}

// addNeighbours adds routes to new neighbours. The added routes are valid until the next search.
// NextHop omits lost neighbours.
func (g *Graph) addNeighbours(now time.Time, edges []*wire.Edge) {
	if g.hops == nil {
		g.hops = map[wire.PeerID][]wire.PeerID{}
	}
	for _, e := range edges {
		if p := e.Other(g.me); p != "" && e.Active() {
			g.hops[p], g.reachedAt[p] = []wire.PeerID{p}, now
		}
	}
}

// search finds, for each peer, the neighbours on a shortest path, by breadth-first search.
func (g *Graph) search(unreliable map[wire.PeerID]bool) map[wire.PeerID][]wire.PeerID {
	distance := map[wire.PeerID]int{g.me: 0}
	hops := map[wire.PeerID][]wire.PeerID{}
	var queue []wire.PeerID
	for p := range g.active[g.me] {
		distance[p], hops[p] = 1, []wire.PeerID{p}
		queue = append(queue, p)
	}
	slices.Sort(queue)
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if unreliable[at] {
			continue
		}
		for next := range g.active[at] {
			d, seen := distance[next]
			switch {
			case !seen:
				// The slice is shared until one of its users appends to it.
				distance[next], hops[next] = distance[at]+1, slices.Clip(hops[at])
				queue = append(queue, next)
			case d == distance[at]+1:
				for _, h := range hops[at] {
					if !slices.Contains(hops[next], h) {
						hops[next] = append(hops[next], h)
					}
				}
			}
		}
	}
	for _, h := range hops {
		slices.Sort(h)
	}
	return hops
}

// NextHop returns the neighbour to which a message for target is sent. NextHop chooses the least
// recently used of the connected neighbours on a shortest path. The result is empty if there is no
// route.
func (g *Graph) NextHop(target wire.PeerID) wire.PeerID {
	var best wire.PeerID
	for _, p := range g.hops[target] {
		if g.active[g.me][p] && (best == "" || g.used[p] < g.used[best]) {
			best = p
		}
	}
	if best != "" {
		g.calls++
		g.used[best] = g.calls
	}
	return best
}

// Reachable returns the number of peers with a route.
func (g *Graph) Reachable() int { return len(g.hops) }

// validNonce returns whether the nonce is valid for a new edge.
func validNonce(nonce uint64, now time.Time) bool {
	if nonce == 0 || nonce > maxNonce {
		return false
	}
	d := now.Sub(time.Unix(int64(nonce), 0))
	return d < maxNonceSkew && d > -maxNonceSkew
}
