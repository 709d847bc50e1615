//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// tierTap is a proxy before each node of a network. It forwards all frames unchanged, and records
// which tier-1 connections exist, what they carry, and when blocks, witnesses and endorsements pass.
// Nodes cannot bypass it: it connects to them from an address at which no node listens.
type tierTap struct {
	mu        sync.Mutex
	nodes     map[primitives.PublicKey]int
	open      map[[2]int]int                 // tier-1 connections by their nodes, the lower one first
	messages  map[tierRoute]int              // consensus messages since the last reset
	early     map[[2]int]int                 // optimistic blocks by sender and receiver, likewise
	observe   func(from int, m wire.Message) // called with each message, under mu; nil: none
	blocks    map[tierAt[primitives.Height]]time.Time
	parts     map[tierAt[primitives.ChunkKey]]time.Time // first witness part that a node received
	makers    map[primitives.ChunkKey]int               // nodes that sent witnesses
	endorsed  map[tierAt[primitives.ChunkKey]]time.Time
	connected []net.Conn
	closed    bool
}

// tierRoute identifies the messages of a node to another one over a tier.
type tierRoute struct {
	from, to int
	tier     wire.Tier
}

// tierAt identifies an event at a node.
type tierAt[K comparable] struct {
	node int
	of   K
}

func newTierTap(t *testing.T) *tierTap {
	v := &tierTap{nodes: map[primitives.PublicKey]int{}, open: map[[2]int]int{}}
	v.reset()
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.closed = true
		for _, c := range v.connected {
			_ = c.Close()
		}
	})
	return v
}

// reset forgets all messages.
func (v *tierTap) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.messages, v.early, v.makers = map[tierRoute]int{}, map[[2]int]int{}, map[primitives.ChunkKey]int{}
	v.blocks, v.parts = map[tierAt[primitives.Height]]time.Time{}, map[tierAt[primitives.ChunkKey]]time.Time{}
	v.endorsed = map[tierAt[primitives.ChunkKey]]time.Time{}
}

// before listens for the connections to node i and returns the address. Its port is the node's own,
// because a node announces an address only if the port is the one on which the node listens.
func (v *tierTap) before(t *testing.T, i int, key primitives.PublicKey, at string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(fmt.Sprintf("127.0.1.%d", i+1), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	v.mu.Lock()
	v.nodes[key] = i
	v.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go v.forward(c, at)
		}
	}()
	return l.Addr().String()
}

// tapped is a forwarded connection. Its fields are set by the handshakes.
type tapped struct {
	tier wire.Tier
	ends [2]int // the dialler and the listener
	ok   bool   // the listener has accepted the dialler's handshake
}

func (v *tierTap) forward(from net.Conn, at string) {
	defer from.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxyAddr)}}
	to, err := d.Dial("tcp", at)
	if err != nil {
		return
	}
	defer to.Close()
	v.mu.Lock()
	if v.connected = append(v.connected, from, to); v.closed {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	c := &tapped{}
	var both sync.WaitGroup
	for side, way := range [2][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			defer from.Close()
			defer to.Close()
			for {
				frame, err := readFrame(way[0])
				if err != nil {
					return
				}
				now := time.Now()
				// Before the message goes on, so that it is recorded before the replies to it. A reply to an
				// unrecorded handshake would count for no tier.
				if m, err := wire.Decode(frame); err == nil {
					v.record(c, side, now, m)
				}
				if writeFrame(way[1], frame) != nil {
					return
				}
			}
		})
	}
	both.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.ok && c.tier == wire.T1 {
		v.open[c.pair()]--
	}
}

func (c *tapped) pair() [2]int { return [2]int{min(c.ends[0], c.ends[1]), max(c.ends[0], c.ends[1])} }

// record records a message that the dialler (side 0) or the listener sent.
func (v *tierTap) record(c *tapped, side int, now time.Time, m wire.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	from, to := c.ends[side], c.ends[1-side]
	if v.observe != nil {
		v.observe(from, m)
	}
	switch m := m.(type) {
	case *wire.Handshake:
		switch {
		case side == 0:
			c.tier, c.ends = m.Tier, [2]int{v.nodes[m.Sender], v.nodes[m.Target]}
		case !c.ok:
			if c.ok = true; c.tier == wire.T1 {
				v.open[c.pair()]++
			}
		}
	case *wire.Block:
		h := m.Block.Header.Height
		first(v.blocks, tierAt[primitives.Height]{from, h}, now)
		first(v.blocks, tierAt[primitives.Height]{to, h}, now)
	case *wire.OptimisticBlock:
		v.early[[2]int{from, to}]++
	case *wire.Routed:
		if !m.Body.BodyKind().IsT1() || from == to {
			return
		}
		author, known := v.nodes[m.Author]
		if known && author == from && v.nodes[m.Target.PeerID] == to {
			v.messages[tierRoute{from, to, c.tier}]++
		}
		switch b := m.Body.(type) {
		case *wire.PartialWitness:
			v.makers[b.Key()] = author
			first(v.parts, tierAt[primitives.ChunkKey]{to, b.Key()}, now)
		case *wire.VersionedWitness:
			v.makers[b.Key()] = author
			first(v.parts, tierAt[primitives.ChunkKey]{to, b.Key()}, now)
		case *wire.ChunkEndorsement:
			key := primitives.ChunkKey{ShardID: b.Metadata.ShardID, EpochID: b.Metadata.EpochID, HeightCreated: b.Metadata.HeightCreated}
			first(v.endorsed, tierAt[primitives.ChunkKey]{author, key}, now)
		}
	}
}

func first[K comparable](of map[K]time.Time, key K, now time.Time) {
	if _, has := of[key]; !has {
		of[key] = now
	}
}

// missing returns the pairs of n nodes without a tier-1 connection.
func (v *tierTap) missing(n int) (pairs []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for a := range n {
		for b := a + 1; b < n; b++ {
			if v.open[[2]int{a, b}] <= 0 {
				pairs = append(pairs, fmt.Sprintf("%d-%d", a, b))
			}
		}
	}
	return pairs
}

// announce puts a proxy before each of the nodes. Their configuration announces the proxies and has
// them as boot nodes. It returns the proxies' addresses, which contain the nodes' keys.
func (v *tierTap) announce(t *testing.T, homes []nodeHome) (announced []string) {
	t.Helper()
	for i, s := range homes {
		key := keyOf(t, s.home)
		announced = append(announced, key.String()+"@"+v.before(t, i, key, s.network))
	}
	for i, s := range homes {
		announce(t, s, announced[i], slices.Delete(slices.Clone(announced), i, i+1))
	}
	return announced
}

// announce makes a node announce the address own, and connect to the nodes boot.
func announce(t *testing.T, s nodeHome, own string, boot []string) {
	t.Helper()
	change(t, filepath.Join(s.home, "config.json"), func(c object) {
		o := c.at("network")
		o["public_addrs"], o["boot_nodes"] = []string{own}, strings.Join(boot, ",")
		o.at("tier1")["connect_interval"] = map[string]any{"secs": 5, "nanos": 0}
		c.at("consensus")["min_block_production_delay"] = map[string]any{"secs": 0, "nanos": 600_000_000}
	})
}

// optimisticUses returns how many chunks a node applied for an optimistic block before their block
// arrived (hits), and how many not (misses). A neard has the same metrics.
func (p *process) optimisticUses() (hits, misses float64) {
	p.t.Helper()
	figures, _ := p.figures()
	for name, x := range figures {
		switch {
		case strings.HasPrefix(name, "near_apply_chunk_results_cache_hits"):
			hits += x
		case strings.HasPrefix(name, "near_apply_chunk_results_cache_misses"):
			misses += x
		}
	}
	return hits, misses
}

// median returns the median of times; 0 if there are none.
func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}

// spread describes times: number, median and the ninth tenth.
func spread(of []time.Duration) string {
	if len(of) == 0 {
		return "none"
	}
	slices.Sort(of)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%d, median %.1f ms, 90 %% within %.1f ms", len(of), ms(median(of)), ms(of[len(of)*9/10]))
}

// TestMixedValidatorsUseTierOne: two neards and two troupes announce the addresses of proxies. Each
// pair of them gets a tier-1 connection, and all their consensus messages take these connections.
// Each sends optimistic blocks to the others, and applies chunks for those that it receives. The
// time from a block to the endorsement of a chunk on it is measured for each kind of chunk producer
// and endorser. With a troupe its median is at most twice that among neards.
func TestMixedValidatorsUseTierOne(t *testing.T) {
	const n, shards, epoch = 4, 4, 100
	v := newTierTap(t)
	b := &mixedCluster{t: t, program: neardOrNone(t), neards: 2, shards: shards, p: make([]*process, n)}
	if b.program == "" {
		b.neards = 0
	}
	b.homes = neardNet(t, b.program, n, shards, epoch)
	v.announce(t, b.homes)
	for i := range b.homes {
		b.start(i)
	}
	b.until(3, 3*time.Minute)
	begun := time.Now()
	for limit := begun.Add(3 * time.Minute); len(v.missing(n)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("pairs without a tier-1 connection: %v", v.missing(n))
		}
	}
	t.Logf("all tier-1 connections exist %v after the first blocks", time.Since(begun).Round(100*time.Millisecond))
	time.Sleep(10 * time.Second) // two rounds: connections that were made twice are closed

	clients, token := (&mixed{shards: shards, nodes: b.p[:1]}).settle(t, b.p[n-1])
	for _, p := range b.p[1:] {
		clients = append(clients, &submitter{s: p.signer(), to: p})
	}
	stop := make(chan struct{})
	group := (&mixed{shards: shards, nodes: b.p[:1]}).load(t, clients, token, stop)
	hits, misses := make([]float64, n), make([]float64, n)
	for i, p := range b.p {
		hits[i], misses[i] = p.optimisticUses()
	}
	v.reset()
	from, blocks := b.highest(), length(t, 200)
	b.until(from+uint64(blocks), time.Duration(blocks)*4*time.Second+2*time.Minute)
	close(stop)
	group.Wait()
	if lost := v.missing(n); len(lost) > 0 {
		t.Errorf("pairs without a tier-1 connection at the end: %v", lost)
	}
	for i, p := range b.p {
		used, unused := p.optimisticUses()
		used, unused = used-hits[i], unused-misses[i]
		t.Logf("%s %d applied %.0f of %.0f chunks for optimistic blocks", b.kind(i), i, used, used+unused)
		// It makes the optimistic blocks of a quarter of the heights itself.
		if 2*used < used+unused {
			t.Errorf("%s %d applied %.0f of %.0f chunks for optimistic blocks, want half of them", b.kind(i), i, used, used+unused)
		}
		ways := 0.0
		figures, _ := p.figures()
		for name, x := range figures {
			if strings.HasPrefix(name, "near_peer_connections{") && strings.Contains(name, `tier="T1"`) {
				ways += x
			}
		}
		if ways < n-1 {
			t.Errorf("%s %d counts %.0f tier-1 connections, want %d or more", b.kind(i), i, ways, n-1)
		}
		if i >= b.neards {
			continue
		}
		if said := complaints(p.out.String()); len(said) > 0 {
			t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(said), said[0])
		}
	}
	v.report(t, b, blocks)
}

// report requires that each node sent its consensus messages and optimistic blocks to each other
// one over tier 1, and that endorsements with a troupe take no longer. It logs the times.
func (v *tierTap) report(t *testing.T, b *mixedCluster, blocks int) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range b.p {
		for k := range b.p {
			one, two := v.messages[tierRoute{i, k, wire.T1}], v.messages[tierRoute{i, k, wire.T2}]
			if i != k && (one < blocks || two > 0) {
				t.Errorf("%s %d sent %s %d %d consensus messages over tier 1 and %d over tier 2, want %d or more and 0",
					b.kind(i), i, b.kind(k), k, one, two, blocks)
			}
			if i == k {
				continue
			}
			// A node produces about a quarter of the blocks.
			early := v.early[[2]int{i, k}]
			t.Logf("%s %d sent %s %d %d optimistic blocks", b.kind(i), i, b.kind(k), k, early)
			if early < blocks/12 {
				t.Errorf("%s %d sent %s %d %d optimistic blocks, want %d or more", b.kind(i), i, b.kind(k), k, early, blocks/12)
			}
		}
	}
	type pair struct{ maker, endorser string }
	whole, made, checked := map[pair][]time.Duration{}, map[string][]time.Duration{}, map[pair][]time.Duration{}
	for at, done := range v.endorsed {
		maker, known := v.makers[at.of]
		had, has := v.blocks[tierAt[primitives.Height]{at.node, at.of.HeightCreated - 1}]
		if !known || !has || maker == at.node {
			continue
		}
		of := pair{b.kind(maker), b.kind(at.node)}
		whole[of] = append(whole[of], done.Sub(had))
		if got, has := v.parts[at]; has {
			checked[of] = append(checked[of], done.Sub(got))
		}
	}
	for at, got := range v.parts {
		if had, has := v.blocks[tierAt[primitives.Height]{v.makers[at.of], at.of.HeightCreated - 1}]; has {
			made[b.kind(v.makers[at.of])] = append(made[b.kind(v.makers[at.of])], got.Sub(had))
		}
	}
	for kind, list := range made {
		t.Logf("from a block to the witness part of the next chunk, made by a %s: %s", kind, spread(list))
	}
	for _, maker := range []string{"neard", "troupe"} {
		for _, endorser := range []string{"neard", "troupe"} {
			of := pair{maker, endorser}
			if b.neards == 0 && of != (pair{"troupe", "troupe"}) {
				continue
			}
			t.Logf("chunks of a %s, endorsed by a %s: from the block to the endorsement %s; from the first witness part to it %s",
				maker, endorser, spread(whole[of]), spread(checked[of]))
			if len(whole[of]) < blocks/4 {
				t.Errorf("only %d endorsements by a %s of chunks of a %s, want %d or more", len(whole[of]), endorser, maker, blocks/4)
			}
		}
	}
	if b.neards == 0 {
		return
	}
	most := 2 * median(whole[pair{"neard", "neard"}])
	for of, times := range whole {
		if m := median(times); m > most {
			t.Errorf("a %s endorses chunks of a %s %v after the block (median), want %v or less, twice as long as among neards",
				of.endorser, of.maker, m, most)
		}
	}
}
