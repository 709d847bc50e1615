package engine

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// BootstrapSync starts a chain in an empty data folder at a recent block. BootstrapSync stores
// blocks without states, then the states after the last of these blocks. The caller fetches the
// states in parts. Parts may arrive in any order and over several runs of the process. Each part is
// verified on arrival. An error that wraps chain.Invalid, trie.ErrMissing or trie.ErrCorrupt means
// that a peer sent wrong data. Only Part is safe for concurrent use.
type BootstrapSync struct {
	o      Options
	blocks []*primitives.Block
	next   []*primitives.Chunk
	proofs map[primitives.Hash][]*primitives.Chunk
	layout primitives.ShardLayout
	stored []*storage.Block
	infos  *bootstrapEpochs
	epochs *epoch.Manager
	proof  *headerchain.EpochProof
}

// BootstrapInput is the chain data from which a bootstrap starts.
type BootstrapInput struct {
	// Blocks are the blocks from the genesis to the block whose state is fetched, in order, with
	// validated headers. With Proof, Blocks are the genesis, the three blocks at the end of the
	// proof, and all blocks after them. A block may lack its body if the block is below the last
	// chunk of each shard and below all blocks in Proofs.
	Blocks []*primitives.Block
	// Proof is the validated epoch sync proof with which the headers start. nil: the headers start
	// at the genesis.
	Proof *headerchain.EpochProof
	// Next are the chunks of all shards in the block after the last of Blocks, by shard index, with
	// their receipts. The headers of these chunks contain the roots of the states to fetch.
	Next []*primitives.Chunk
	// Proofs contain the receipts for shards that had no chunk in the last blocks. For each block
	// after the last chunk of such a shard, Proofs has the block's new chunks, by shard index, with
	// receipt proofs to the shard. Blocks without such receipts have no entry.
	Proofs map[primitives.Hash][]*primitives.Chunk
}

// BeginBootstrap begins or resumes a bootstrap in the store of o. It verifies b against the hashes
// in the headers of the blocks.
func BeginBootstrap(o Options, b *BootstrapInput) (*BootstrapSync, error) {
	a := &BootstrapSync{
		o:      o,
		blocks: b.Blocks,
		next:   b.Next,
		proofs: b.Proofs,
		infos:  newBootstrapEpochs(),
		proof:  b.Proof,
	}
	var err error
	if a.epochs, err = epoch.NewManager(o.Chain.Params, o.Chain.Configs, a.infos); err != nil {
		return nil, fmt.Errorf("engine: open the epoch manager: %w", err)
	}
	if err := a.checkBlocks(); err != nil {
		return nil, err
	}
	return a, a.stage()
}

// checkBlocks checks that the blocks form a chain and match their headers, and prepares their records
// for the store.
func (a *BootstrapSync) checkBlocks() error {
	tree, final := new(primitives.PartialMerkleTree), map[primitives.Hash]primitives.Height{}
	begins := 1 // index of the first block after the genesis and the proof
	if a.proof != nil {
		if err := a.startAtProof(final); err != nil {
			return err
		}
		begins, tree = 4, a.proof.Current.Tree.Clone()
		tree.Insert(a.blocks[3].Hash())
	}
	for i, b := range a.blocks {
		h := b.Header
		if i > 0 && i < begins {
			continue
		}
		entry := &BlockNode{Block: b, Hash: b.Hash(), Tree: tree.Clone(), finalHeight: a.o.Chain.Height}
		switch {
		case i == 0 && !h.PrevHash.IsZero():
			return fmt.Errorf("%w: the first block of the bootstrap input is not a genesis", chain.InvalidBlockHeight)
		case i > 0 && (h.PrevHash != a.blocks[i-1].Hash() || h.Height <= a.blocks[i-1].Header.Height):
			return fmt.Errorf("%w: block %d of the bootstrap input is not a child of the block before it",
				chain.InvalidBlockHeight, h.Height)
		case i > 0 && h.BlockMerkleRoot != tree.Root():
			return chain.InvalidBlockMerkleRoot
		}
		if at, ok := final[h.LastFinalBlock]; ok {
			entry.finalHeight = at
		}
		final[entry.Hash] = h.Height
		if r := chain.ComputeRoots(b.Body.Chunks, h.Height); i > 0 && !headerOnly(b) &&
			(r.ChunkHeaders != h.ChunkHeadersRoot || !slices.Equal(r.Mask, h.ChunkMask)) {
			return chain.InvalidChunkHeadersRoot
		}
		random := h.RandomValue
		if i == 0 {
			random, entry.Tree = primitives.Hash{}, new(primitives.PartialMerkleTree)
		}
		changes, err := a.epochs.RecordBlockInfo(epoch.BlockInfoFromHeader(h, entry.finalHeight), random)
		if err != nil {
			return fmt.Errorf("engine: record the epoch info of block %d: %w", h.Height, err)
		}
		a.infos.add(&changes)
		if entry.Layout, err = a.epochs.ShardLayout(h.EpochID); err != nil {
			return err
		}
		if err := a.collectBlock(entry, &changes, i); err != nil {
			return err
		}
		if a.proof != nil && i == 0 {
			if err := a.collectProof(); err != nil {
				return err
			}
			continue
		}
		tree.Insert(entry.Hash)
		a.layout = entry.Layout
	}
	return a.checkNext()
}

// headerOnly returns whether the block has no body. The genesis always counts as a whole block.
func headerOnly(b *primitives.Block) bool { return b.Body.Chunks == nil && !b.Header.PrevHash.IsZero() }

// bootstrapFirst is the name of the row with the BlockInfo of the first block of epoch T-1, if an
// epoch sync proof leads to epoch T. That block's header is not known.
const bootstrapFirst = "arrived first"

// startAtProof makes the epoch manager start at the end of the proof. startAtProof adds the heights
// of the proof's headers to final.
func (a *BootstrapSync) startAtProof(final map[primitives.Hash]primitives.Height) error {
	s, err := a.proof.Start()
	if err != nil {
		return err
	}
	if len(a.blocks) < 5 {
		return fmt.Errorf("%w: the bootstrap input has an epoch sync proof, but only %d blocks, want at least 5",
			chain.InvalidBlockHeight, len(a.blocks))
	}
	for i, r := range s.Rows {
		if a.blocks[1+i].Hash() != r.Info.Hash {
			return fmt.Errorf("%w: block %d is not the one in the epoch sync proof", chain.InvalidBlockHeight, a.blocks[1+i].Header.Height)
		}
		a.infos.add(&epoch.Changes{BlockInfo: r.Info, EpochStart: i == 2})
		final[r.Info.Hash] = r.Info.Height
	}
	a.infos.blocks[s.Before.Hash], a.infos.starts[s.Before.EpochID] = s.Before, s.Before.Height
	for _, x := range s.Epochs {
		a.infos.epochs[x.ID] = x.Info
	}
	a.epochs.StartAt(s.Rows[2].Info.Height)
	return nil
}

// collectProof prepares the records of the proof for the store: the proof's last three headers and
// its epochs.
func (a *BootstrapSync) collectProof() error {
	s, err := a.proof.Start()
	if err != nil {
		return err
	}
	for i, r := range s.Rows {
		entry := &BlockNode{Block: a.blocks[1+i], Hash: r.Info.Hash, Tree: r.Tree, finalHeight: r.Final}
		if entry.Layout, err = a.epochs.ShardLayout(r.Header.EpochID); err != nil {
			return err
		}
		b := encodeBlock(entry, &epoch.Changes{BlockInfo: r.Info, EpochStart: i == 2})
		b.Ordinal = r.Header.BlockOrdinal
		b.Prev = storage.BlockRef{Height: r.Header.PrevHeight, Hash: r.Header.PrevHash}
		if i == 2 {
			for _, x := range s.Epochs {
				raw := storage.Raw(x.Info.AppendBorsh(nil))
				storage.EpochInfo.Put(b.Puts, x.ID, &raw)
			}
			at, first := storage.Uint64(s.Before.Height), storage.Raw(s.Before.AppendBorsh(nil))
			storage.EpochStart.Put(b.Puts, s.Before.EpochID, &at)
			storage.Misc.Put(b.Puts, bootstrapFirst, &first)
			for k := range a.proof.Epochs {
				putProven(b.Puts, &a.proof.Epochs[k])
			}
		}
		a.stored = append(a.stored, b)
	}
	return nil
}

// collectBlock prepares the record of the i-th block for the store, without states.
func (a *BootstrapSync) collectBlock(entry *BlockNode, c *epoch.Changes, i int) error {
	chunks := a.proofs[entry.Hash]
	for k, id := range entry.Layout.ShardIDs() {
		if headerOnly(entry.Block) {
			break
		}
		s := ShardState{ID: id}
		if h := entry.Block.Body.Chunks[k]; k < len(chunks) && chunks[k] != nil {
			came := chunks[k]
			if came.Hash != h.ChunkHash() || h.HeightIncluded != entry.Height() {
				return fmt.Errorf("%w: receipt proofs for a chunk that is not in block %d", chain.InvalidChunk, entry.Height())
			}
			if err := chain.ValidateProofs(came); err != nil {
				return err
			}
			s.Chunk = came
		}
		entry.Shards = append(entry.Shards, s)
	}
	rows := *c
	rows.Aggregator = nil // the running node stores its own, and those of all blocks would be large
	b := encodeBlock(entry, &rows)
	if i > 0 {
		p := a.blocks[i-1]
		b.Prev = storage.BlockRef{Height: p.Header.Height, Hash: p.Hash()}
		if last := entry.Header().LastFinalBlock; !last.IsZero() {
			b.Final = storage.BlockRef{Height: entry.finalHeight, Hash: last}
		}
	}
	a.stored = append(a.stored, b)
	return nil
}

// checkNext checks that next contains the chunks of all shards after the last block, and that the
// hashes, shards and receipts of these chunks match the chunk headers. checkNext returns ErrReshard
// if the shard layout changes after the last block, because state sync cannot start there.
func (a *BootstrapSync) checkNext() error {
	at := a.last()
	layout, err := a.epochs.ShardLayoutFromPrev(at.Hash())
	if err != nil {
		return err
	}
	if !layout.Equal(a.layout) {
		return fmt.Errorf("%w: the layout changes at block %d, at which state sync begins", ErrReshard, at.Header.Height)
	}
	if len(a.next) != layout.NumShards() {
		return fmt.Errorf("%w: the bootstrap input has %d chunks for %d shards", chain.InvalidChunk, len(a.next), layout.NumShards())
	}
	for i, id := range layout.ShardIDs() {
		c := a.next[i]
		root, _ := chain.OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
		if c.Hash != c.Header.ChunkHash() || c.Header.ShardID != id || c.Header.PrevBlockHash != at.Hash() ||
			c.Header.PrevOutgoingReceiptsRoot != root {
			return fmt.Errorf("%w: the chunk of shard %d after block %d does not match its header",
				chain.InvalidChunk, id, at.Header.Height)
		}
	}
	return nil
}

func (a *BootstrapSync) last() *primitives.Block { return a.blocks[len(a.blocks)-1] }

func (a *BootstrapSync) at() storage.BlockRef {
	return storage.BlockRef{Height: a.last().Header.Height, Hash: a.last().Hash()}
}

func (a *BootstrapSync) stage() error {
	for i, id := range a.layout.ShardIDs() {
		if _, err := a.o.Store.Stage(id, a.at(), accounts(a.layout, primitives.ShardIndex(i))); err != nil {
			return err
		}
	}
	return nil
}

// Root returns the root of a shard's state that is to be fetched.
func (a *BootstrapSync) Root(shard primitives.ShardIndex) primitives.Hash {
	return a.next[shard].Header.PrevStateRoot
}

// Has returns the numbers of the stored parts of a shard, including parts stored by previous runs.
func (a *BootstrapSync) Has(shard primitives.ShardIndex) ([]uint64, error) {
	return a.o.Store.Stage(a.layout.ShardIDs()[shard], a.at(), accounts(a.layout, shard))
}

// Part verifies a part of a shard's state and stores the part. Safe for concurrent use.
func (a *BootstrapSync) Part(shard primitives.ShardIndex, id trie.PartID, strings [][]byte) error {
	return stagePart(&a.o, a.layout.ShardIDs()[shard], a.at(), a.Root(shard), id, strings)
}

// stagePart verifies one part of a shard's state after the block `at`, and stores the part and its
// frontier entries.
func stagePart(
	o *Options,
	name primitives.ShardID,
	at storage.BlockRef,
	root primitives.Hash,
	id trie.PartID,
	strings [][]byte,
) error {
	p, err := trie.OpenPart(strings, root, id, o.Tries.Frontier)
	if err != nil {
		return err
	}
	var stubs []storage.FrontierNode
	for level, entries := range p.Frontier {
		for i := range entries {
			stubs = append(stubs, storedNode(level, &entries[i]))
		}
	}
	if err := o.Store.StageFrontier(name, at, stubs); err != nil {
		return err
	}
	return o.Store.StagePart(name, at, id.Index, func(put func(key, value []byte) error) error {
		for i := range p.Pairs {
			if err := put(p.Pairs[i].Key, p.Pairs[i].Value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Finish makes the fetched data the chain of the data folder. Open then continues that chain. All
// parts must be stored.
func (a *BootstrapSync) Finish() error {
	last := a.stored[len(a.stored)-1]
	last.Head = true
	height := map[primitives.Height]*storage.Block{}
	for _, b := range a.stored {
		height[b.Ref.Height] = b
	}
	for i, h := range a.last().Body.Chunks {
		next, s := &a.next[i].Header, &last.Shards[i]
		extra := &chain.ChunkExtra{
			StateRoot:         next.PrevStateRoot,
			OutcomeRoot:       next.PrevOutcomeRoot,
			Proposals:         next.PrevValidatorProposals,
			GasUsed:           next.PrevGasUsed,
			GasLimit:          next.GasLimit,
			BalanceBurnt:      next.PrevBalanceBurnt,
			CongestionInfo:    next.CongestionInfo,
			BandwidthRequests: next.BandwidthRequests,
			ProposedSplit:     next.ProposedSplit,
		}
		from := height[h.HeightIncluded]
		if from == nil {
			return fmt.Errorf("%w: the bootstrap input lacks the block of height %d, which has the last chunk of shard %d",
				chain.InvalidChunk, h.HeightIncluded, s.ID)
		}
		origin := ShardState{ID: s.ID, OutgoingAt: from.Ref.Hash, OutgoingOf: h.ShardID}
		s.Extra, s.Other = extra.AppendBorsh(nil), appendOrigin(nil, &origin)
		for k := range from.Shards {
			if from.Shards[k].ID != h.ShardID {
				continue
			}
			for _, x := range a.next[i].PrevOutgoingReceipts {
				from.Shards[k].Outgoing = append(from.Shards[k].Outgoing, storage.Receipt{ID: x.ID, Value: x.AppendBorsh(nil)})
			}
		}
	}
	return a.o.Store.ImportAt(a.stored, nil)
}

// bootstrapEpochs implements epoch.Store in memory for a bootstrap.
type bootstrapEpochs struct {
	blocks    map[primitives.Hash]*epoch.BlockInfo
	epochs    map[primitives.EpochID]*epoch.EpochInfo
	starts    map[primitives.EpochID]primitives.Height
	summaries map[primitives.EpochID]*epoch.EpochSummary
}

func newBootstrapEpochs() *bootstrapEpochs {
	return &bootstrapEpochs{
		map[primitives.Hash]*epoch.BlockInfo{},
		map[primitives.EpochID]*epoch.EpochInfo{},
		map[primitives.EpochID]primitives.Height{},
		map[primitives.EpochID]*epoch.EpochSummary{},
	}
}

func (s *bootstrapEpochs) add(c *epoch.Changes) {
	if c.BlockInfo == nil {
		return
	}
	s.blocks[c.BlockInfo.Hash] = c.BlockInfo
	if c.EpochStart {
		s.starts[c.BlockInfo.EpochID] = c.BlockInfo.Height
	}
	if c.NextNextEpoch != nil {
		s.epochs[c.BlockInfo.Hash] = c.NextNextEpoch
	}
	if c.Summary != nil {
		s.summaries[c.BlockInfo.EpochID] = c.Summary
	}
}

func (s *bootstrapEpochs) BlockInfo(hash primitives.Hash) (*epoch.BlockInfo, error) {
	return s.blocks[hash], nil
}

func (s *bootstrapEpochs) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	return s.epochs[id], nil
}

func (s *bootstrapEpochs) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	at, ok := s.starts[id]
	return at, ok, nil
}

func (s *bootstrapEpochs) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	return s.summaries[id], nil
}

// Aggregator returns nil, because the epoch manager of a bootstrap is never restarted.
func (s *bootstrapEpochs) Aggregator() (*epoch.Aggregator, error) { return nil, nil }
