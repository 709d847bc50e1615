package replay

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// stateTransfers is a replay beside which, at every epoch's sync block, a new node starts from blocks and
// state parts alone.
type stateTransfers struct {
	blocks  []*primitives.Block
	chunks  map[primitives.Hash][]*primitives.Chunk
	nodes   []*partial
	begun   map[primitives.EpochID]bool
	parts   int
	late    int // shards that had no chunk in the parent of a sync block
	restart int
	every   int // epochs
}

// behind passes a block to the existing nodes, and starts another node if it is a sync block.
func (a *stateTransfers) behind(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
	if len(a.blocks) == 0 {
		a.blocks = append(a.blocks, r.e.Genesis().Block)
	}
	a.blocks, a.chunks[b.Hash()] = append(a.blocks, b), chunks
	for _, n := range a.nodes {
		if err := a.feed(r, n, b); err != nil {
			return err
		}
	}
	at := r.e.Imported(b.Hash())
	if a.begun[b.Header.EpochID] {
		return nil
	}
	point, err := r.e.SyncPoint(at)
	if err != nil || point == nil || point.Hash == b.Hash() { // the sync block is the next one
		return err
	}
	if a.begun[b.Header.EpochID] = true; len(a.begun)%a.every != 1%a.every {
		return nil
	}
	return a.begin(r, point)
}

// lateShard adds to start the last chunk of a shard that has no new chunk in the sync block's parent,
// and the receipts that were sent to the shard. h is the header of that chunk.
func (a *stateTransfers) lateShard(start *engine.BootstrapInput, blocks []*primitives.Block, layout primitives.ShardLayout, i int, h *primitives.ChunkHeader) {
	proofs := map[primitives.Hash][]*primitives.Chunk{}
	since := primitives.Height(0)
	for _, b := range a.blocks {
		if b.Hash() == h.PrevBlockHash {
			since = b.Body.Chunks[i].HeightIncluded
		}
	}
	for _, b := range blocks {
		if b.Header.Height <= since {
			continue
		}
		cut := make([]*primitives.Chunk, len(b.Body.Chunks))
		for k, c := range a.chunks[b.Hash()] {
			if c != nil {
				cut[k] = chain.CutChunk(c, layout, layout.ShardIDs()[i:i+1])
			}
		}
		proofs[b.Hash()] = cut
		if b.Header.Height == h.HeightIncluded {
			start.Next[i] = a.chunks[b.Hash()][i]
		}
	}
	start.LateProofs[primitives.ShardIndex(i)] = proofs
}

func (a *stateTransfers) feed(r *runner, n *partial, b *primitives.Block) error {
	whole := r.e.Imported(b.Hash())
	got, err := n.e.Process(b, a.chunks[b.Hash()], false)
	if err != nil {
		return fmt.Errorf("%s: block %d: %w", n.name, b.Header.Height, err)
	}
	n.applied += r.held(got.Entry, whole.Shards, everyShard)
	return nil
}

func everyShard(primitives.ShardLayout, primitives.ShardID) bool { return true }

// begin starts a node from the states before the last chunks of the shards as of a block.
func (a *stateTransfers) begin(r *runner, point *engine.BlockNode) error {
	last := slices.IndexFunc(a.blocks, func(b *primitives.Block) bool { return b.Hash() == point.Header().PrevHash })
	start := &engine.BootstrapInput{Blocks: engine.BlockList(a.blocks[:last+1]), Point: point.Block, Next: slices.Clone(a.chunks[point.Hash]),
		Proofs:     map[primitives.Hash][]*primitives.Chunk{},
		LateProofs: map[primitives.ShardIndex]map[primitives.Hash][]*primitives.Chunk{}}
	layout := point.Layout
	for i, h := range point.Block.Body.Chunks {
		if h.HeightIncluded != point.Height() {
			a.late++
			a.lateShard(start, a.blocks[:last+1], layout, i, h)
		}
	}
	oldest := point.Height()
	for _, c := range a.blocks[last].Body.Chunks {
		oldest = min(oldest, c.HeightIncluded)
	}
	for _, b := range a.blocks[:last+1] {
		if b.Header.Height <= oldest || b.Header.PrevHash.IsZero() {
			continue
		}
		cut := make([]*primitives.Chunk, len(b.Body.Chunks))
		for i, c := range a.chunks[b.Hash()] {
			if c != nil {
				cut[i] = chain.CutChunk(c, layout, layout.ShardIDs())
			}
		}
		start.Proofs[b.Hash()] = cut
	}
	n := &partial{name: fmt.Sprintf("begun behind block %d", a.blocks[last].Header.Height), track: everyShard, disk: storage.NewMemDisk()}
	var arrival *engine.BootstrapSync
	open := func() (err error) {
		if n.store, err = storage.OpenMemory(n.disk, storage.Options{Identity: storeIdentity(r.rec, r.chain)}); err != nil {
			return err
		}
		arrival, err = engine.BeginBootstrap(engine.Options{Chain: r.chain, Store: n.store, VM: r.vm, Par: par, Tries: r.o.Tries}, start)
		return err
	}
	if err := open(); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	for i := range layout.NumShards() {
		shard := primitives.ShardIndex(i)
		total := uint64(1 + (i+a.parts)%4)
		for k := range total {
			id := trie.PartID{Index: (k + 1) % total, Total: total}
			part, err := r.e.Snapshots().Part(start.Next[i].Header.PrevBlockHash, shard, id)
			if err != nil {
				return err
			}
			a.parts++
			if err := arrival.Part(shard, id, part[:len(part)-1]); !errors.Is(err, trie.ErrMissing) {
				return fmt.Errorf("%s: a part that lacks a string: %w", n.name, err)
			}
			if err := arrival.Part(shard, id, part); err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			if a.restart++; a.restart%3 != 0 {
				continue
			}
			if err := n.store.Close(); err != nil { // the node is restarted
				return err
			}
			if err := open(); err != nil {
				return err
			}
			if has, err := arrival.Has(shard, total); err != nil || len(has) != int(k)+1 {
				return fmt.Errorf("%s: parts %v are there after a restart, want %d: %w", n.name, has, k+1, err)
			}
		}
	}
	if err := arrival.Finish(); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	var err error
	if n.e, err = engine.Open(engine.Options{Chain: r.chain, Store: n.store, VM: r.vm, Par: par, Tries: r.o.Tries}); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	a.nodes = append(a.nodes, n)
	for _, b := range a.blocks[last+1:] {
		if err := a.feed(r, n, b); err != nil {
			return err
		}
	}
	return nil
}

// TestTransferredStateContinues: at every epoch's sync block the state before its parent's chunks
// is transferred in parts into a new folder, over restarts, with the earlier blocks and no other
// state. The new node continues from there and computes the same result of every chunk as the old
// one.
func TestTransferredStateContinues(t *testing.T) {
	names, every := []string{"four", "reshard"}, 5
	if modes() {
		names, every = chains(names...), 1
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			a := &stateTransfers{chunks: map[primitives.Hash][]*primitives.Chunk{}, begun: map[primitives.EpochID]bool{}, every: every}
			o := Options{Par: par, EpochConfig: epochConfigs(t, name), behind: a.behind, Tries: trie.Options{Frontier: 2048}}
			report, err := Run(rec, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range report.Findings {
				t.Errorf("difference %v", d)
			}
			applied := 0
			for _, n := range a.nodes {
				applied += n.applied
				if err := n.close(); err != nil {
					t.Error(err)
				}
			}
			if t.Logf("%d nodes of %d parts, %d chunks, %d shards without a chunk before the sync block", len(a.nodes), a.parts, applied, a.late); len(a.nodes) == 0 || applied == 0 {
				t.Error("no node has begun")
			}
		})
	}
}
