package blocksync

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// world is a node in virtual time that follows a chain from its peers. A block is imported after
// its parent.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	m       *Machine
	now     int64
	chain   []Ref // the true chain, beginning with the genesis
	tip     int
	headers int
	arrived map[primitives.Hash]bool
	peers   map[PeerID]*simPeer
	later   []later
	asked   map[PeerID]int // requests in flight, by peer
	most    int            // the most requests in flight to one peer
	banned  map[PeerID]bool
	asks    int
	shares  map[PeerID]int  // block requests, by peer
	lose    primitives.Hash // a block that is lost once after it has arrived
	busy    bool            // a block is being executed
	apart   bool            // the headers begin with a proof
	proofs  []PeerID        // peers from which a proof was requested
}

// later is an action at a later time.
type later struct {
	at int64
	do func()
}

// simPeer is a simulated peer.
type simPeer struct {
	id       PeerID
	height   primitives.Height
	delay    int64 // ms
	headers  int   // headers in a response; 0: no response, -1: an empty one, -2: an invalid one
	blocks   bool
	wrong    bool // its blocks are bad copies
	every    int  // answers only one of so many block requests; 0: all
	blocksN  int  // number of block requests
	from     int  // its lowest block
	headersN int  // number of header requests
	archival bool
}

func hash(n int) (h primitives.Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(n)+1)
	return h
}

func newWorld(t *testing.T, seed int64, height int, peers ...*simPeer) *world {
	w := &world{t: t, rng: rand.New(rand.NewSource(seed)), arrived: map[primitives.Hash]bool{},
		peers: map[PeerID]*simPeer{}, asked: map[PeerID]int{}, shares: map[PeerID]int{}, banned: map[PeerID]bool{}}
	for i := range height + 1 {
		w.chain = append(w.chain, Ref{hash(i), primitives.Height(i)})
	}
	for i, p := range peers {
		p.id = PeerID(fmt.Sprintf("\x00peer %d", i))
		if p.height == 0 {
			p.height = primitives.Height(height)
		}
		w.peers[p.id] = p
	}
	w.m = New(w, Options{Random: w.rng.Intn})
	return w
}

func (w *world) Tip() Ref              { return w.chain[w.tip] }
func (w *world) Headers() (Ref, error) { return w.chain[max(w.headers, w.tip)], nil }
func (w *world) Apart() bool           { return w.apart }
func (w *world) Has(h primitives.Hash) bool {
	n := int(binary.BigEndian.Uint64(h[:])) - 1
	return n <= w.tip
}

func (w *world) Path(n int) ([]Ref, error) {
	if w.headers <= w.tip {
		return nil, nil
	}
	list := w.chain[w.tip+1 : w.headers+1]
	return list[:min(n, len(list))], nil
}

func (w *world) step(ev Event) {
	out, err := w.m.Step(w.now, ev)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range out.Ban {
		w.banned[b.Peer] = true
	}
	if out.Proof != "" {
		w.proofs = append(w.proofs, out.Proof)
	}
	if out.Headers != "" {
		w.askHeaders(w.peers[out.Headers])
	}
	for _, a := range out.Blocks {
		w.askBlock(w.peers[a.Peer], a.Hash)
	}
	for _, p := range w.m.peers {
		if w.most = max(w.most, p.inFlight); p.inFlight < 0 || p.inFlight > w.m.o.MaxRequests {
			w.t.Fatalf("%d blocks asked of a peer", p.inFlight)
		}
	}
	if len(w.m.blocks) > Window+MaxWanted {
		w.t.Fatalf("%d blocks wanted", len(w.m.blocks))
	}
}

func (w *world) in(ms int64, do func()) { w.later = append(w.later, later{w.now + ms, do}) }

func (w *world) askHeaders(p *simPeer) {
	if p == nil {
		w.t.Fatal("headers asked of nobody")
	}
	p.headersN++
	from := w.headers
	if p.headers == 0 || w.banned[p.id] {
		return
	}
	w.in(p.delay, func() {
		if !w.m.Expects(p.id) {
			return
		}
		w.step(Arrived{p.id})
		ev := HeadersVerified{From: p.id, Bad: p.headers == -2, Sent: max(p.headers, 0)}
		if to := min(from+p.headers, int(p.height), len(w.chain)-1); p.headers > 0 && to > w.headers {
			ev.Taken, w.headers = to-w.headers, to
			ev.Sent = min(p.headers, to-from)
		} else if ev.Sent = 0; p.headers > 0 {
			ev.Sent = max(to-from, 0)
		}
		w.in(5, func() { w.step(ev) })
	})
}

func (w *world) askBlock(p *simPeer, h primitives.Hash) {
	w.asks++
	if p != nil {
		w.shares[p.id]++
	}
	n := int(binary.BigEndian.Uint64(h[:])) - 1
	if p == nil || !p.blocks || w.banned[p.id] || n < p.from || n > int(p.height) {
		return
	}
	if p.blocksN++; p.every > 0 && p.blocksN%p.every != 0 {
		return
	}
	w.in(p.delay, func() {
		w.step(Block{h})
		if p.wrong {
			w.step(Refused{Hash: h, From: p.id, Copy: true})
			w.banned[p.id] = true // as the caller does with the sender
			return
		}
		if h == w.lose {
			w.lose = primitives.Hash{}
			return
		}
		w.arrived[h] = true
		w.adopt()
	})
}

// adopt imports the next block, if it has arrived.
func (w *world) adopt() {
	if !w.busy && w.tip+1 < len(w.chain) && w.arrived[w.chain[w.tip+1].Hash] {
		w.busy = true
		delete(w.arrived, w.chain[w.tip+1].Hash)
		w.in(0, func() {
			w.busy = false
			w.tip++
			w.step(Imported{w.chain[w.tip].Hash})
			w.adopt()
		})
	}
}

// pass advances the time by 10 ms.
func (w *world) pass() {
	if w.now%100 == 0 {
		ev := Peers{}
		for id, p := range w.peers {
			if !w.banned[id] {
				ev.List = append(ev.List, Peer{ID: id, Height: p.height, Archival: p.archival})
			}
		}
		w.step(ev)
	}
	for again := true; again; {
		due := w.later
		w.later, again = nil, false
		for _, l := range due {
			if l.at <= w.now {
				l.do()
				again = true
			} else {
				w.later = append(w.later, l)
			}
		}
	}
	w.now += 10
}

// run advances the time until the node is in sync, and returns whether that was before the limit.
func (w *world) run(limit int64) bool {
	for w.now < limit {
		if w.pass(); w.tip == len(w.chain)-1 && !w.m.Syncing() {
			return true
		}
	}
	return false
}

// TestOldBlocksComeFromArchives: blocks that other peers have deleted are requested only from archival
// peers, if there are any, and newer ones from all peers. Without an archival peer, every peer is
// asked.
func TestOldBlocksComeFromArchives(t *testing.T) {
	t.Parallel()
	const kept, height = 200, 1000
	pruned, archive := honest(), honest()
	pruned.from, archive.archival = height-kept, true
	w := newWorld(t, 5, height, pruned, archive)
	w.m = New(w, Options{Random: w.rng.Intn, Kept: kept})
	if !w.run(60_000) {
		t.Fatalf("at %d of %d", w.tip, height)
	}
	if w.asks != height { // none was requested in vain
		t.Errorf("%d requests for %d blocks", w.asks, height)
	}
	if w.shares[pruned.id] < kept/4 {
		t.Errorf("%d requests of the peer with the newest %d blocks", w.shares[pruned.id], kept)
	}
	alone := newWorld(t, 5, height, honest())
	alone.m = New(alone, Options{Random: alone.rng.Intn, Kept: kept})
	if !alone.run(60_000) {
		t.Errorf("without an archival peer: at %d of %d", alone.tip, height)
	}
}

// TestSilentArchiveDelaysSyncLittle: an archive that sends no old block costs two seconds in each of
// its rounds, which become rare. The archive that answers is asked for the other blocks. A node
// whose only archive is silent for a while, or slow, asks it as often as before.
func TestSilentArchiveDelaysSyncLittle(t *testing.T) {
	t.Parallel()
	const kept, height = 200, 6000
	last := func(peers ...*simPeer) int64 {
		t.Helper()
		w := newWorld(t, 5, height, peers...)
		w.m = New(w, Options{Random: w.rng.Intn, Kept: kept})
		if !w.run(600_000) {
			t.Fatalf("at %d of %d after %d ms", w.tip, height, w.now)
		}
		return w.now
	}
	archive := func() *simPeer { return &simPeer{delay: 100, headers: 512, blocks: true, archival: true} }
	pruned := func() *simPeer { return &simPeer{delay: 30, headers: 512, blocks: true, from: height - kept} }
	silent := &simPeer{delay: 30, headers: 512, archival: true}
	alone, together := last(archive(), pruned()), last(archive(), silent, pruned())
	t.Logf("%d ms with a silent archive, %d ms without one", together, alone)
	if together > alone*5/4 {
		t.Error("the silent archive delays the node by more than a quarter")
	}
	for _, x := range []struct {
		name    string
		silence int64 // time for which the only archive sends no block
		most    int64 // maximum time of a silence after which it is asked again
	}{{"a while", 20_000, BlockWait + 2*FirstPause}, {"long", 100_000, BlockWait + 2*FirstPause}} {
		t.Run(x.name, func(t *testing.T) {
			only := &simPeer{delay: 30, headers: 512, archival: true}
			w := newWorld(t, 5, height, only, pruned())
			w.m = New(w, Options{Random: w.rng.Intn, Kept: kept})
			for w.now < x.silence {
				w.pass()
			}
			if w.tip > 0 {
				t.Fatalf("at %d without an archive", w.tip)
			}
			only.blocks = true
			for w.tip == 0 {
				if w.pass(); w.now > x.silence+x.most {
					t.Fatalf("not asked within %d ms", x.most)
				}
			}
		})
	}
}

// TestSilentForMostBlocksDelaysSyncLittle: peers that answer just often enough not to be paused delay
// the node by one BlockWait in each Window, though they are the majority.
func TestSilentForMostBlocksDelaysSyncLittle(t *testing.T) {
	t.Parallel()
	const height = 2000
	for seed := range int64(3) {
		peers := []*simPeer{honest()}
		for range 4 {
			peers = append(peers, &simPeer{delay: 30, headers: 512, blocks: true, every: 3})
		}
		w := newWorld(t, seed, height, peers...)
		if most := int64(height / Window * BlockWait); !w.run(most) {
			t.Errorf("seed %d: at %d of %d after %d s", seed, w.tip, height, most/1000)
		}
		t.Logf("seed %d: %d ms, %d blocks from the honest peer", seed, w.now, w.shares[peers[0].id])
	}
}

// TestInventedParentsReplaceNoPeer: an honest peer that does not send blocks that do not exist, or
// old blocks although it is no archive, is not left out for longer.
func TestInventedParentsReplaceNoPeer(t *testing.T) {
	t.Parallel()
	a, b := honest(), honest()
	w := newWorld(t, 5, 1000, a, b)
	w.m = New(w, Options{Random: w.rng.Intn, Kept: 200})
	w.tip, w.headers = 1000, 1000
	for n := range 400 {
		if w.pass(); n%10 == 0 {
			w.step(Wanted{Hash: hash(1_000_000 + n), From: a.id})
		}
	}
	for w.now < 60_000 {
		w.pass()
	}
	if w.asks < 40*maxTries/2 {
		t.Fatalf("only %d requests", w.asks)
	}
	for _, p := range w.m.peers {
		if p.avoidedUntil > 0 {
			t.Errorf("%x is left out until %d", p.id, p.avoidedUntil)
		}
	}
	w = newWorld(t, 5, 1000, &simPeer{delay: 30, headers: 512, blocks: true, from: 800})
	w.m = New(w, Options{Random: w.rng.Intn, Kept: 200})
	for w.now < 60_000 {
		w.pass()
	}
	for _, p := range w.m.peers {
		if p.avoidedUntil > 0 || w.shares[p.id] < 100 {
			t.Errorf("a peer that is no archive is left out until %d, after %d requests", p.avoidedUntil, w.shares[p.id])
		}
	}
}

// TestFalseHeightMakesNoBlockOldForLong: a peer that claims to be an archive and a false height, and
// sends no headers, makes recent blocks old only until its first strike.
func TestFalseHeightMakesNoBlockOldForLong(t *testing.T) {
	t.Parallel()
	a, liar := honest(), &simPeer{archival: true}
	w := newWorld(t, 5, 1000, a, liar)
	w.tip, w.headers = 1000, 1000
	w.m = New(w, Options{Random: w.rng.Intn, Kept: 200})
	old := 0
	for ; w.now < 300_000; w.now += 100 {
		list := []Peer{{ID: a.id, Height: 1000}}
		if !w.banned[liar.id] {
			list = append(list, Peer{ID: liar.id, Height: 1 << 40, Archival: true})
		}
		if w.step(Peers{list}); w.m.IsOld(1001) {
			old++
		}
	}
	if old > 100 || !w.banned[liar.id] {
		t.Errorf("recent blocks were old for %d ms; banned: %v", old*100, w.banned)
	}
}

func honest() *simPeer { return &simPeer{delay: 30, headers: 512, blocks: true} }

// TestNodeReachesEndOfChain: with honest peers a node reaches the end of the chain. It requests
// each block once, and uses all peers.
func TestNodeReachesEndOfChain(t *testing.T) {
	t.Parallel()
	a, b := honest(), honest()
	w := newWorld(t, 1, 3000, a, b)
	if !w.run(60_000) {
		t.Fatalf("at %d of %d, headers %d", w.tip, len(w.chain)-1, w.headers)
	}
	if w.asks != 3000 {
		t.Errorf("%d requests for 3000 blocks", w.asks)
	}
	if w.most != 10 {
		t.Errorf("%d blocks of one peer at a time, want 10", w.most)
	}
	// A request takes 30 ms. 10 requests to each of two peers are in flight.
	if best := int64(3000 * 30 / 20); w.now > 3*best {
		t.Errorf("%d ms, where %d are the least", w.now, best)
	}
}

// TestSmallGapIsLeftToGossip: a small gap is left to gossip, unless it lasts.
func TestSmallGapIsLeftToGossip(t *testing.T) {
	t.Parallel()
	p := honest()
	p.height = 5
	w := newWorld(t, 1, 5, p)
	w.tip, w.headers = 2, 2
	for ; w.now < 900; w.now += 100 {
		w.step(Peers{[]Peer{{ID: p.id, Height: 5}}})
	}
	if w.asks+p.headersN != 0 || w.m.Syncing() {
		t.Error("a small gap is requested at once")
	}
	if !w.run(5000) {
		t.Error("a lasting gap is not requested")
	}
}

// TestOneHonestPeerIsEnough: one honest peer is sufficient, even if others claim false heights, do
// not respond, send invalid headers or blocks, or lack old blocks. They cost a bounded time.
func TestOneHonestPeerIsEnough(t *testing.T) {
	t.Parallel()
	far := primitives.Height(1 << 40)
	for name, tt := range map[string]struct {
		hostile []*simPeer
		limit   int64 // ms
		banned  int
	}{
		"silent":            {[]*simPeer{{}, {}, {}}, 120_000, 0},
		"claims much":       {[]*simPeer{{height: far, headers: -1, delay: 5, blocks: true}}, 60_000, 0},
		"claims, is silent": {[]*simPeer{{height: far}}, 90_000, 0},
		"bad headers":       {[]*simPeer{{headers: -2, delay: 1}}, 60_000, 0},
		"bad blocks":        {[]*simPeer{{headers: 512, delay: 1, blocks: true, wrong: true}}, 60_000, 0},
		"no old blocks":     {[]*simPeer{{headers: 512, delay: 1, blocks: true, from: 350}}, 60_000, 0},
		"slow":              {[]*simPeer{{headers: 1, delay: 1900, blocks: true}}, 90_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(4) {
				peers := []*simPeer{honest()}
				for _, e := range tt.hostile {
					x := *e
					peers = append(peers, &x)
				}
				w := newWorld(t, seed, 400, peers...)
				for w.now < tt.limit && w.tip < 400 {
					w.pass()
				}
				if w.tip < 400 {
					t.Errorf("seed %d: at %d of 400, headers %d, after %d ms", seed, w.tip, w.headers, w.now)
				}
				if w.banned[peers[0].id] {
					t.Errorf("seed %d: the honest peer is banned", seed)
				}
			}
		})
	}
}

// TestPeerWithFalseHeightIsBanned: a peer that claims a height and delivers nothing is asked at
// growing intervals, and banned after some minutes. Meanwhile the node counts as in sync.
func TestPeerWithFalseHeightIsBanned(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		lying := &simPeer{height: 1 << 40, headers: -1, delay: 5}
		if silent {
			lying.headers = 0
		}
		p := honest()
		w := newWorld(t, 3, 100, p, lying)
		quiet := 0
		for w.now < 400_000 && !w.banned[lying.id] {
			if w.pass(); w.tip == 100 && !w.m.Syncing() {
				quiet++
			}
		}
		if !w.banned[lying.id] || w.banned[p.id] || lying.headersN != MaxStrikes {
			t.Errorf("silent %v: after %d ms banned %v, asked %d times", silent, w.now, w.banned[lying.id], lying.headersN)
		}
		if quiet*10 < int(w.now)/2 {
			t.Errorf("silent %v: in sync for %d of %d ms", silent, quiet*10, w.now)
		}
	}
}

// TestNodeWithoutTrustedPeersIsStuck: if peers deliver neither headers nor blocks, the node does
// not count as in sync once it trusts no peer, even if all disconnect. This ends when a trusted
// peer claims a lower height, or when the tip advances.
func TestNodeWithoutTrustedPeersIsStuck(t *testing.T) {
	t.Parallel()
	for _, headers := range []int{0, -1} {
		a, b := &simPeer{height: 100, headers: headers, delay: 5}, &simPeer{height: 90, headers: headers, delay: 5}
		w := newWorld(t, 3, 100, a, b)
		w.tip, w.headers = 2, 2
		for !w.m.Syncing() {
			w.pass()
		}
		untrusted := 0
		for ; w.now < 120_000; w.pass() {
			if !w.m.Syncing() {
				if untrusted++; !w.m.Stuck() {
					t.Fatalf("headers %d: after %d ms it is neither syncing nor stuck", headers, w.now)
				}
			}
		}
		if untrusted == 0 {
			t.Errorf("headers %d: every peer stays trusted", headers)
		}
		w.step(Peers{})
		if w.m.Syncing() || !w.m.Stuck() {
			t.Errorf("headers %d: without peers it is in sync", headers)
		}
		w.step(Peers{[]Peer{{ID: "other", Height: 2}}})
		if w.m.Stuck() {
			t.Errorf("headers %d: a peer of the same height is not trusted", headers)
		}
	}
	lying := &simPeer{height: 1 << 40, headers: -1, delay: 5}
	w := newWorld(t, 3, 100, lying)
	w.tip, w.headers = 2, 2
	since := int64(0)
	for ; w.now < 60_000 && !w.banned[lying.id]; w.pass() {
		if w.now%1000 == 0 {
			w.tip, w.headers = w.tip+1, w.headers+1 // an own block
		}
		if !w.m.Stuck() {
			since = w.now
		} else if w.now-since > 1000 {
			t.Fatalf("after %d ms a chain that goes on is kept from being in step by a lying", w.now)
		}
	}
}

// TestNodeBelowItsHeadersIsStuckAlone: a node that has advanced, but not to its highest header, is
// still behind if all peers disconnect or are not trusted.
func TestNodeBelowItsHeadersIsStuckAlone(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{true, false} {
		a := &simPeer{height: 100, headers: 512, delay: 5, blocks: true}
		w := newWorld(t, 3, 100, a)
		w.tip, w.headers = 2, 2
		for ; w.tip < 50; w.pass() {
			if w.now > 60_000 {
				t.Fatalf("at %d", w.tip)
			}
		}
		if w.headers != 100 || !w.m.Syncing() {
			t.Fatalf("headers up to %d, syncing %v", w.headers, w.m.Syncing())
		}
		if left {
			w.step(Peers{})
		} else {
			w.m.strike(&Out{}, w.now, a.id)
			w.step(Tick{})
		}
		if !w.m.Syncing() && !w.m.Stuck() {
			t.Errorf("left %v: at %d of %d it is in sync", left, w.tip, w.headers)
		}
		if w.tip = 100; left {
			w.step(Peers{})
		} else {
			w.step(Tick{})
		}
		if w.m.Syncing() || w.m.Stuck() {
			t.Errorf("left %v: at the last header it is not in step", left)
		}
	}
}

// TestPeerOfOneHeaderPerResponseIsBanned: a peer that delivers one header per response is banned
// like a peer that delivers none. Meanwhile Still becomes true.
func TestPeerOfOneHeaderPerResponseIsBanned(t *testing.T) {
	t.Parallel()
	lying := &simPeer{height: 1 << 40, headers: 1, delay: 9_000}
	p := honest()
	w := newWorld(t, 9, 100_000, p, lying)
	w.apart = true // only headers are synced
	stood := int64(0)
	for w.now < 600_000 && !w.banned[lying.id] {
		w.pass()
		if w.headers > 99_000 && !w.m.Still(w.now) && w.m.Best() > 100_000 {
			stood += 10
		}
	}
	if !w.banned[lying.id] || w.banned[p.id] {
		t.Errorf("after %d ms with %d answers the lying is banned: %v, the honest one: %v", w.now, lying.headersN,
			w.banned[lying.id], w.banned[p.id])
	}
	if stood > 10_000 {
		t.Errorf("waited %d ms for headers that no peer has", stood)
	}
}

// TestMissingProofIsRequestedElsewhere: the peer with the highest claim is not asked forever for a
// proof that it never sends. Blocks wait only for the first proof.
func TestMissingProofIsRequestedElsewhere(t *testing.T) {
	t.Parallel()
	for seed := range int64(2) {
		p, all := honest(), []*simPeer{honest(), honest(), honest(), honest()}
		for i, x := range all {
			x.height = primitives.Height(40_006 + 6*i)
		}
		p.height = 40_000
		all = append(all, p)
		w := newWorld(t, seed, 40_000, all...)
		w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200, ProofWait: 10_000})
		for w.now < 100_000 && !slices.Contains(w.proofs, p.id) {
			w.pass()
			if w.tip > 300 && len(w.proofs) == 1 {
				for _, x := range all {
					x.blocks = false // no peer has old blocks any more
				}
			}
		}
		if n := len(w.proofs); !slices.Contains(w.proofs, p.id) || n > len(all) {
			t.Fatalf("seed %d: peers without a proof got %d requests", seed, n)
		}
		w.step(ProofArrived{p.id})
		w.step(Proved{From: p.id}) // the proof could not be used
		for _, x := range all {
			x.blocks = true
		}
		before := len(w.proofs)
		for end := w.now + 2*proofAgain; w.now < end && len(w.proofs) == before; {
			w.pass()
		}
		asked, tip := w.now, w.tip
		for w.now < asked+proofFirst-100 {
			w.pass()
		}
		if len(w.proofs) != before+1 || w.tip == tip {
			t.Errorf("seed %d: %d more proofs asked for, %d blocks meanwhile", seed, len(w.proofs)-before, w.tip-tip)
		}
	}
}

// TestProofFirstRequestsNothingElse: with ProofFirst, only proofs are requested, however long they
// fail to arrive. After one was accepted, headers are requested.
func TestProofFirstRequestsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 7, 1000, honest(), honest(), honest())
	w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200, ProofFirst: true, ProofWait: 10_000})
	for range 60_000 / 10 {
		w.pass()
	}
	headers := 0
	for _, p := range w.peers {
		headers += p.headersN
	}
	if len(w.proofs) < 3 || headers != 0 || w.asks != 0 || len(w.banned) != 0 {
		t.Fatalf("%d proofs, %d headers and %d blocks requested, banned %v", len(w.proofs), headers, w.asks, w.banned)
	}
	from := w.proofs[len(w.proofs)-1]
	w.step(ProofArrived{from})
	w.headers, w.apart = 900, true
	w.step(Proved{From: from, Used: true})
	for range 10 {
		w.pass()
	}
	for _, p := range w.peers {
		headers += p.headersN
	}
	if headers == 0 {
		t.Error("no headers are requested after the proof")
	}
}

// TestNewerProofIsNotAskedForAgain: after a proof of a newer protocol version, no peer is asked for
// another one for ten minutes, and none is banned.
func TestNewerProofIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8, 1000, honest(), honest())
	w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200, ProofFirst: true, ProofWait: 10_000})
	for len(w.proofs) == 0 {
		w.pass()
	}
	w.step(ProofArrived{w.proofs[0]})
	w.step(Proved{From: w.proofs[0], Newer: true})
	for end := w.now + proofNewer - 1000; w.now < end; {
		w.pass()
	}
	if len(w.proofs) != 1 || len(w.banned) != 0 {
		t.Errorf("%d proofs requested, banned %v", len(w.proofs), w.banned)
	}
	for end := w.now + 2000; w.now < end; {
		w.pass()
	}
	if len(w.proofs) != 2 {
		t.Errorf("%d proofs requested after the pause, want 2", len(w.proofs))
	}
}

// TestAcceptedProofIsNotAskedForAgain: after a proof that ends more than Horizon below the claim, the
// headers close the gap without another proof. When the claim has risen by more than Horizon, another
// proof is requested.
func TestAcceptedProofIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	p := honest()
	w := newWorld(t, 9, 2000, p)
	p.height, p.headers = 1000, 0 // no headers arrive
	w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200, ProofFirst: true, ProofWait: 10_000, HeadersWait: 1 << 40})
	w.pass()
	if got := w.m.ProofRequests(); len(w.proofs) != 1 || got != (ProofRequests{Wanted: true, Sent: 1}) {
		t.Fatalf("%d proofs requested, counted %+v", len(w.proofs), got)
	}
	w.step(ProofArrived{p.id})
	w.headers, w.apart = 750, true // 250 below the claim
	w.step(Proved{From: p.id, Used: true})
	for end := w.now + 60_000; w.now < end; {
		w.pass()
	}
	if got := w.m.ProofRequests(); len(w.proofs) != 1 || got != (ProofRequests{}) {
		t.Errorf("%d proofs requested after the first was accepted, counted %+v", len(w.proofs)-1, got)
	}
	p.height = 1201
	for end := w.now + 25_000; w.now < end; {
		w.pass()
	}
	if got := w.m.ProofRequests(); len(w.proofs) < 2 || !got.Wanted || got.Sent != len(w.proofs)-1 || got.Silent < 2 {
		t.Errorf("%d proofs requested after the claim has risen, counted %+v", len(w.proofs)-1, got)
	}
}

// TestRequestsOfLostPeerAreSentElsewhere: requests to a peer that disconnects are sent to another
// at once. Without peers nothing is requested, and no request is lost.
func TestRequestsOfLostPeerAreSentElsewhere(t *testing.T) {
	t.Parallel()
	a, b := honest(), honest()
	w := newWorld(t, 5, 400, a, b)
	w.run(150)
	if w.tip == 0 || w.tip == 400 {
		t.Fatalf("at %d", w.tip)
	}
	a.blocks, a.headers = false, 0
	delete(w.peers, a.id)
	before := w.now
	if !w.run(before + 3000) {
		t.Errorf("at %d of 400 with the other", w.tip)
	}
	c := honest()
	w = newWorld(t, 6, 400, c)
	w.run(150)
	delete(w.peers, c.id)
	w.run(5000)
	if w.m.Syncing() || len(w.m.blocks) > 0 {
		t.Errorf("alone: syncing %v, %d wanted", w.m.Syncing(), len(w.m.blocks))
	}
	w.peers[c.id] = c
	if !w.run(20_000) {
		t.Errorf("at %d of 400 when it is back", w.tip)
	}
}

// TestParentIsRequestedFromSenderFirst: the parent of a received block is requested from the sender
// of that block, then from other peers. The number of tries and of parents is bounded.
func TestParentIsRequestedFromSenderFirst(t *testing.T) {
	t.Parallel()
	a, b := honest(), honest()
	a.height, b.height = 3, 3
	w := newWorld(t, 7, 3, a, b)
	w.tip, w.headers = 3, 3
	w.run(200)
	unknown := hash(1000)
	w.step(Wanted{unknown, b.id})
	if got := w.m.blocks[unknown]; got == nil || got.peer != b.id {
		t.Fatalf("asked %+v", got)
	}
	for ; w.now < 60_000; w.now += 100 {
		w.step(Peers{[]Peer{{ID: a.id, Height: 3}, {ID: b.id, Height: 3}}})
	}
	if w.asks != maxTries || len(w.m.blocks) != 0 {
		t.Errorf("asked %d times, want %d; %d left", w.asks, maxTries, len(w.m.blocks))
	}
	for i := range 2 * MaxWanted {
		w.step(Wanted{hash(2000 + i), b.id})
	}
	if n := len(w.m.blocks); n != MaxWanted {
		t.Errorf("%d wanted, at most %d", n, MaxWanted)
	}
	w.step(Wanted{w.chain[2].Hash, b.id})
	if w.m.blocks[w.chain[2].Hash] != nil {
		t.Error("a block of the chain is wanted")
	}
}

// TestLostBlockIsRequestedAgain: a block that has arrived and was lost before its import is
// requested again.
func TestLostBlockIsRequestedAgain(t *testing.T) {
	t.Parallel()
	p := honest()
	w := newWorld(t, 8, 50, p)
	w.lose = w.chain[7].Hash
	if !w.run(120_000) || w.asks < 51 || w.asks > 51+50 || w.now < AdoptWait {
		t.Errorf("at %d of 50 after %d ms and %d requests", w.tip, w.now, w.asks)
	}
}

// TestDistantNodeRequestsProofFirst: a node further behind than Horizon first requests a proof, and
// continues without it if none arrives. With a proof, headers continue from it and no block is
// requested. The sender of an invalid proof is banned. A node less far behind requests no proof.
func TestDistantNodeRequestsProofFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1000, &simPeer{headers: 100, delay: 20, blocks: true})
	w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200})
	var peers Peers
	for id, p := range w.peers {
		peers.List = append(peers.List, Peer{ID: id, Height: p.height, Archival: p.archival})
	}
	w.step(peers)
	if len(w.proofs) != 1 || len(w.later) != 0 {
		t.Fatalf("%d proofs requested, %d pending responses", len(w.proofs), len(w.later))
	}
	from := w.proofs[0]
	if claimed, is := w.m.ExpectsProof(from); !is || claimed != 1000 {
		t.Fatalf("expects %v from %d", is, claimed)
	}
	if _, is := w.m.ExpectsProof("x"); is {
		t.Error("a proof of an unknown peer is expected")
	}
	w.now += proofFirst
	w.step(Tick{})
	if w.peers[from].headersN != 1 {
		t.Error("no headers are requested while the proof is late")
	}
	w.step(ProofArrived{from})
	w.headers, w.apart = 950, true
	w.step(Proved{From: from, Used: true})
	w.now += 100
	w.step(Tick{})
	if w.peers[from].headersN != 2 {
		t.Errorf("headers were asked for %d times", w.peers[from].headersN)
	}
	if len(w.m.blocks) != 0 {
		t.Errorf("%d blocks are asked for between the chain and the proof", len(w.m.blocks))
	}
	if len(w.proofs) != 1 {
		t.Error("another proof was asked for")
	}
	w.headers, w.apart = 0, false
	w.now++
	w.step(Tick{})
	w.step(ProofArrived{from})
	w.step(Proved{From: from, Bad: true})
	if len(w.proofs) != 2 || !w.banned[from] {
		t.Errorf("%d proofs asked for, banned: %v", len(w.proofs), w.banned)
	}
	near := newWorld(t, 3, 200, &simPeer{headers: 100, delay: 20, blocks: true})
	near.m = New(near, Options{Random: near.rng.Intn, Horizon: 200})
	for id, p := range near.peers {
		near.step(Peers{List: []Peer{{ID: id, Height: p.height}}})
	}
	if len(near.proofs) != 0 {
		t.Error("within the horizon a proof was asked for")
	}
	for _, x := range []struct {
		name  string
		below primitives.Height
		apart bool
		want  int
	}{
		{"blocks are kept", 1, false, 0}, {"a state sync has begun", 1, true, 1}, {"the tip is lower", 100, false, 1},
		{"no bound", 0, false, 1},
	} {
		w := newWorld(t, 3, 1000, &simPeer{headers: 900, delay: 20, blocks: true})
		w.tip, w.apart = 1, x.apart
		w.m = New(w, Options{Random: w.rng.Intn, Horizon: 200, ProofBelow: x.below})
		for id, p := range w.peers {
			w.step(Peers{List: []Peer{{ID: id, Height: p.height}}})
		}
		if len(w.proofs) != x.want {
			t.Errorf("%s: %d proofs are asked for, want %d", x.name, len(w.proofs), x.want)
		}
	}
}
