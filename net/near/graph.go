package near

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// The bounds of a graph (nearcore config.rs:32), in edges and peers.
const (
	maxEdgesInMessage = wire.MaxEdges
	maxEdgesOfSource  = 50_000
	maxGraphPeers     = 100_000
	maxMatter         = 200     // of a node, beyond these
	maxBeyond         = 10_000  // of a source
	maxEdges          = 200_000 // neard: 1,000,000, between which its search takes seconds, beside what else it does
)

// How long edges and peers that nobody reaches are kept (network_state/mod.rs:74), and how far a
// nonce may be from now (routing/edge.rs:6).
const (
	edgeLife        = 30 * time.Minute
	unreachableLife = time.Hour
	maxNonceSkew    = 20 * time.Minute
)

// edgeKey are the ends of an edge, the lower first.
type edgeKey struct{ low, high wire.PeerID }

// Graph is what is known of who is connected to whom, with the next hops from here to everybody.
type Graph struct {
	me        wire.PeerID
	edges     map[edgeKey]*wire.Edge
	active    map[wire.PeerID]map[wire.PeerID]bool
	source    map[edgeKey]wire.PeerID
	ofSource  map[wire.PeerID]int
	seats     map[wire.PeerID]bool // nodes of validators
	reachedAt map[wire.PeerID]time.Time
	hops      map[wire.PeerID][]wire.PeerID // of Recompute
	used      map[wire.PeerID]uint64        // when a hop was last taken, by count
	calls     uint64
}

// NewGraph returns a graph of nobody but me.
func NewGraph(me wire.PeerID) *Graph {
	return &Graph{me: me, edges: map[edgeKey]*wire.Edge{}, active: map[wire.PeerID]map[wire.PeerID]bool{}, source: map[edgeKey]wire.PeerID{},
		ofSource: map[wire.PeerID]int{}, reachedAt: map[wire.PeerID]time.Time{}, used: map[wire.PeerID]uint64{}}
}

func keyOf(e *wire.Edge) edgeKey { return edgeKey{e.Low, e.High} }

// Local returns the edge between me and other, nil if none is known.
func (g *Graph) Local(other wire.PeerID) *wire.Edge {
	low, high := g.me, other
	if low > high {
		low, high = high, low
	}
	return g.edges[edgeKey{low, high}]
}

// Locals returns the edges of me, in the order of the other ends.
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

// Edges returns all edges in the order of their ends.
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

// Add takes edges from source, or from this node if source is "", and returns those that were new.
// It stops at the first edge that is invalid: ok is false and the source is to be banned; what came
// before stays. Edges beyond a bound are dropped before their signatures are looked at.
func (g *Graph) Add(now time.Time, edges []*wire.Edge, source wire.PeerID) (fresh []*wire.Edge, ok bool) {
	ok = true
	for _, e := range deduplicate(edges) {
		switch {
		case g.has(e), tooOld(e, now):
		case e.Low == e.High && source == "": // a validator's loop is nobody's business
		case e.Low == e.High:
			return fresh, false
		case g.edges[keyOf(e)] == nil && g.full(source) && !g.matters(e, source):
		case !e.Verify():
			return fresh, false
		default:
			if g.put(e, source) || g.matters(e, source) && g.keep(e, source) {
				fresh = append(fresh, e)
			}
		}
	}
	return fresh, ok
}

// deduplicate keeps the highest nonce of each pair, and orders them from the highest pair down as
// neard does.
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

// tooOld tells whether an edge has outlived edgeLife; a nonce that is no time never does.
func tooOld(e *wire.Edge, now time.Time) bool {
	return e.Nonce <= 253_402_300_799 && time.Unix(int64(e.Nonce), 0).Before(now.Add(-edgeLife))
}

// matters tells whether an edge is kept beyond the bounds: one of a node that a validator has
// signed to be its own, or of who tells of it. Nobody makes up such for others, and what strangers
// make up, which the one source there is may have told before, is to take no way to a validator.
func (g *Graph) matters(e *wire.Edge, source wire.PeerID) bool {
	if !e.Active() || g.ofSource[source] >= maxEdgesOfSource+maxBeyond {
		return false
	}
	for _, p := range [...]wire.PeerID{e.Low, e.High} {
		if (g.seats[p] || p == source) && len(g.active[p]) < maxMatter {
			return true
		}
	}
	return false
}

func (g *Graph) full(source wire.PeerID) bool {
	return len(g.edges) >= maxEdges || source != "" && g.ofSource[source] >= maxEdgesOfSource
}

// put stores an edge that was verified; false if there are too many peers.
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
	return g.keep(e, source)
}

// keep is put without a bound.
func (g *Graph) keep(e *wire.Edge, source wire.PeerID) bool {
	k := keyOf(e)
	if e.Active() {
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
	for _, ends := range [...]edgeKey{k, {k.high, k.low}} {
		if delete(g.active[ends.low], ends.high); len(g.active[ends.low]) == 0 {
			delete(g.active, ends.low)
		}
	}
}

// Adjacent tells whether two nodes are known to be connected.
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

// Recompute forgets what is old, finds the next hops again, and forgets who has not been reached
// for long. No way leads through peers that are unreliable, except to themselves.
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

// pause is how long the ways stay as they are: the search takes the longer the more edges there
// are.
func (g *Graph) pause() time.Duration {
	return edgePeriod * time.Duration(1+len(g.edges)/edgesPerPeriod)
}

// meet notes the way to new neighbours until the ways are found again; to who is none any more
// there is none (NextHop).
func (g *Graph) meet(now time.Time, edges []*wire.Edge) {
	if g.hops == nil {
		g.hops = map[wire.PeerID][]wire.PeerID{}
	}
	for _, e := range edges {
		if p := e.Other(g.me); p != "" && e.Active() {
			g.hops[p], g.reachedAt[p] = []wire.PeerID{p}, now
		}
	}
}

// search finds, by breadth, for each peer the neighbours through which a shortest way leads.
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
				distance[next], hops[next] = distance[at]+1, slices.Clip(hops[at]) // of both, until one has more
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

// NextHop returns the neighbour to hand a message for target to, of those on a shortest way that
// are still neighbours the one that was taken the longest ago; "" if there is no way.
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

// Reachable returns how many peers there is a way to.
func (g *Graph) Reachable() int { return len(g.hops) }

// validNonce tells whether an edge may be made with this nonce now.
func validNonce(nonce uint64, now time.Time) bool {
	if nonce == 0 || nonce > 253_402_300_799 {
		return false
	}
	d := now.Sub(time.Unix(int64(nonce), 0))
	return d < maxNonceSkew && d > -maxNonceSkew
}
