package chunkparts

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// world is a chain with four validators and four shards. Validator i produces the chunks of shard
// i; at every fifth height validator i+1 does instead. A node knows a block after BlockArrived. The
// node "" does not validate and tracks all shards.
type world struct {
	layout  primitives.ShardLayout
	rs      *primitives.ReedSolomon
	heights map[primitives.Hash]primitives.Height // heights of the chunks on a block; missing: 1

	anchored map[primitives.EpochID]bool // epochs with EarlyKickout
	parents  map[primitives.Hash]primitives.Hash
	// replaced are producers that replace the canonical ones of a shard, by anchor
	replaced map[primitives.Hash]map[primitives.ShardID]primitives.AccountID
	tails    map[primitives.Hash]bool // anchors that may be at the end of their epoch
}

func account(i int) primitives.AccountID { return primitives.AccountID(fmt.Sprintf("node%d", i)) }

func secret(a primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(a))
}

var producers = []primitives.AccountID{account(0), account(1), account(2), account(3)}

// nodeView is the Chain of one node: what that node knows of the world.
type nodeView struct {
	*world
	me      primitives.AccountID
	known   map[primitives.Hash]bool
	stored  map[primitives.Hash]*primitives.Chunk
	kept    map[primitives.Hash]*primitives.PartialChunk
	reads   int                // number of calls of Stored
	lookups int                // number of calls of Trackers
	unknown error              // error that Holds returns
	odd     primitives.ShardID // shard for which Producer and Maker return oddly, if that is not nil
	oddly   error
	epochs  map[primitives.Hash]primitives.EpochID // epoch of the children of a block; missing: {1}
	later   primitives.ShardLayout                 // shard layout of epoch {2}, if it differs
	more    []primitives.ShardID                   // additional tracked shards
	// trackers replaces the result of Trackers. nil: it depends on the shard.
	trackers []primitives.AccountID
}

func (e *nodeView) Epoch(prev primitives.Hash) (primitives.EpochID, bool) {
	if id, ok := e.epochs[prev]; ok {
		return id, e.known[prev]
	}
	return primitives.Hash{1}, e.known[prev]
}
func (e *nodeView) Height(prev primitives.Hash) (primitives.Height, bool) {
	return e.heights[prev] - 1, e.known[prev] && e.heights[prev] > 0
}
func (e *nodeView) NextEpoch(primitives.Hash) (primitives.EpochID, error) {
	return primitives.Hash{2}, nil
}
func (e *nodeView) Layout(id primitives.EpochID) (primitives.ShardLayout, error) {
	if e.epochs != nil && id == (primitives.EpochID{2}) {
		return e.later, nil
	}
	return e.layout, nil
}
func (e *nodeView) Owner(id primitives.EpochID, part uint64) (primitives.AccountID, error) {
	return producers[(part+uint64(id[0])-1)%4], nil
}
func (e *nodeView) Producer(_ primitives.EpochID, s primitives.ShardID, h primitives.Height) (primitives.ValidatorStake, error) {
	a := producers[int(s)%4]
	if s == e.odd && e.oddly != nil {
		return primitives.ValidatorStake{}, e.oddly
	}
	if h%5 == 0 {
		a = producers[int(s+1)%4]
	}
	return primitives.ValidatorStake{AccountID: a, PublicKey: secret(a).PublicKey()}, nil
}
func (e *nodeView) Maker(prev primitives.Hash, s primitives.ShardID) (primitives.ValidatorStake, error) {
	if id, _ := e.Epoch(prev); e.anchored[id] && !e.parents[prev].IsZero() {
		return e.row(e.parents[prev], s)
	}
	return e.Producer(primitives.EpochID{}, s, max(e.heights[prev], 1))
}

// row returns the producer of a shard's chunk with an anchor.
func (e *nodeView) row(anchor primitives.Hash, s primitives.ShardID) (primitives.ValidatorStake, error) {
	if a, ok := e.replaced[anchor][s]; ok {
		return primitives.ValidatorStake{AccountID: a, PublicKey: secret(a).PublicKey()}, nil
	}
	return e.Producer(primitives.EpochID{}, s, e.heights[anchor]+1)
}

func (e *nodeView) Anchored(id primitives.EpochID) (anchored, known bool) {
	return e.anchored[id], id[0] <= 2
}

func (e *nodeView) Parent(hash primitives.Hash) (primitives.Hash, error) {
	if !e.known[hash] {
		return primitives.Hash{}, epoch.ErrMissingBlock
	}
	return e.parents[hash], nil
}

func (e *nodeView) Following(id primitives.EpochID, prev primitives.Hash, s primitives.ShardID, h primitives.Height) (primitives.ValidatorStake, error) {
	if e.anchored[id] {
		return e.row(prev, s)
	}
	return e.Producer(id, s, h)
}

// ProducerAt does the same as anchor.Check for a chain with one epoch.
func (e *nodeView) ProducerAt(k primitives.ChunkKey, at primitives.ChunkAnchor) (v primitives.ValidatorStake, err error) {
	if _, known := e.Anchored(k.EpochID); !known {
		return v, epoch.ErrEpochOutOfBounds
	}
	id, parent := e.Epoch(at.PrevBlock)
	if parent && (id != k.EpochID || e.parents[at.PrevBlock] != at.PrevPrevBlock || e.heights[at.PrevBlock] != k.HeightCreated) {
		return v, anchor.ErrWrong
	}
	if at.PrevPrevBlock.IsZero() {
		if !parent && k.HeightCreated > 1 {
			return v, anchor.ErrWrong
		}
		return e.Producer(k.EpochID, k.ShardID, k.HeightCreated)
	}
	if !e.known[at.PrevPrevBlock] {
		return v, anchor.ErrEarly
	}
	if v, err = e.row(at.PrevPrevBlock, k.ShardID); err != nil || parent {
		return v, err
	}
	switch next := e.heights[at.PrevPrevBlock] + 1; {
	case k.HeightCreated < next:
		return primitives.ValidatorStake{}, anchor.ErrWrong
	case k.HeightCreated > next, e.tails[at.PrevPrevBlock]:
		return v, anchor.ErrEarly
	}
	return v, nil
}
func (e *nodeView) BlockProducers(primitives.EpochID) ([]primitives.AccountID, error) {
	return slices.Clone(producers), nil
}
func (e *nodeView) Trackers(_ primitives.Hash, s primitives.ShardID) ([]primitives.AccountID, error) {
	if e.lookups++; e.trackers != nil {
		return e.trackers, nil
	}
	return shardTrackers(s), nil
}
func shardTrackers(s primitives.ShardID) []primitives.AccountID {
	return []primitives.AccountID{producers[s%4], producers[(s+1)%4]}
}
func (e *nodeView) Holds(_ primitives.Hash, s primitives.ShardID) (bool, error) {
	return e.me == "" || slices.Contains(shardTrackers(s), e.me) || slices.Contains(e.more, s), e.unknown
}
func (e *nodeView) Stored(hash primitives.Hash) *primitives.Chunk {
	e.reads++
	return e.stored[hash]
}
func (e *nodeView) StoredPartial(hash primitives.Hash) *primitives.PartialChunk { return e.kept[hash] }

// inTransit is a message in transit, which arrives at the time at, in ms.
type inTransit struct {
	at int64
	to primitives.AccountID
	ev func() Event
}

// network is a simulated network of all nodes of a world. random makes it deterministic.
type network struct {
	*world
	t        testing.TB
	random   *rand.Rand
	loss     float64
	now      int64
	air      []inTransit
	nodes    map[primitives.AccountID]*Pool
	views    map[primitives.AccountID]*nodeView
	complete map[primitives.AccountID]map[primitives.Hash]Complete
	ready    map[primitives.AccountID]map[primitives.Hash]bool
	asks     int
}

func newNetwork(t testing.TB, seed uint64, seats int, loss float64) *network {
	layout, err := primitives.NewShardLayoutV2([]primitives.AccountID{"dd", "hh", "pp"}, []primitives.ShardID{0, 1, 2, 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, total := primitives.ChunkPartCounts(seats)
	rs, err := primitives.NewReedSolomon(data, total)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		layout: layout, rs: rs, heights: map[primitives.Hash]primitives.Height{}, parents: map[primitives.Hash]primitives.Hash{},
		replaced: map[primitives.Hash]map[primitives.ShardID]primitives.AccountID{}, tails: map[primitives.Hash]bool{},
	}
	n := &network{world: w, t: t, random: rand.New(rand.NewPCG(seed, 2)), loss: loss, nodes: map[primitives.AccountID]*Pool{},
		views: map[primitives.AccountID]*nodeView{}, complete: map[primitives.AccountID]map[primitives.Hash]Complete{}, ready: map[primitives.AccountID]map[primitives.Hash]bool{}}
	for _, a := range append(slices.Clone(producers), "") {
		n.views[a] = &nodeView{world: n.world, me: a, known: map[primitives.Hash]bool{}, stored: map[primitives.Hash]*primitives.Chunk{}}
		n.nodes[a] = New(a, n.views[a], rs, primitives.Signature.Verify, n.random.IntN)
		n.complete[a], n.ready[a] = map[primitives.Hash]Complete{}, map[primitives.Hash]bool{}
	}
	return n
}

// transmit puts an event in transit to a node. Some events are lost, some are duplicated.
func (n *network) transmit(to primitives.AccountID, ev func() Event) {
	for again := true; again; again = n.random.Float64() < n.loss {
		if n.random.Float64() >= n.loss {
			n.air = append(n.air, inTransit{at: n.now + 1 + n.random.Int64N(150), to: to, ev: ev})
		}
	}
}

func (n *network) step(by primitives.AccountID, ev Event) {
	out, err := n.nodes[by].Step(n.now, ev)
	if err != nil && !errors.Is(err, ErrUnknown) {
		n.t.Fatalf("%q: %v", by, err)
	}
	for _, s := range out.Send {
		raw := s.Body.AppendBorsh(nil)
		n.transmit(s.To, func() Event {
			switch s.Body.(type) {
			case *primitives.PartialChunk:
				c := new(primitives.PartialChunk)
				n.read(raw, c)
				return Partial{c}
			default:
				f := new(primitives.ChunkForward)
				n.read(raw, f)
				return Forward{f}
			}
		})
	}
	for _, a := range out.Ask {
		n.asks++
		to := a.Account
		if a.PreferPeer {
			to = ""
		}
		if to == by {
			to = producers[int(a.Shard)%4]
		}
		raw := a.Request.AppendBorsh(nil)
		n.transmit(to, func() Event {
			q := new(primitives.ChunkRequest)
			n.read(raw, q)
			return Request{q, by}
		})
	}
	for _, a := range out.Answer {
		raw := a.Body.AppendBorsh(nil)
		n.transmit(a.To.(primitives.AccountID), func() Event {
			r := new(primitives.ChunkResponse)
			n.read(raw, r)
			return Response{r}
		})
	}
	for _, h := range out.Ready {
		if n.ready[by][h.ChunkHash()] {
			n.t.Errorf("%q says twice that a chunk is ready", by)
		}
		n.ready[by][h.ChunkHash()] = true
	}
	for _, c := range out.Complete {
		if _, twice := n.complete[by][c.Chunk.Hash]; twice {
			n.t.Errorf("%q completes a chunk twice", by)
		}
		n.complete[by][c.Chunk.Hash] = c
	}
	if len(out.Bad) > 0 {
		n.t.Errorf("%q says that a chunk is bad", by)
	}
}

func (n *network) read(raw []byte, v borsh.Decoder) {
	if err := borsh.Unmarshal(raw, v); err != nil {
		n.t.Fatal(err)
	}
}

// run advances the time to until, in ms. It delivers messages, and sends a Tick to each node every
// 400 ms.
func (n *network) run(until int64) {
	for tick := n.now - n.now%400 + 400; ; {
		next := -1
		for i := range n.air {
			if next < 0 || n.air[i].at < n.air[next].at {
				next = i
			}
		}
		if next < 0 || n.air[next].at >= tick {
			if n.now = tick; n.now > until {
				return
			}
			for _, a := range append(slices.Clone(producers), "") {
				n.step(a, Tick{})
			}
			tick += 400
			continue
		}
		f := n.air[next]
		n.air = slices.Delete(n.air, next, next+1)
		n.now = f.at
		n.step(f.to, f.ev())
	}
}

// make produces the chunks of all shards on a block and gives them to their producers' pools.
func (n *network) make(prev primitives.Hash, h primitives.Height) (chunks []*primitives.Chunk) {
	for s := range primitives.ShardID(4) {
		var receipts []*primitives.Receipt
		for i := range n.random.IntN(6) {
			receipts = append(receipts, &primitives.Receipt{PredecessorID: "system", ReceiverID: []primitives.AccountID{"aa", "ee", "kk", "zz"}[n.random.IntN(4)],
				ID: primitives.Hash{byte(h), byte(s), byte(i)}, Body: &primitives.DataReceipt{DataID: primitives.Hash{byte(i)}, Data: bytes.Repeat([]byte{byte(i)}, n.random.IntN(400))}})
		}
		n.heights[prev] = h
		p, _ := n.views[producers[0]].Producer(primitives.Hash{1}, s, h)
		if parent := n.parents[prev]; n.anchored[primitives.EpochID{1}] && !parent.IsZero() {
			p, _ = n.views[producers[0]].row(parent, s)
		}
		c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: h, ShardID: s, Extra: new(chain.ChunkExtra), Outgoing: receipts, Layout: n.layout, Coding: n.rs}, secret(p.AccountID))
		if err != nil {
			n.t.Fatal(err)
		}
		chunks = append(chunks, c)
		n.step(p.AccountID, Made{c, coded})
	}
	return chunks
}

// TestLossyNetworkDeliversAllChunks: in a network that loses, duplicates and reorders messages,
// four validators and another node each get what they need of every chunk: the body if they track
// the shard, otherwise the receipts to shards that they track, and own parts.
func TestLossyNetworkDeliversAllChunks(t *testing.T) {
	t.Parallel()
	t.Run("before EarlyKickout", func(t *testing.T) { testLossyNetwork(t, false) })
	t.Run("with anchors", func(t *testing.T) { testLossyNetwork(t, true) })
}

// testLossyNetwork uses chunks with anchors if kickout is set. Then chunks at some heights have a
// producer other than the canonical one.
func testLossyNetwork(t *testing.T, kickout bool) {
	for _, c := range []struct {
		seats int
		loss  float64
		late  bool // blocks become known only after parts of the chunks on them arrived
	}{{4, 0, false}, {4, 0.2, false}, {10, 0, true}, {10, 0.25, false}, {10, 0.25, true}} {
		for seed := range uint64(4) {
			n := newNetwork(t, seed, c.seats, c.loss)
			n.anchored = map[primitives.EpochID]bool{{1}: kickout, {2}: kickout}
			var prev primitives.Hash
			made := 0
			for h := primitives.Height(1); h <= 8; h++ {
				hash := primitives.HashBytes(append(prev[:], byte(h)))
				n.parents[hash] = prev
				if h%3 == 0 {
					n.replaced[prev] = map[primitives.ShardID]primitives.AccountID{1: producers[2], 2: producers[3]}
				}
				know := func(a primitives.AccountID) {
					n.views[a].known[hash] = true
					n.step(a, Head{Hash: hash, Prev: prev, Height: h - 1})
					n.step(a, BlockArrived{hash})
				}
				for _, a := range append(slices.Clone(producers), "") {
					if p := slices.Index(producers, a); !c.late || p >= 0 && int(h)%2 == p%2 || h%5 == 0 {
						know(a)
					} else if p >= 0 {
						n.views[a].known[hash] = true // so that it can produce its chunk
					}
				}
				chunks := n.make(hash, h)
				n.run(n.now + 300)
				for _, a := range append(slices.Clone(producers), "") {
					know(a)
					var headers []*primitives.ChunkHeader
					for _, c := range chunks {
						x := c.Header
						x.HeightIncluded = h
						headers = append(headers, &x)
					}
					n.step(a, Wanted{Headers: headers, Ancestor: hash})
				}
				n.run(n.now + 8000)
				for _, c := range chunks {
					made++
					n.check(c)
				}
				prev = hash
			}
			if c.loss == 0 && !c.late && n.asks > made*4 {
				t.Errorf("%d requests for %d chunks", n.asks, made)
			}
		}
	}
}

// check compares what each node has of a chunk with what it needs.
func (n *network) check(c *primitives.Chunk) {
	n.t.Helper()
	for _, a := range append(slices.Clone(producers), "") {
		got, ok := n.complete[a][c.Hash]
		if !ok || !n.ready[a][c.Hash] {
			n.t.Errorf("%q has shard %d at %d: complete %v, own parts %v", a, c.Header.ShardID, c.Header.HeightCreated, ok, n.ready[a][c.Hash])
			continue
		}
		if holds, _ := n.views[a].Holds(primitives.Hash{}, c.Header.ShardID); holds {
			if got.Chunk.Proofs != nil || !bytes.Equal(got.Chunk.ChunkBody.AppendBorsh(nil), c.ChunkBody.AppendBorsh(nil)) {
				n.t.Errorf("%q has another body of shard %d", a, c.Header.ShardID)
			}
			n.views[a].stored[c.Hash] = got.Chunk
			continue
		}
		var held []primitives.ShardID
		for s := range primitives.ShardID(4) {
			if holds, _ := n.views[a].Holds(primitives.Hash{}, s); holds {
				held = append(held, s)
			}
		}
		if err := chain.ValidateProofs(got.Chunk); err != nil || !chain.Proves(got.Chunk, held) || len(got.Chunk.Proofs) != len(held) {
			n.t.Errorf("%q has other receipts of shard %d: %v", a, c.Header.ShardID, err)
		}
	}
}
