package blockpool

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// honest returns a chain of blocks on the genesis. The producer of the last block is honest.
func (w *world) honest(blocks int) (list []*primitives.Block) {
	at := w.genesis.Header
	for len(list) < blocks || w.isHostile(at.Height) {
		height := at.Height + 1
		if w.r.IntN(5) == 0 {
			height += 1 + primitives.Height(w.r.IntN(3))
		}
		b := w.make(at, height, w.r.IntN(3))
		list = append(list, b)
		at = b.Header
	}
	return list
}

// lost returns a block with an unknown parent.
func (w *world) lost(height primitives.Height) *primitives.Block {
	parent := &primitives.BlockHeader{}
	parent.Height = height - 1
	b := w.make(parent, height, 0)
	b.Header.PrevHash = primitives.Hash{1, byte(w.salt), byte(w.salt >> 8), byte(w.salt >> 16)}
	b.Header.Init()
	return b
}

// noise adds other blocks that peers send: losing forks, equivocating blocks, invalid blocks.
func (w *world) noise(list []*primitives.Block) (out []*primitives.Block) {
	last := list[len(list)-1].Header.Height
	for i, b := range list {
		if w.r.IntN(4) == 0 { // a fork that skips heights, so that none of its blocks becomes final
			at := b.Header
			bad := w.r.IntN(6)
			for range 1 + w.r.IntN(6) {
				height := at.Height + 2 + primitives.Height(w.r.IntN(2))
				if height >= last {
					break
				}
				x := w.make(at, height, w.r.IntN(3))
				if bad--; bad == 0 {
					w.bad[x.Hash()] = true
				}
				out = append(out, x)
				at = x.Header
			}
		}
		if b != list[len(list)-1] && w.isHostile(b.Header.Height) {
			parent := w.genesis.Header
			if i > 0 {
				parent = list[i-1].Header
			}
			for range w.r.IntN(6) {
				x := w.make(parent, b.Header.Height, w.r.IntN(3))
				w.bad[x.Hash()] = w.r.IntN(2) == 0
				out = append(out, x)
			}
		}
	}
	return out
}

// TestBlocksInAnyOrderReachTheSameHead: blocks and chunks arrive in random order and repeatedly,
// with bad signatures, wrong producers, forks, equivocating blocks, distant heights and unknown
// epochs among them. The final head must be the same as if the chain had arrived in order. Each
// block is executed at most once, and an invalid one is validated at most once. At most
// MaxEquivocating blocks of a height and producer are kept, except those on which other blocks
// build.
func TestBlocksInAnyOrderReachTheSameHead(t *testing.T) {
	t.Parallel()
	asked, beyond := 0, 0
	for seed := range uint64(150) {
		w := newWorld(t, seed, 1000)
		list := w.honest(20 + w.r.IntN(60))
		all := slices.Concat(list, w.noise(list))
		for range 20 {
			far := w.lost(1<<40 + primitives.Height(w.r.IntN(1000)))
			near := w.make(list[w.r.IntN(len(list))].Header, 2000+primitives.Height(w.r.IntN(5)), 1)
			all = append(all, far, near) // these two are of unknown epochs
			high := w.lost(1<<40 + primitives.Height(w.r.IntN(1000)))
			high.Header.EpochID = w.id(0)
			high.Header.Init()
			odd := w.lost(primitives.Height(1 + w.r.IntN(900)))
			w.signer[odd] = "v0"
			all = append(all, high, odd)
		}
		f := newFollower(w)
		var events []func()
		later := func(do func()) { events = append(events, do) }
		f.blocksW = func(hash primitives.Hash) {
			asked++
			if b := w.blocks[hash]; b != nil {
				later(func() { _ = f.take(b, nil, "asked") })
			}
		}
		f.chunksW = func(hash primitives.Hash) { later(func() { _ = f.body(w.bodies[hash], false) }) }
		for _, b := range all {
			for range 1 + w.r.IntN(3) {
				from := fmt.Sprint("peer", w.r.IntN(5))
				with := w.chunks(b)
				for i := range with {
					if w.r.IntN(2) == 0 {
						with[i] = nil
					}
				}
				later(func() { _ = f.take(b, with, from) })
				if w.r.IntN(4) == 0 {
					forged := w.forged(b)
					later(func() {
						if err := f.take(forged, nil, from); err == nil && !f.pool.Has(b.Hash()) {
							if s, _ := f.admit(forged); s != UnknownEpoch {
								t.Errorf("seed %d: a forged block %d is kept", seed, b.Header.Height)
							}
						}
					})
				}
			}
		}
		for {
			if len(events) == 0 {
				if f.run(); len(events) == 0 {
					break
				}
			}
			i := w.r.IntN(len(events))
			do := events[i]
			events[i] = events[len(events)-1]
			events = events[:len(events)-1]
			do()
			if w.r.IntN(3) > 0 {
				f.run()
			}
			if len(events)%50 == 0 {
				f.audit()
			}
		}
		f.audit()
		want := list[len(list)-1].Header
		if f.head != want {
			t.Fatalf("seed %d: head %d, want %d", seed, f.head.Height, want.Height)
		}
		for hash, n := range f.validated {
			if w.bad[hash] && n > 1 || n > 2*f.kept[hash] { // validated first without its bodies, then with them
				t.Errorf("seed %d: block %d is validated %d times, and was taken in %d times", seed, w.blocks[hash].Header.Height, n, f.kept[hash])
			}
		}
		parents := map[primitives.Hash]bool{}
		for _, b := range all {
			parents[b.Header.PrevHash] = true
		}
		leaves, twins := map[primitives.Height]int{}, map[primitives.Height]int{}
		for hash, h := range f.adopted {
			if twins[h.Height]++; !parents[hash] {
				leaves[h.Height]++
			}
		}
		for height, n := range leaves {
			if n > MaxEquivocating {
				t.Errorf("seed %d: %d blocks of height %d executed that nobody builds on", seed, n, height)
			}
		}
		for _, n := range twins {
			beyond += max(0, n-MaxEquivocating)
		}
	}
	t.Logf("%d blocks asked for; %d executed beyond the bound, as others build on them", asked, beyond)
	if asked == 0 || beyond == 0 {
		t.Error("the test reaches too little")
	}
}

// TestUselessEquivocationsDoNotBlockChain: blocks of a producer that are refused, lack a body, or
// have a parent that does not exist, do not prevent the pool from accepting another block of their
// height on the tip. Other nodes may have imported and approved that block.
func TestUselessEquivocationsDoNotBlockChain(t *testing.T) {
	t.Parallel()
	for name, equivocating := range map[string]func(w *world, at *primitives.BlockHeader) *primitives.Block{
		"refused": func(w *world, at *primitives.BlockHeader) *primitives.Block {
			b := w.make(at, at.Height+1, 0)
			w.bad[b.Hash()] = true
			return b
		},
		"without bodies": func(w *world, at *primitives.BlockHeader) *primitives.Block { return w.make(at, at.Height+1, 1) },
		"orphans":        func(w *world, at *primitives.BlockHeader) *primitives.Block { return w.lost(at.Height + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1000)
			f := newFollower(w)
			at := w.genesis.Header
			for range 3 * MaxEquivocating {
				_ = f.take(equivocating(w, at), nil, "liar")
				f.run()
			}
			b := w.make(at, at.Height+1, 1)
			if err := f.take(b, w.chunks(b), "friend"); err != nil {
				t.Fatal(err)
			}
			f.run()
			if f.head != b.Header {
				t.Error("the block is not imported")
			}
			if n, _ := f.pool.Len(); n > MaxEquivocating {
				t.Errorf("%d blocks are kept", n)
			}
			for range 2 * MaxEquivocating { // the slot is full as soon as some are imported
				if x := w.make(at, at.Height+1, 0); f.take(x, nil, "liar") == nil {
					f.run()
				}
			}
			if n := len(f.adopted) - 1; n > MaxEquivocating {
				t.Errorf("%d blocks of the height are adopted", n)
			}
			f.audit()
		})
	}
}

// TestOrphanIsEvictedWhenPoolIsFull: two orphans of each height of the window fit into the pool.
// When it is full, the orphan farthest from the tip is evicted and counted. The number of orphans
// also falls when a parent is imported and when the pool is emptied.
func TestOrphanIsEvictedWhenPoolIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 10_000)
	p, c := New(0, 0), new(Counters)
	p.SetCounters(c)
	check := func(after string, orphans, evicted int) {
		t.Helper()
		if o, e := c.Orphans.Load(), c.EvictedOrphans.Load(); o != int64(orphans) || e != uint64(evicted) {
			t.Errorf("after %s: %d orphans, %d evicted; want %d, %d", after, o, e, orphans, evicted)
		}
	}
	add := func(b *primitives.Block, standing Status, producer primitives.AccountID) error {
		_, err := p.Add(Block{Block: b, Standing: standing, Producer: producer}, 1)
		return err
	}
	parent := w.make(w.genesis.Header, 1, 0)
	child := w.make(parent.Header, 2, 0)
	if err := add(child, Orphan, "v"); err != nil {
		t.Fatal(err)
	}
	var last *primitives.Block
	for h := primitives.Height(1); h <= Window; h++ {
		for len(p.slots[slot{h, "v"}]) < MaxEquivocating {
			last = w.lost(h)
			if err := add(last, Orphan, "v"); err != nil {
				t.Fatalf("an orphan of height %d: %v", h, err)
			}
		}
	}
	check("filling the window", MaxBlocks, 0)
	if err := add(w.lost(Window), Orphan, "another"); !errors.Is(err, ErrFull) {
		t.Errorf("an orphan at the end of the window, in a full pool: %v", err)
	}
	check("an orphan that finds no room", MaxBlocks, 1)
	if err := add(parent, Follows, "another"); err != nil {
		t.Fatal(err)
	}
	check("a block that follows the tip", MaxBlocks-1, 2)
	if p.Has(last.Hash()) {
		t.Error("the orphan farthest from the tip is still pooled")
	}
	if err := add(w.make(w.genesis.Header, 1, 0), Follows, "v"); err != nil {
		t.Fatal(err)
	}
	check("a block in the place of an orphan of its producer", MaxBlocks-2, 3)
	p.Next()
	p.Imported(parent, 1, 0, false)
	check("importing the parent of an orphan", MaxBlocks-3, 3)
	p.Clear()
	check("emptying the pool", 0, 3)
}

// TestBlocksOfUnknownEpochsAreImported: blocks of several epochs, which at first are unknown, are
// all imported if they arrive roughly in order.
func TestBlocksOfUnknownEpochsAreImported(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := newWorld(t, seed, 10)
		list := w.honest(100)
		f := newFollower(w)
		f.chunksW = func(hash primitives.Hash) { _ = f.body(w.bodies[hash], false) }
		f.blocksW = func(hash primitives.Hash) {}
		for at := 0; at < len(list); at += 25 {
			window := slices.Clone(list[at:min(at+25, len(list))])
			w.r.Shuffle(len(window), func(i, k int) { window[i], window[k] = window[k], window[i] })
			for i, b := range window {
				_ = f.take(b, w.chunks(b), fmt.Sprint("peer", i%8))
			}
			f.run()
		}
		if want := list[len(list)-1].Header; f.head != want {
			t.Errorf("seed %d: head %d, want %d", seed, f.head.Height, want.Height)
		}
	}
}

// TestFloodedPoolStillImportsChain: an attacker with four of ten validators and any number of
// connections has filled every bound with blocks of maximum size and bodies of chunks that were
// never produced, and continues. All blocks of the chain are imported nevertheless, even in the
// worst order of arrival.
func TestFloodedPoolStillImportsChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 10_000)
	var list []*primitives.Block
	for at := w.genesis.Header; len(list) < 60; {
		height := at.Height + 1
		for w.isHostile(height) {
			height++
		}
		b := w.make(at, height, 2)
		list = append(list, b)
		at = b.Header
	}
	f := newFollower(w)
	signatures := make([]primitives.Signature, 8000)
	big := heavyBody()
	heavy := 0
	orphan := func(height primitives.Height, body bool) {
		b := w.lost(height)
		b.Body.ChunkEndorsements = [][]primitives.Signature{signatures}
		if w.chunk(b, 0, nil); body && heavy < 100 {
			heavy++
			w.chunk(b, 1, big)
		}
		_ = f.take(b, w.chunks(b), "attacker")
	}
	attack := func(from, to primitives.Height) {
		for h := from; h < to; h++ {
			for range 4 {
				if w.isHostile(h) {
					orphan(h, h%2 == 0)
				}
			}
		}
	}
	attack(1, Window+200)
	for i := range 64 {
		for range 8 {
			_ = f.take(w.lost(1<<30), nil, fmt.Sprint("sybil", i))
		}
	}
	p := f.pool
	// Small blocks fill the space that large ones leave.
	for h := Window; h > 500 && p.bytes < MaxBlockBytes-2500; h-- {
		for range MaxEquivocating {
			if b := w.lost(h); w.isHostile(h) {
				_ = f.take(b, nil, "attacker")
			}
		}
	}
	if p.bytes < MaxBlockBytes-2500 || p.bodies.bytes < MaxBodyBytes-MaxBodySize || len(p.unknownEpoch) != MaxUnknownEpoch {
		t.Fatalf("the bounds are not filled: blocks of %d bytes, bodies of %d, %d strangers", p.bytes, p.bodies.bytes, len(p.unknownEpoch))
	}
	for i, b := range slices.Backward(list) {
		if err := f.take(b, nil, "friend"); err != nil {
			t.Fatalf("block %d of %d: %v", i, len(list), err)
		}
		attack(1, 130)
		f.run()
	}
	late := w.r.Perm(len(list))
	for _, i := range late {
		for _, c := range w.chunks(list[i]) {
			if err := f.body(c, false); err != nil && !errors.Is(err, ErrUnwanted) && !errors.Is(err, ErrFull) {
				t.Fatalf("chunk of block %d: %v", i, err)
			}
		}
		f.run()
	}
	// Evicted bodies are requested again.
	f.chunksW = func(hash primitives.Hash) { _ = f.body(w.bodies[hash], false) }
	for round := range 2 * len(list) {
		if round < 5 {
			attack(1, 130)
		}
		for _, b := range list {
			_ = f.take(b, nil, "friend")
		}
		f.run()
	}
	f.audit()
	if want := list[len(list)-1].Header; f.head != want {
		t.Errorf("head %d, want %d", f.head.Height, want.Height)
	}
}

// heavyBody returns transactions of 8 MiB.
func heavyBody() []*primitives.SignedTransaction {
	return []*primitives.SignedTransaction{primitives.NewSignedTransaction(primitives.Transaction{
		SignerID: "a", ReceiverID: "b", PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey(),
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "f", Args: make([]byte, 8<<20)}},
	}, primitives.ZeroED25519Signature)}
}

// TestNeededBodiesAreKeptWhateverTheirSize: bodies that a validated block needs are kept whatever
// their size, because the chain continues with this block. Additional data of the producer does not
// make a block too large either.
func TestNeededBodiesAreKeptWhateverTheirSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6, 1000)
	f := newFollower(w)
	long := heavyBody()
	long[0].Actions[0].(*primitives.FunctionCall).Args = make([]byte, 48<<20)
	long[0] = primitives.NewSignedTransaction(long[0].Transaction, primitives.ZeroED25519Signature)
	b := w.make(w.genesis.Header, 1, 0)
	b.Body.Challenges = make([]byte, 3<<20)
	for i := range 6 {
		w.chunk(b, i, long)
	}
	f.takesBodies(t)
	if err := f.take(b, nil, "friend"); err != nil {
		t.Fatal(err)
	}
	f.run()
	f.audit()
	if f.head != b.Header {
		t.Errorf("head %d", f.head.Height)
	}
	if err := f.body(w.chunks(b)[0], true); !errors.Is(err, ErrFull) {
		t.Errorf("a long body that no block needs: %v", err)
	}
}

// TestBodiesOfOrphansAreEvictedFirst: to make room for a body of a validated block, bodies of
// orphans are evicted, even if these are nearer to the tip.
func TestBodiesOfOrphansAreEvictedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6, 1000)
	f := newFollower(w)
	big := heavyBody()
	for h := primitives.Height(1); f.pool.bodies.bytes < MaxBodyBytes-MaxBodySize; h++ {
		b := w.lost(h)
		w.chunk(b, 0, big)
		if err := f.take(b, w.chunks(b), "attacker"); err != nil {
			t.Fatal(err)
		}
	}
	b := w.make(w.genesis.Header, 500, 0)
	for i := range 6 {
		w.chunk(b, i, big)
	}
	f.takesBodies(t)
	if err := f.take(b, nil, "friend"); err != nil {
		t.Fatal(err)
	}
	f.run()
	f.audit()
	if f.head != b.Header {
		t.Errorf("head %d, want 500", f.head.Height)
	}
}

// TestEachSenderHasBoundedShare: among the blocks of unknown epochs, each sender has at most
// MaxEach, those nearest to the tip. A sender that comes late finds room, too.
func TestEachSenderHasBoundedShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 10)
	f := newFollower(w)
	far := func(i int) *primitives.Block { return w.lost(1000 + primitives.Height(i)) }
	for i := range 3 * MaxEach {
		_ = f.take(far(3*MaxEach-i), nil, "one")
	}
	if len(f.pool.unknownEpoch) != MaxEach || f.pool.unknownEpoch[MaxEach-1].Header.Height != 1001 {
		t.Errorf("one sender has %d, the last at height %d", len(f.pool.unknownEpoch), f.pool.unknownEpoch[len(f.pool.unknownEpoch)-1].Header.Height)
	}
	for i := range 4 * MaxUnknownEpoch {
		_ = f.take(far(500+i), nil, fmt.Sprint(i%16))
	}
	late := far(100_000)
	if err := f.take(late, nil, "late"); err != nil || f.pool.unknownEpoch[MaxUnknownEpoch-1].Block.Block != late {
		t.Errorf("a late sender finds no space: %v", err)
	}
	if err := f.take(late, nil, "late"); err != nil || len(f.pool.unknownEpoch) != MaxUnknownEpoch {
		t.Errorf("a second time: %v, %d", err, len(f.pool.unknownEpoch))
	}
}

// TestDescendantsOfInvalidBlockAreRefused: an invalid block and its descendants, those in the pool
// and those that arrive later, are refused without validation. At most MaxRefused invalid blocks
// are remembered.
func TestDescendantsOfInvalidBlockAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, 100_000)
	f := newFollower(w)
	var list []*primitives.Block
	at := w.genesis.Header
	for range 5 {
		b := w.make(at, at.Height+1, 0)
		list, at = append(list, b), b.Header
	}
	w.bad[list[1].Hash()] = true
	for _, i := range []int{3, 2, 1, 0} {
		if err := f.take(list[i], nil, "a"); err != nil {
			t.Fatal(err)
		}
	}
	f.run()
	for i, b := range list[1:] {
		err := f.take(b, nil, "b")
		if !errors.Is(err, ErrRefused) || !errors.Is(err, chain.InvalidApprovals) || len(err.Error()) > 120 {
			t.Errorf("block %d: %v", i+2, err)
		}
	}
	f.run()
	if len(f.validated) != 2 || len(f.pool.items) != 0 || f.head != list[0].Header {
		t.Errorf("%d blocks validated, %d kept, head %d", len(f.validated), len(f.pool.items), f.head.Height)
	}
	for i := range 2 * MaxRefused {
		f.pool.Refused(primitives.HashBytes([]byte{byte(i), byte(i >> 8)}), chain.InvalidApprovals)
		f.check()
	}
	if f.pool.Refusal(list[1].Hash()) != nil || len(f.pool.invalid.why) != MaxRefused {
		t.Errorf("%d refusals are remembered", len(f.pool.invalid.why))
	}
}

// TestBodyMustBeNeededOrSigned: a body is accepted if a block needs it or if its signature is
// valid. A body that does not match its header is refused, and the right one is still awaited.
func TestBodyMustBeNeededOrSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 1000)
	f := newFollower(w)
	b := w.make(w.genesis.Header, 1, 2)
	c := w.chunks(b)
	if err := f.body(c[0], false); !errors.Is(err, ErrUnwanted) {
		t.Errorf("a body that no block needs: %v", err)
	}
	if err := f.body(c[0], true); err != nil {
		t.Errorf("a signed body: %v", err)
	}
	wrong := *c[1]
	wrong.Transactions = []*primitives.SignedTransaction{primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a", ReceiverID: "b",
		PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()}, primitives.ZeroED25519Signature)}
	if out, err := f.pool.Add(Block{Block: b, Chunks: []*primitives.Chunk{nil, &wrong}, Standing: Follows}, 1); err != nil || !errors.Is(out.Bad, chain.InvalidTxRoot) {
		t.Errorf("a block with a wrong body: %v, %v", out.Bad, err)
	}
	f.run()
	if f.head != w.genesis.Header || f.validated[b.Hash()] != 1 {
		t.Fatal("a block without a body is imported, or was not validated")
	}
	if err := f.body(&wrong, false); !errors.Is(err, chain.InvalidTxRoot) {
		t.Errorf("a wrong body: %v", err)
	}
	if err := f.body(c[1], false); err != nil {
		t.Error(err)
	}
	f.run()
	if f.head != b.Header || len(f.pool.bodies.all) != 0 {
		t.Errorf("head %d, %d bodies kept", f.head.Height, len(f.pool.bodies.all))
	}
	for i := range 3 * MaxEquivocatingBodies { // a chunk producer equivocates
		x := w.make(b.Header, 2, 1)
		if err := f.body(w.chunks(x)[0], true); i < MaxEquivocatingBodies && err != nil || i >= MaxEquivocatingBodies && !errors.Is(err, ErrEquivocating) {
			t.Errorf("chunk %d of one shard and height: %v", i, err)
		}
	}
}

// sending returns a block on the genesis in which each shard has a new chunk with one receipt.
func (w *world) sending(layout primitives.ShardLayout) (b *primitives.Block, whole []*primitives.Chunk) {
	b = w.make(w.genesis.Header, 1, 0)
	for i, id := range layout.ShardIDs() {
		w.chunk(b, i, nil)
		c := w.bodies[b.Body.Chunks[i].ChunkHash()]
		c.PrevOutgoingReceipts = []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "a.near",
			Body: &primitives.ActionReceipt{SignerID: "a.near", SignerPublicKey: primitives.ZeroED25519Key}}}
		c.Header.ShardID = id
		c.Header.PrevOutgoingReceiptsRoot, _ = chain.OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
		c.Hash = c.Header.ChunkHash()
		h := c.Header
		h.HeightIncluded = 1
		b.Body.Chunks[i] = &h
		whole = append(whole, c)
	}
	return b, whole
}

// TestUntrackedShardNeedsOnlyReceipts: of a chunk in an untracked shard, a block needs the receipts
// to all tracked shards and nothing else. Other data is not kept.
func TestUntrackedShardNeedsOnlyReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 100)
	layout, err := primitives.MultiShardLayout(4)
	if err != nil {
		t.Fatal(err)
	}
	ids := layout.ShardIDs()
	b, whole := w.sending(layout)
	held := []primitives.ShardID{ids[0], ids[2]}
	add := func(needs []Need) *Pool {
		p := New(0, 0)
		if _, err := p.Add(Block{Block: b, Standing: Follows, Producer: "v", Needs: needs}, 1); err != nil {
			t.Fatal(err)
		}
		if p.Next() == nil {
			t.Fatal("the block is not validated")
		}
		return p
	}
	p := add([]Need{{Body: true}, {To: held}, {Body: true}, {To: held}})
	if out, ok := p.WaitForChunks(b.Hash(), 1); !ok || len(out.Chunks) != 4 {
		t.Fatalf("%d chunks are requested, want 4", len(out.Chunks))
	}
	bad := *chain.CutChunk(whole[1], layout, held)
	bad.Proofs = slices.Clone(bad.Proofs)
	bad.Proofs[1].Receipts = whole[1].PrevOutgoingReceipts[:0]
	bad.Proofs[0].Receipts = bad.Proofs[0].Receipts[:0]
	for name, tt := range map[string]struct {
		c    *primitives.Chunk
		want error
	}{
		"proofs of a held shard":      {chain.CutChunk(whole[0], layout, ids), ErrUnwanted},
		"a body, which has no proofs": {whole[1], ErrUnwanted},
		"one proof of two":            {chain.CutChunk(whole[1], layout, held[:1]), ErrUnwanted},
		"none":                        {chain.CutChunk(whole[1], layout, nil), ErrUnwanted},
		"other receipts":              {&bad, chain.InvalidReceiptsProof},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.AddBody(tt.c, true, Need{Body: true}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	for i, c := range []*primitives.Chunk{whole[0], chain.CutChunk(whole[1], layout, ids), whole[2], chain.CutChunk(whole[3], layout, held)} {
		if p.Next() != nil {
			t.Fatalf("the block goes on with %d of 4", i)
		}
		if err := p.AddBody(c, false, Need{}); err != nil {
			t.Fatal(err)
		}
	}
	got := p.Next()
	if got == nil {
		t.Fatal("the block does not go on")
	}
	for i, c := range got.Chunks {
		if want := map[bool]int{true: 0, false: 2}[i%2 == 0]; c == nil || len(c.Proofs) != want || len(c.PrevOutgoingReceipts) != 0 {
			t.Errorf("chunk %d is kept with more or less than is needed: %+v", i, c)
		}
	}
	p = add(make([]Need, 4)) // the needs of a node that tracks no shard
	if _, ok := p.WaitForChunks(b.Hash(), 1); ok {
		t.Error("a block waits for what nobody needs")
	}
	for _, c := range []*primitives.Chunk{whole[0], chain.CutChunk(whole[0], layout, ids)} {
		if err := p.AddBody(c, true, Need{}); !errors.Is(err, ErrUnwanted) {
			t.Errorf("what nobody needs is taken: %v", err)
		}
	}
}

// TestChangedTrackingRequestsMissingBodies: if the tracked shards have changed since a block
// arrived, it waits for the bodies that are needed now. Suitable stored bodies are kept, the others
// are requested.
func TestChangedTrackingRequestsMissingBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 100)
	layout, err := primitives.MultiShardLayout(4)
	if err != nil {
		t.Fatal(err)
	}
	ids := layout.ShardIDs()
	b, whole := w.sending(layout)
	p, held := New(0, 0), ids[:1]
	if _, err := p.Add(Block{Block: b, Standing: Follows, Producer: "v", Needs: []Need{{Body: true}, {To: held}, {To: held}, {To: held}}}, 1); err != nil {
		t.Fatal(err)
	}
	p.Next()
	if _, ok := p.WaitForChunks(b.Hash(), 1); !ok {
		t.Fatal("the block lacks no chunk")
	}
	for i, c := range []*primitives.Chunk{whole[0], chain.CutChunk(whole[1], layout, held), chain.CutChunk(whole[2], layout, ids)} {
		if err := p.AddBody(c, i == 2, Need{}); err != nil {
			t.Fatal(err)
		}
	}
	if list := p.Blocks(); len(list) != 1 || list[0].Block != b {
		t.Fatalf("%d blocks", len(list))
	}
	held = ids[:2]
	needs := []Need{{Body: true}, {Body: true}, {To: held}, {To: held}}
	out := p.Refresh(b.Hash(), needs, 2)
	if want := []primitives.Hash{whole[1].Hash, whole[2].Hash, whole[3].Hash}; !slices.Equal(out.Chunks, want) {
		t.Fatalf("%d chunks are requested, want 4, want %d", len(out.Chunks), len(want))
	}
	for i, c := range []*primitives.Chunk{whole[1], chain.CutChunk(whole[2], layout, held), chain.CutChunk(whole[3], layout, held)} {
		if p.Next() != nil {
			t.Fatalf("it goes on with %d of 3", i)
		}
		if err := p.AddBody(c, false, Need{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Blocks()) != 1 || p.Next() == nil || len(p.Blocks()) != 0 {
		t.Fatal("it does not go on")
	}
	p.Refresh(b.Hash(), []Need{{}, {}, {}, {}}, 3) // while the block is being validated
	if _, ok := p.WaitForChunks(b.Hash(), 3); ok {
		t.Error("what needs nothing lacks something")
	}
	if out := p.Refresh(primitives.Hash{9}, needs, 3); len(out.Chunks) > 0 {
		t.Error("a block that is not kept lacks something")
	}
}
