package near

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// distances computes path lengths by repeated relaxation, not through unreliable peers.
func distances(from wire.PeerID, edges map[[2]wire.PeerID]bool, unreliable map[wire.PeerID]bool) map[wire.PeerID]int {
	d := map[wire.PeerID]int{from: 0}
	for changed := true; changed; {
		changed = false
		for e := range edges {
			for _, x := range [...][2]wire.PeerID{e, {e[1], e[0]}} {
				if at, known := d[x[0]]; known && !unreliable[x[0]] {
					if old, there := d[x[1]]; !there || at+1 < old {
						d[x[1]], changed = at+1, true
					}
				}
			}
		}
	}
	return d
}

// TestNextHopsMatchGraphDistances compares next hops on random graphs with distances: a neighbour
// is one if and only if it is one step closer.
func TestNextHopsMatchGraphDistances(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := make([]wire.PeerID, 12)
	for i := range names {
		names[i] = idOf(fmt.Sprint(i))
	}
	for round := range 300 {
		g, edges, unreliable := NewGraph(names[0]), map[[2]wire.PeerID]bool{}, map[wire.PeerID]bool{}
		for range rng.IntN(30) {
			a, b := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
			if a > b {
				a, b = b, a
			}
			if a != b {
				g.put(&wire.Edge{Low: a, High: b, Nonce: uint64(start.Unix()) | 1}, "")
				edges[[2]wire.PeerID{a, b}] = true
			}
		}
		for _, p := range names[1:] {
			unreliable[p] = rng.IntN(6) == 0
		}
		g.Recompute(start, unreliable)
		want := distances(names[0], edges, unreliable)
		for _, to := range names[1:] {
			var hops []wire.PeerID
			for n := range g.active[names[0]] {
				others := maps.Clone(edges)
				for e := range others {
					if e[0] == names[0] || e[1] == names[0] {
						delete(others, e)
					}
				}
				if d, there := distances(n, others, unreliable)[to]; there && d+1 == want[to] && (n == to || !unreliable[n]) {
					hops = append(hops, n)
				}
			}
			if slices.Sort(hops); !slices.Equal(hops, g.hops[to]) {
				t.Fatalf("round %d: hops to %v are %v, want %v", round, to, g.hops[to], hops)
			}
		}
	}
}

// TestEqualNextHopsAlternate: equal next hops are used in turn.
func TestEqualNextHopsAlternate(t *testing.T) {
	g := NewGraph("a")
	for _, e := range [][2]wire.PeerID{{"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}} {
		g.put(&wire.Edge{Low: e[0], High: e[1], Nonce: uint64(start.Unix()) | 1}, "")
	}
	g.Recompute(start, nil)
	if x, y, z := g.NextHop("d"), g.NextHop("d"), g.NextHop("d"); x == y || x != z || g.NextHop("e") != "" {
		t.Errorf("hops %v %v %v", x, y, z)
	}
}

// TestEdgesExpireAfterHalfAnHour: edges expire after half an hour, older ones are not accepted, and
// lost peers are dropped after an hour.
func TestEdgesExpireAfterHalfAnHour(t *testing.T) {
	make := func(a, b string, at time.Time) *wire.Edge {
		nonce := uint64(at.Unix()) | 1
		return wire.NewEdge(idOf(a), idOf(b), nonce, wire.SignEdge(keyFor(a), idOf(b), nonce).Signature, wire.SignEdge(keyFor(b), idOf(a), nonce).Signature)
	}
	g := NewGraph(idOf("a"))
	old, young := make("a", "b", start.Add(-31*time.Minute)), make("a", "b", start.Add(-29*time.Minute))
	if fresh, ok := g.Add(start, []*wire.Edge{old}, "s"); len(fresh) != 0 || !ok {
		t.Errorf("an old edge: %v, %v", fresh, ok)
	}
	if fresh, ok := g.Add(start, []*wire.Edge{young, young, old}, "s"); len(fresh) != 1 || !ok {
		t.Errorf("a young edge: %v, %v", fresh, ok)
	}
	if g.Recompute(start, nil); g.Reachable() != 1 || g.ofSource["s"] != 1 {
		t.Error("not reachable")
	}
	if g.Recompute(start.Add(2*time.Minute), nil); g.Reachable() != 0 || len(g.edges) != 0 || len(g.ofSource) != 0 || len(g.active) != 0 {
		t.Errorf("after half an hour: %+v", g)
	}
	far := make("x", "y", start)
	g.Add(start, []*wire.Edge{far}, "s")
	if g.Recompute(start, nil); len(g.edges) != 0 {
		t.Error("an edge between peers that were never reached stays")
	}
}

// TestEdgesOfSourceAreBounded: a source can add a bounded number of edges, and no signature beyond
// that is verified.
func TestEdgesOfSourceAreBounded(t *testing.T) {
	g := NewGraph(idOf("a"))
	g.ofSource["s"] = maxEdgesOfSource
	// with a wrong signature
	e := wire.NewEdge(idOf("x"), idOf("y"), uint64(start.Unix())|1, keyFor("x").Sign(nil), keyFor("y").Sign(nil))
	if fresh, ok := g.Add(start, []*wire.Edge{e}, "s"); len(fresh) != 0 || !ok {
		t.Errorf("one too many: %v, %v", fresh, ok)
	}
	g.ofSource["s"]--
	if _, ok := g.Add(start, []*wire.Edge{e}, "s"); ok {
		t.Error("one that is forged passes")
	}
	for i := range maxGraphPeers {
		g.active[wire.PeerID(fmt.Sprint(i))] = map[wire.PeerID]bool{}
	}
	if g.put(e, "s") {
		t.Error("more peers than there may be")
	}
}

// TestFullRouteBackCacheEvictsItsFiller: a full cache evicts the entries of the neighbour that
// fills it, and old entries first.
func TestFullRouteBackCacheEvictsItsFiller(t *testing.T) {
	hash := func(i int) (h primitives.Hash) {
		h[0], h[1], h[2] = byte(i), byte(i>>8), byte(i>>16)
		return h
	}
	w := newRouteBackCache()
	w.put(start, hash(1<<20), "quiet")
	for i := range maxRouteBacks + 10 {
		w.put(start.Add(time.Second), hash(i), "loud")
	}
	if len(w.from) > maxRouteBacks || w.peek(hash(1<<20)) != "quiet" || w.peek(hash(0)) != "" || w.peek(hash(maxRouteBacks)) != "loud" {
		t.Errorf("%d ways; quiet %q, oldest %q", len(w.from), w.peek(hash(1<<20)), w.peek(hash(0)))
	}
	for i := maxRouteBacks + 10; len(w.from) < maxRouteBacks; i++ {
		w.put(start.Add(2*time.Second), hash(i), "loud")
	}
	w.put(start.Add(3*time.Minute), hash(1<<21), "late")
	if len(w.from) != 1 || w.take(hash(1<<21)) != "late" || w.take(hash(1<<21)) != "" {
		t.Errorf("%d ways after all were old", len(w.from))
	}
	for i := range 100_000 {
		w.put(start.Add(4*time.Minute), hash(i), "p")
		w.take(hash(i))
	}
	if len(w.order) > 3000 || len(w.of) != 0 {
		t.Errorf("%d entries of ways that were taken, %v", len(w.order), w.of)
	}
}

// TestFirstRouteBackOfRequestStays: the first route-back of a request stays, a repeated request
// takes no space, and one that was answered and repeated is as young as its repetition.
func TestFirstRouteBackOfRequestStays(t *testing.T) {
	w, h := newRouteBackCache(), primitives.Hash{1}
	for i := range 5000 {
		w.put(start, h, wire.PeerID(fmt.Sprint(i)))
	}
	if len(w.order) != 1 || len(w.of) != 1 || w.peek(h) != "0" {
		t.Errorf("%d slots, %d peers, back to %q", len(w.order), len(w.of), w.peek(h))
	}
	for i := range 100_000 {
		w.take(h)
		w.put(start, h, "p")
		if len(w.order) > 1100 {
			t.Fatalf("%d slots after %d rounds", len(w.order), i)
		}
	}
	w.prune()
	if len(w.order) != 1 || len(w.of) != 1 || w.peek(h) != "p" {
		t.Errorf("%d slots of one way back", len(w.order))
	}
}

// TestPartIsRequestedFromBestHost: each part is requested from the host with the highest score,
// then from others; hosts of old epochs are dropped.
func TestPartIsRequestedFromBestHost(t *testing.T) {
	h := newHosts(func(wire.PeerID) bool { return false })
	sync := primitives.Hash{1}
	for i := range 4 {
		h.add([]*wire.SnapshotHost{wire.NewSnapshotHost(keyFor(fmt.Sprint(i)), sync, uint64(5+i%2), []primitives.ShardID{2})})
	}
	var got []wire.PeerID
	for range 8 {
		got = append(got, h.forPart(sync, 2, 7))
	}
	want := h.serving(sync, 2)
	slices.SortFunc(want, func(a, b wire.PeerID) int {
		x, y := HostScore(a, 2, 7), HostScore(b, 2, 7)
		return y.Compare(x)
	})
	if !slices.Equal(got, slices.Concat(want, want)) {
		t.Errorf("requests to %v, want %v twice", got, want)
	}
	h.partDone(2, 7)
	if h.setEpoch(7, 0); len(h.all()) != 4 {
		t.Errorf("%d hosts in epoch 7, want 4: hosts of two epochs before are asked if one has no sync block", len(h.all()))
	}
	if h.setEpoch(11, 5); len(h.all()) != 4 {
		t.Errorf("%d hosts in epoch 11, with no sync block since epoch 5", len(h.all()))
	}
	if h.setEpoch(8, 7); len(h.all()) != 2 || len(h.tried) != 0 || h.forPart(sync, 1, 0) != "" {
		t.Errorf("%d hosts in epoch 8", len(h.all()))
	}
	if fresh, _ := h.add([]*wire.SnapshotHost{wire.NewSnapshotHost(keyFor("old"), sync, 5, []primitives.ShardID{2})}); len(fresh) != 0 {
		t.Error("a host of an old epoch is taken")
	}
	said := func(name string, sync primitives.Hash, epoch uint64, shards ...primitives.ShardID) int {
		fresh, ban := h.add([]*wire.SnapshotHost{wire.NewSnapshotHost(keyFor(name), sync, epoch, shards)})
		if ban != NotBanned {
			t.Errorf("%s is banned: %v", name, ban)
		}
		return len(fresh)
	}
	said("more", sync, 9, 1, 2)
	for i, c := range []struct {
		sync   primitives.Hash
		shards []primitives.ShardID
		want   int
	}{{sync, []primitives.ShardID{2, 1}, 0}, {sync, []primitives.ShardID{1, 2, 2}, 0}, {sync, []primitives.ShardID{1, 3, 4}, 0}, {primitives.Hash{2}, []primitives.ShardID{1, 2, 3}, 0},
		{sync, []primitives.ShardID{3, 2, 1}, 1}, {sync, []primitives.ShardID{1, 2}, 0}} {
		if got := said("more", c.sync, 9, c.shards...); got != c.want {
			t.Errorf("%d: of the same epoch, with shards %v: %d are new, want %d", i, c.shards, got, c.want)
		}
	}
	if list := h.serving(sync, 3); len(list) != 1 {
		t.Errorf("%d give shard 3, which one has come to have", len(list))
	}
	many := make([]*wire.SnapshotHost, maxHosts+1)
	for i := range many {
		many[i] = &wire.SnapshotHost{PeerID: wire.PeerID(fmt.Sprint(i)), EpochHeight: 9, Shards: []primitives.ShardID{1}, Signature: primitives.ZeroED25519Signature}
	}
	if fresh, ban := h.add(many); len(fresh) != 0 || ban != NotBanned {
		t.Errorf("too many hosts: %d, %v", len(fresh), ban)
	}
	for i := range maxHosts + 5 {
		h.put(&wire.SnapshotHost{PeerID: wire.PeerID(fmt.Sprint(i)), EpochHeight: 9})
	}
	if len(h.of) != maxHosts || len(h.order) != maxHosts {
		t.Errorf("%d hosts", len(h.of))
	}
}

// TestInventedHostsDoNotEvictConnectedOnes: any number of announcements under invented keys evict none of
// a connected peer. If all hosts are connected, the oldest makes room.
func TestInventedHostsDoNotEvictConnectedOnes(t *testing.T) {
	all := false
	h := newHosts(func(id wire.PeerID) bool { return all || id == "near" || id == "next" })
	put := func(name string) { h.put(&wire.SnapshotHost{PeerID: wire.PeerID(name), EpochHeight: 9}) }
	for _, name := range []string{"far", "near", "next"} {
		put(name)
	}
	for i := range 3 * maxHosts {
		put(fmt.Sprint(i))
	}
	if len(h.of) != maxHosts || len(h.order) != maxHosts || h.of["near"] == nil || h.of["next"] == nil || h.of["far"] != nil {
		t.Errorf("%d hosts, near %v, next %v, far %v", len(h.of), h.of["near"], h.of["next"], h.of["far"])
	}
	all = true
	if put("new"); len(h.of) != maxHosts || h.of["near"] != nil || h.of["new"] == nil {
		t.Errorf("%d hosts, near %v, new %v", len(h.of), h.of["near"], h.of["new"])
	}
}

// TestAddressBelongsToOnePeer: an address belongs to one peer, reports of others change no known
// peer, and old peers are dropped, except boot nodes.
func TestAddressBelongsToOnePeer(t *testing.T) {
	addr := func(n int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 1)
	}
	s := newPeerStore(start, []wire.PeerInfo{{ID: "boot", Addr: addr(1)}}, false)
	s.learn(start, []wire.PeerInfo{{ID: "x", Addr: addr(1)}, {ID: "boot", Addr: addr(2)}, {ID: "me", Addr: addr(3)}, {ID: "y", Addr: addr(4)}}, "me")
	if len(s.peers) != 2 || s.peers["boot"].info.Addr != addr(1) || s.byAddr[addr(4)] != "y" {
		t.Errorf("after hearsay: %v", s.byAddr)
	}
	s.connected(start, wire.PeerInfo{ID: "z", Addr: addr(4)})
	if s.byAddr[addr(4)] != "z" || s.peers["y"].info.Addr.IsValid() {
		t.Errorf("after a handshake: %v", s.byAddr)
	}
	s.learnDirect(start, wire.PeerInfo{ID: "z", Addr: addr(5)})
	if s.peers["z"].info.Addr != addr(4) {
		t.Error("a peer's announced address replaces that of its handshake")
	}
	draw := func(n int) int { return n - 1 }
	none := func(wire.PeerInfo) bool { return false }
	if p, ok := s.candidate(draw, true, none); !ok || p.ID != "boot" {
		t.Errorf("candidate %v, %v", p, ok)
	}
	s.disconnected(start, "z", NotBanned)
	if p, _ := s.candidate(draw, true, none); p.ID != "z" {
		t.Errorf("candidate %v, want one that was connected", p)
	}
	s.disconnected(start, "z", Abusive)
	if p, _ := s.candidate(draw, true, none); p.ID == "z" || len(s.healthy(draw, 9)) != 2 {
		t.Errorf("a banned peer is dialled or reported: %v", p)
	}
	for i := range 2 * maxKnownPeers {
		s.learn(start.Add(time.Second), []wire.PeerInfo{{ID: wire.PeerID(fmt.Sprint("p", i)), Addr: addr(100 + i)}}, "me")
	}
	if len(s.peers) != maxKnownPeers || s.peers["boot"] == nil || s.peers["z"] == nil || len(s.byAddr) > maxKnownPeers {
		t.Errorf("%d peers", len(s.peers))
	}
	for id, k := range s.peers {
		if id != "boot" {
			k.status, k.bannedAt = banned, start.Add(time.Minute)
		}
	}
	s.peers["z"].bannedAt = start
	if s.learn(start, []wire.PeerInfo{{ID: "new", Addr: addr(9)}}, "me"); len(s.peers) != maxKnownPeers || s.peers["z"] != nil || s.peers["new"] == nil {
		t.Errorf("%d peers, the oldest ban %v", len(s.peers), s.peers["z"])
	}
	if s.update(start.Add(8 * 24 * time.Hour)); len(s.peers) != 1 || s.peers["boot"] == nil || len(s.byAddr) != 1 {
		t.Errorf("%d peers after a week", len(s.peers))
	}
}

// TestFormerPeersAreDialledAgain: peers that were connected in an earlier run are dialled again and
// reported, and no others: boot nodes are known anyway, and peers that were only reported do not
// count.
func TestFormerPeersAreDialledAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	peer := func(name string, port uint16) wire.PeerInfo {
		return wire.PeerInfo{ID: primitives.SecretKeyFromSeed(primitives.ED25519, name).PublicKey(), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)}
	}
	me, boot, old, heardOf := peer("me", 1), peer("boot", 2), peer("old", 3), peer("heard", 4)
	s := newPeerStore(now, []wire.PeerInfo{boot}, false)
	s.restore(now, []wire.PeerInfo{me, boot, old, {ID: peer("none", 5).ID}, {ID: peer("other", 6).ID, Addr: old.Addr}}, me.ID)
	s.learn(now, []wire.PeerInfo{heardOf}, me.ID)
	if len(s.peers) != 3 || !s.peers[boot.ID].boot {
		t.Fatalf("%d peers", len(s.peers))
	}
	if got := s.reconnectable(); len(got) != 1 || got[0] != old {
		t.Errorf("proven %v", got)
	}
	if got, ok := s.candidate(func(int) int { return 0 }, true, func(wire.PeerInfo) bool { return false }); !ok || got != old {
		t.Errorf("dialled first %v", got)
	}
	later := now.Add(time.Minute)
	s.connected(later, boot)
	s.disconnected(later, old.ID, BadBlockHeader)
	if got := s.reconnectable(); len(got) != 1 || got[0] != boot {
		t.Errorf("proven then %v", got)
	}
}

// TestManyEdgesSlowRouteComputation: routes are recomputed less often the more edges there are,
// even if a peer sends one each second. New neighbours are reachable at once.
func TestManyEdgesSlowRouteComputation(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", withoutDialling)
	f.dial(a, b, wire.T2)
	f.run(3 * time.Second)
	nonce := wire.FreshNonce(f.now.Unix())
	for i := range maxEdgesOfSource - 1 {
		e := &wire.Edge{Low: b.me, High: wire.PeerID(fmt.Sprintf("\x00%032d", i)), Nonce: nonce}
		if e.Low > e.High {
			e.Low, e.High = e.High, e.Low
		}
		a.graph.put(e, b.me)
	}
	x := keyFor("x")
	var id ConnID
	for _, c := range a.conns {
		id = c.id
	}
	searches, last := 0, a.searchAt
	var took time.Duration
	step := func(until time.Time) {
		for ; f.now.Before(until); f.now = f.now.Add(time.Second) {
			nonce += 2
			e := wire.NewEdge(b.me, x.PublicKey(), nonce, wire.SignEdge(b.Key, x.PublicKey(), nonce).Signature, wire.SignEdge(x, b.me, nonce).Signature)
			begun := time.Now()
			a.Step(f.now, Received{Conn: id, Msg: &wire.RoutingTable{Edges: []*wire.Edge{e}}})
			f.step(a, Tick{})
			if took += time.Since(begun); a.searchAt != last {
				last = a.searchAt
				searches++
			}
		}
	}
	step(f.now.Add(time.Minute))
	if searches == 0 || searches > 11 {
		t.Errorf("the ways were found %d times in a minute, which took %v", searches, took)
	}
	if a.graph.NextHop(x.PublicKey()) != b.me {
		t.Error("no route to the node that b announces")
	}
	const of = ConnID(1 << 40)
	a.Step(f.now, Accepted{of, netip.MustParseAddrPort("1.2.3.4:5")})
	a.Step(f.now, Received{Conn: of, Msg: c.handshake(f.now, wire.T2, a.me, 86, c.propose(f.now, a.me))})
	a.Step(f.now.Add(time.Second), Tick{})
	if at := a.ready[wire.T2][c.me]; at == nil || !at.isReady || a.graph.NextHop(c.me) != c.me {
		t.Error("a new neighbour waits for the ways")
	}
	a.Step(f.now.Add(time.Second), Closed{of})
	a.Step(f.now.Add(2*time.Second), Tick{})
	if a.graph.NextHop(c.me) != "" {
		t.Error("a route to a disconnected node exists")
	}
	a.Step(f.now, Received{Conn: id, Msg: &wire.RoutingTable{Edges: make([]*wire.Edge, maxEdgesInMessage)}})
	for range 9 {
		a.Step(f.now, Received{Conn: id, Msg: &wire.RoutingTable{Edges: make([]*wire.Edge, maxEdgesInMessage)}})
	}
	if a.edgesQueued > maxEdgesQueued {
		t.Errorf("%d edges wait", a.edgesQueued)
	}
}

// TestRouteToValidatorIsLearned: the route to a validator's node is learned from the only
// neighbour, however many other edges it sent before.
func TestRouteToValidatorIsLearned(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, bridge := f.add("a", withoutDialling), f.add("bridge", withoutDialling)
	f.dial(a, bridge, wire.T2)
	f.run(3 * time.Second)
	seat := keyFor("seat")
	a.Step(f.now, Head{Block: headAt(1).Block, T1: map[primitives.AccountID][]primitives.PublicKey{"seat": {seat.PublicKey()}}})
	a.Step(f.now, AnnouncementsVerified{Good: []*wire.Announcement{wire.NewAnnouncement("seat", seat.PublicKey(),
		primitives.EpochID{}, seat)}})
	nonce := wire.FreshNonce(f.now.Unix())
	for i := range maxEdgesOfSource {
		e := &wire.Edge{Low: bridge.me, High: wire.PeerID(fmt.Sprintf("\x00%032d", i)), Nonce: nonce}
		if e.Low > e.High {
			e.Low, e.High = e.High, e.Low
		}
		a.graph.put(e, bridge.me)
	}
	between := func(x, y primitives.SecretKey) *wire.Edge {
		return wire.NewEdge(x.PublicKey(), y.PublicKey(), nonce, wire.SignEdge(x, y.PublicKey(), nonce).Signature, wire.SignEdge(y, x.PublicKey(), nonce).Signature)
	}
	x, y := keyFor("x"), keyFor("y")
	var id ConnID
	for _, c := range a.conns {
		id = c.id
	}
	a.Step(f.now, Received{Conn: id, Msg: &wire.RoutingTable{Edges: []*wire.Edge{between(seat, bridge.Key), between(x, y)}}})
	a.Step(f.now.Add(time.Minute), Tick{})
	if got := a.graph.NextHop(seat.PublicKey()); got != bridge.me {
		t.Errorf("the validator is reached by %q", got)
	}
	if a.graph.edges[keyOf(between(x, y))] != nil {
		t.Error("an edge of strangers is kept beyond the bound")
	}
	for i := range 2 * maxPrivilegedOfNode {
		a.graph.Add(f.now, []*wire.Edge{between(seat, keyFor(fmt.Sprint("z", i)))}, bridge.me)
	}
	if n := len(a.graph.active[seat.PublicKey()]); n != maxPrivilegedOfNode {
		t.Errorf("%d edges of one node are kept beyond it, want %d", n, maxPrivilegedOfNode)
	}
	a.graph.ofSource[bridge.me] = maxEdgesOfSource + maxPrivilegedOfSource
	if got, ok := a.graph.Add(f.now, []*wire.Edge{between(seat, keyFor("last"))}, bridge.me); !ok || len(got) > 0 {
		t.Error("there is no end to it")
	}
}
