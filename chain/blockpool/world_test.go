package blockpool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// world is a model of a chain and its validators, as far as the pool depends on them. The first
// validators are hostile.
type world struct {
	t          *testing.T
	r          *rand.Rand
	validators int
	hostile    int
	epoch      primitives.Height            // length in heights
	signer     map[*primitives.Block]string // signer of each copy of a block
	// Blocks that only validation detects as invalid.
	bad     map[primitives.Hash]bool
	bodies  map[primitives.Hash]*primitives.Chunk             // by chunk hash
	blocks  map[primitives.Hash]*primitives.Block             // the blocks that peers have, by hash
	roots   map[*primitives.SignedTransaction]primitives.Hash // the tx_root of chunks, by their first transaction
	genesis *primitives.Block
	salt    uint64
}

func newWorld(t *testing.T, seed uint64, epoch primitives.Height) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 10)), validators: 10, hostile: 4, epoch: epoch, signer: map[*primitives.Block]string{},
		bad: map[primitives.Hash]bool{}, bodies: map[primitives.Hash]*primitives.Chunk{}, roots: map[*primitives.SignedTransaction]primitives.Hash{}, blocks: map[primitives.Hash]*primitives.Block{}}
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	w.genesis = &primitives.Block{Header: h.Init()}
	return w
}

// index returns the number of the epoch of a height, id its EpochID.
func (w *world) index(h primitives.Height) primitives.Height { return h / w.epoch }

func (w *world) id(h primitives.Height) primitives.EpochID {
	return primitives.HashBytes(fmt.Append(nil, "epoch", w.index(h)))
}

// producer returns the block producer of a height.
func (w *world) producer(h primitives.Height) string {
	x := primitives.HashBytes(fmt.Append(nil, w.index(h), h))
	return fmt.Sprint("v", int(x[0])%w.validators)
}

func (w *world) isHostile(h primitives.Height) bool {
	var n int
	if _, err := fmt.Sscanf(w.producer(h), "v%d", &n); err != nil {
		w.t.Fatal(err)
	}
	return n < w.hostile
}

// make returns a new block with its chunks, signed by its producer. Each call returns a different
// block.
func (w *world) make(parent *primitives.BlockHeader, height primitives.Height, chunks int) *primitives.Block {
	w.salt++
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: parent.Hash(), Signature: primitives.ZeroED25519Signature}
	h.Height, h.PrevHeight, h.EpochID, h.Timestamp = height, parent.Height, w.id(height), w.salt
	h.LastDSFinalBlock, h.LastFinalBlock = chain.LastDSFinal(parent, height), chain.LastFinal(parent, height)
	b := &primitives.Block{Header: h.Init()}
	for i := range chunks {
		w.chunk(b, i, nil)
	}
	w.signer[b] = w.producer(height)
	w.blocks[b.Hash()] = b
	return b
}

// chunk adds a new chunk to a block.
func (w *world) chunk(b *primitives.Block, shard int, txs []*primitives.SignedTransaction) {
	w.salt++
	c := &primitives.Chunk{ChunkBody: primitives.ChunkBody{Transactions: txs}}
	c.Header.Version, c.Header.PrevBlockHash, c.Header.HeightCreated = primitives.ChunkInnerV4, b.Header.PrevHash, b.Header.PrevHeight+1
	c.Header.ShardID, c.Header.EncodedLength = primitives.ShardID(shard), w.salt
	if len(txs) > 0 {
		root, ok := w.roots[txs[0]]
		if !ok {
			root = chain.TxRoot(txs)
			w.roots[txs[0]] = root
		}
		c.Header.TxRoot = root
	} else {
		c.Header.TxRoot = chain.TxRoot(nil)
	}
	c.Hash = c.Header.ChunkHash()
	included := c.Header
	included.HeightIncluded = b.Header.Height
	b.Body.Chunks = append(b.Body.Chunks, &included)
	w.bodies[c.Hash] = c
}

// forged returns a copy of a block that another account has signed.
func (w *world) forged(b *primitives.Block) *primitives.Block {
	c := *b
	w.signer[&c] = "nobody"
	return &c
}

// chunks returns the bodies of a block's new chunks.
func (w *world) chunks(b *primitives.Block) []*primitives.Chunk {
	out := make([]*primitives.Chunk, len(b.Body.Chunks))
	for i, h := range b.Body.Chunks {
		out[i] = w.bodies[h.ChunkHash()]
	}
	return out
}

// follower is a model of a node that uses the pool.
type follower struct {
	*world
	pool      *Pool
	adopted   map[primitives.Hash]*primitives.BlockHeader
	head      *primitives.BlockHeader
	final     *primitives.BlockHeader
	validated map[primitives.Hash]int // how often each block was validated
	kept      map[primitives.Hash]int // how often each block was accepted into the pool
	now       uint64
	blocksW   func(primitives.Hash) // called for each requested block
	chunksW   func(primitives.Hash)
}

// takesBodies makes each request for a body be answered at once. The pool must accept the body.
func (f *follower) takesBodies(t *testing.T) {
	f.chunksW = func(hash primitives.Hash) {
		if err := f.body(f.bodies[hash], false); err != nil {
			t.Errorf("a body of the validated block: %v", err)
		}
	}
}

func newFollower(w *world) *follower {
	g := w.genesis.Header
	return &follower{world: w, pool: New(0, 0), adopted: map[primitives.Hash]*primitives.BlockHeader{g.Hash(): g}, head: g, final: g,
		validated: map[primitives.Hash]int{}, kept: map[primitives.Hash]int{}, blocksW: func(primitives.Hash) {}, chunksW: func(primitives.Hash) {}}
}

var errSignature = errors.New("signature")

func (f *follower) descends(h *primitives.BlockHeader) bool {
	for h != nil && h.Height > f.final.Height {
		h = f.adopted[h.PrevHash]
	}
	return h == f.final
}

// admit models engine.PrecheckBlock.
func (f *follower) admit(b *primitives.Block) (Status, error) {
	h := b.Header
	if f.adopted[b.Hash()] != nil || h.Height <= f.final.Height {
		return 0, ErrStale
	}
	standing := Orphan
	if parent := f.adopted[h.PrevHash]; parent != nil {
		if !f.descends(parent) || h.Height <= parent.Height || h.EpochID != f.id(h.Height) || f.index(h.Height) > f.index(parent.Height)+1 {
			return 0, ErrStale
		}
		standing = Follows
	} else {
		known := false
		for _, at := range []*primitives.BlockHeader{f.head, f.final} {
			known = known || h.EpochID == f.id(at.Height) || h.EpochID == f.id(at.Height+f.epoch)
		}
		if !known {
			return UnknownEpoch, nil
		}
	}
	if f.signer[b] != f.producer(h.Height) {
		return 0, errSignature
	}
	return standing, nil
}

// take adds a received block, with or without its chunks, to the pool.
func (f *follower) take(b *primitives.Block, chunks []*primitives.Chunk, from string) error {
	f.now += AskAgain / 10
	in := Block{Block: b, Chunks: chunks, From: from, Standing: Orphan}
	had := f.pool.Has(b.Hash())
	if !had {
		var err error
		if in.Standing, err = f.admit(b); err != nil {
			return err
		}
		if in.Standing != UnknownEpoch {
			in.Producer = primitives.AccountID(f.producer(b.Header.Height))
		}
	}
	out, err := f.pool.Add(in, f.now)
	if !had && f.pool.Has(b.Hash()) {
		f.kept[b.Hash()]++
	}
	f.want(out)
	f.check()
	return err
}

// body adds a chunk that arrived without its block.
func (f *follower) body(c *primitives.Chunk, signed bool) error {
	err := f.pool.AddBody(c, signed, Need{Body: true})
	f.check()
	return err
}

func (f *follower) want(out Out) {
	if !out.Parent.IsZero() {
		f.blocksW(out.Parent)
	}
	for _, c := range out.Chunks {
		f.chunksW(c)
	}
}

// run validates all blocks that Next returns.
func (f *follower) run() {
	for b := f.pool.Next(); b != nil; b = f.pool.Next() {
		hash := b.Hash()
		f.validated[hash]++
		parent := f.adopted[b.Header.PrevHash]
		missing := false
		for i := range b.Body.Chunks {
			missing = missing || b.Chunks[i] == nil
		}
		switch {
		case f.signer[b.Block] != f.producer(b.Header.Height):
			f.t.Fatalf("block %d is validated, which nobody signed", b.Header.Height)
		case parent == nil || !f.descends(parent):
			f.pool.Dropped(hash, false)
		case f.bad[hash]:
			f.pool.Refused(hash, chain.InvalidApprovals)
		case missing:
			out, ok := f.pool.WaitForChunks(hash, f.now)
			if !ok {
				f.t.Fatalf("block %d comes without a body that the pool thinks it has", b.Header.Height)
			}
			f.want(out)
		default:
			f.adopt(b.Block)
		}
		f.check()
	}
}

func (f *follower) adopt(b *primitives.Block) {
	h := b.Header
	if f.adopted[h.Hash()] != nil {
		f.t.Fatalf("block %d is adopted twice", h.Height)
	}
	f.adopted[h.Hash()] = h
	epoch := false
	if h.Height > f.head.Height {
		epoch = f.index(h.Height) != f.index(f.head.Height)
		f.head = h
		if x := f.adopted[h.LastFinalBlock]; x != nil && x.Height > f.final.Height {
			f.final = x
		}
	}
	for _, again := range f.pool.Imported(b, f.head.Height, f.final.Height, epoch) {
		_ = f.take(again.Block, nil, again.From) // added again like a received block
	}
}

// check checks the bounds and counters of the pool.
func (f *follower) check() {
	p := f.pool
	if len(p.items) > MaxBlocks || p.bytes > MaxBlockBytes || len(p.unknownEpoch) > MaxUnknownEpoch || len(p.slots) > maxSlots ||
		(len(p.bodies.all) > MaxBodies || p.bodies.bytes > MaxBodyBytes) && p.evictionRankOf(p.farthestBody()).rank < validatedRank || len(p.invalid.why) > MaxRefused || len(p.invalid.order) != len(p.invalid.why) {
		f.t.Fatalf("a bound is passed: %d blocks of %d bytes, %d strangers, %d places, %d bodies of %d bytes, %d refusals", len(p.items), p.bytes,
			len(p.unknownEpoch), len(p.slots), len(p.bodies.all), p.bodies.bytes, len(p.invalid.why))
	}
}

// audit compares the counters of the pool with the contents.
func (f *follower) audit() {
	p := f.pool
	bytes, waiting, orphans := 0, 0, 0
	for hash, x := range p.items {
		bytes += x.size
		if hash != x.hash || x.missing != len(p.missingBodies(x)) {
			f.t.Fatalf("block %d lacks %d bodies, counted %d", x.Header.Height, len(p.missingBodies(x)), x.missing)
		}
		if !x.parent {
			waiting++
		}
	}
	for _, list := range p.children {
		waiting -= len(list)
	}
	for _, list := range p.children {
		orphans += len(list)
	}
	bodies, wants := 0, 0
	for _, x := range p.bodies.all {
		bodies += x.size
	}
	for _, list := range p.bodies.wants {
		for _, x := range list {
			if wants++; p.items[x.hash] != x {
				f.t.Fatalf("a body is wanted by block %d, which is gone", x.Header.Height)
			}
		}
	}
	if orphans != p.orphans || p.counters.Orphans.Load() != int64(orphans) {
		f.t.Fatalf("%d orphans, counted %d and %d", orphans, p.orphans, p.counters.Orphans.Load())
	}
	if bytes != p.bytes || waiting != 0 || bodies != p.bodies.bytes {
		f.t.Fatalf("blocks of %d bytes, counted %d; bodies of %d, counted %d; %d wait under no parent", bytes, p.bytes, bodies, p.bodies.bytes, waiting)
	}
}
