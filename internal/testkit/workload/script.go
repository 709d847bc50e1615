package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Course configures a random chain: its length, forks and missing blocks and chunks.
type Course struct {
	Blocks  int     // number of blocks to produce, including abandoned branches
	PerStep int     // maximum number of transactions in a block
	Fork    float64 // probability that a block's parent is not the head
	Skip    float64 // probability that a block skips heights
	Miss    float64 // probability per block that a shard stops producing chunks
	Resume  float64 // probability per block that a stopped shard produces chunks again
}

// RandomChain draws chain options and a course from a seed.
func RandomChain(seed uint64, blocks int) (ChainOptions, Course) {
	rng := rand.New(rand.NewPCG(seed, 0x6368_6169_6e))
	o := ChainOptions{Options: Options{
		Seed: seed, Accounts: 4 + rng.IntN(40), Shards: []int{1, 2, 4, 4, 4, 5}[rng.IntN(6)], Skew: []float64{0, 0.7, 1}[rng.IntN(3)],
	}}
	o.EpochLength = uint64(5 + rng.IntN(30))
	o.GasLimit = []primitives.Gas{1_000_000_000_000_000, 30_000_000_000_000, 8_000_000_000_000}[rng.IntN(3)]
	// An epoch config allows a validity of at most two epochs.
	o.Validity = o.EpochLength + uint64(rng.IntN(int(o.EpochLength)+1))
	o.Store.FlatHeadBlocks = []int{0, 1, 7}[rng.IntN(3)] // 0 means the default
	c := Course{Blocks: blocks, PerStep: 1 + rng.IntN(24)}
	if rng.IntN(6) == 0 { // so many transactions are executed in parallel
		c.PerStep, c.Blocks = 250, (blocks+2)/3
	}
	if rng.IntN(2) == 0 {
		c.Fork, c.Skip = 0.15, 0.1
	}
	if rng.IntN(2) == 0 {
		c.Miss, c.Resume = 0.1, 0.3
	}
	return o, c
}

// Script produces the blocks of a random chain. The blocks depend only on the seed and the chain. A
// second run on the same chain produces the same blocks, even if the chain is restarted in between.
type Script struct {
	chain   *Chain
	course  Course
	gen     *Generator
	rng     *rand.Rand
	recent  []primitives.Hash // the last five imported blocks; a fork begins at one of them
	stopped map[primitives.ShardIndex]bool
	Entries map[primitives.Hash]*engine.BlockNode // all imported blocks
}

// NewScript returns a script for a new chain.
func NewScript(c *Chain, course Course) *Script {
	g := c.Engine.Genesis()
	return &Script{
		chain: c, course: course, gen: NewGenerator(c.o.Options), rng: rand.New(rand.NewPCG(c.o.Seed, 0x736372_6970_74)),
		stopped: map[primitives.ShardIndex]bool{}, Entries: map[primitives.Hash]*engine.BlockNode{g.Hash: g},
	}
}

// Made is a produced block. Accepted is nil if the chain already had the block.
type Made struct {
	Block    *primitives.Block
	Chunks   []*primitives.Chunk
	Accepted *engine.Imported
}

// Find returns an imported block, or nil. It has the signature of Lookup.
func (s *Script) Find(h primitives.Hash) *engine.BlockNode { return s.Entries[h] }

// parent draws the next block's parent: the head, or a recent descendant of the final block.
func (s *Script) parent() *engine.BlockNode {
	head := s.Entries[s.chain.Engine.Head().Hash]
	if s.rng.Float64() >= s.course.Fork || len(s.recent) == 0 {
		return head
	}
	at := s.Entries[s.recent[s.rng.IntN(len(s.recent))]]
	final := s.chain.Engine.Final()
	for e := at; e != nil && e.Height() >= final.Height; e = s.Entries[e.Header().PrevHash] {
		if e.Hash == final.Hash {
			return at
		}
		if e.Header().PrevHash.IsZero() {
			break
		}
	}
	return head
}

// Step produces and imports the next block.
func (s *Script) Step() (*Made, error) {
	parent := s.parent()
	height := parent.Height() + 1
	if s.rng.Float64() < s.course.Skip {
		height += primitives.Height(1 + s.rng.IntN(3))
	}
	base := Base{Height: height, Hash: parent.Hash}
	for range s.rng.IntN(8) { // go back at most seven blocks
		if prev := s.Entries[base.Hash].Header().PrevHash; !prev.IsZero() {
			base.Hash = prev
		}
	}
	plan := &Plan{Parent: parent.Hash, Height: height, Delay: 1_000_000 + s.rng.Uint64N(3_000_000_000)}
	if s.chain.o.Contracts && len(s.Entries) == 1 {
		plan.Transactions = s.gen.Deployments(base)
	}
	for range s.rng.IntN(s.course.PerStep + 1) {
		plan.Transactions = append(plan.Transactions, s.gen.Transaction(base))
	}
	if n := len(plan.Transactions); n > 1 && s.rng.IntN(8) == 0 { // include one transaction twice
		plan.Transactions = append(plan.Transactions, plan.Transactions[s.rng.IntN(n)])
	}
	layout, err := s.chain.childLayout(parent.Hash)
	if err != nil {
		return nil, err
	}
	for i := range primitives.ShardIndex(layout.NumShards()) {
		if s.stopped[i] {
			s.stopped[i] = s.rng.Float64() >= s.course.Resume
		} else {
			s.stopped[i] = s.rng.Float64() < s.course.Miss
		}
	}
	plan.Missing = func(i primitives.ShardIndex) bool { return s.stopped[i] }
	return s.make(plan)
}

func (s *Script) make(plan *Plan) (*Made, error) {
	b, chunks, err := s.chain.Make(plan)
	if err != nil {
		return nil, fmt.Errorf("workload: make block %d on %v: %w", plan.Height, plan.Parent, err)
	}
	if s.Entries[b.Hash()] != nil {
		return &Made{Block: b, Chunks: chunks}, nil // the same block was imported before
	}
	a, err := s.chain.Accept(b, chunks, true)
	if err != nil {
		return nil, fmt.Errorf("workload: import block %d on %v: %w", plan.Height, plan.Parent, err)
	}
	s.Entries[a.Entry.Hash] = a.Entry
	s.recent = append(s.recent, a.Entry.Hash)
	if len(s.recent) > 5 {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	return &Made{Block: b, Chunks: chunks, Accepted: a}, nil
}
