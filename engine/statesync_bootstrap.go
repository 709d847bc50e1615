package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// BootstrapSync starts a chain in an empty data folder at a recent block. BootstrapSync stores
// blocks without states, then the states of the wanted shards after the last of these blocks. The
// caller fetches the states in parts. Parts may arrive in any order and over several runs of the
// process. Each part is verified on arrival. An error that wraps chain.Invalid, trie.ErrMissing or
// trie.ErrCorrupt means that a peer sent wrong data. Only Part is safe for concurrent use.
//
// A peer gives the state before a shard's last chunk. If the shard has a new chunk in the block
// after the last of the blocks, as is usual, that state is the one after the last block. Otherwise
// the shard is late: its state belongs to a lower block, and Finish applies the blocks between
// (nearcore chain/chain/src/chain.rs set_state_finalize).
//
// The blocks may be those of three epochs, of which all but the last ones are headers. Neither their
// headers nor their records are kept in memory: walk reads them one by one, once when the bootstrap
// begins and once at its end. In memory are the BlockInfos (bootstrapEpochs) and, at the end, the
// rows of the index.
type BootstrapSync struct {
	o      Options
	input  *BootstrapInput
	last   *primitives.Block
	layout primitives.ShardLayout
	// states contains, by shard index, the block of the state to fetch; zero: no state is fetched.
	states []storage.BlockRef
	// imported means that a previous run has imported the states and was stopped before it applied
	// the blocks of all late shards.
	imported bool
}

// bootstrapWalk is one pass over the blocks of a BootstrapSync.
type bootstrapWalk struct {
	*BootstrapSync
	put    func(*storage.Block) error // gets the record of each block, in order; nil: no records are made
	prev   storage.BlockRef           // the block before
	whole  map[primitives.Hash]primitives.Height
	infos  *bootstrapEpochs
	epochs *epoch.Manager
}

// BootstrapInput is the chain data from which a bootstrap starts.
type BootstrapInput struct {
	// Blocks are the blocks from the genesis to the block whose state is fetched, in order, with
	// validated headers. With Proof, Blocks are the genesis, the three blocks at the end of the
	// proof, and all blocks after them. A block may lack its body if the block is below the last
	// chunk of each shard and below all blocks in Proofs.
	Blocks BootstrapBlocks
	// Proof is the validated epoch sync proof with which the headers start. nil: the headers start
	// at the genesis.
	Proof *headerchain.EpochProof
	// Point is the block after the last of Blocks, with a validated header: the sync point. Point may
	// be nil if all of Next are new chunks of that block.
	Point *primitives.Block
	// Next are the newest chunks of the wanted shards as of the block after the last of Blocks, by
	// shard index, with their receipts. The headers of these chunks contain the roots of the states
	// to fetch. nil: this node does not want the shard.
	Next []*primitives.Chunk
	// Proofs contain the receipts for shards that had no chunk in the last blocks. For each block
	// after the last chunk of such a shard, Proofs has the block's new chunks, by shard index, with
	// receipt proofs to the shard. Blocks without such receipts have no entry.
	Proofs map[primitives.Hash][]*primitives.Chunk
	// LateProofs has for each late shard what VerifyStateHeader returned.
	LateProofs map[primitives.ShardIndex]map[primitives.Hash][]*primitives.Chunk
}

// BootstrapBlocks reads the blocks of a BootstrapInput by their place in the list. A BootstrapSync
// reads each block several times, and the results must not differ.
type BootstrapBlocks interface {
	Len() int
	Block(i int) (*primitives.Block, error)
}

// BlockList implements BootstrapBlocks for blocks in memory.
type BlockList []*primitives.Block

// Len returns the number of blocks.
func (l BlockList) Len() int { return len(l) }

// Block returns the i-th block.
func (l BlockList) Block(i int) (*primitives.Block, error) { return l[i], nil }

// BeginBootstrap begins or resumes a bootstrap in the store of o. It verifies b against the hashes
// in the headers of the blocks. Late shards need the options with which the chain is opened, such as
// VM. BeginBootstrap returns storage.ErrOrder if the store contains another chain or other shards.
func BeginBootstrap(o Options, b *BootstrapInput) (*BootstrapSync, error) {
	a := &BootstrapSync{o: o, input: b}
	if b.Blocks.Len() == 0 {
		return nil, fmt.Errorf("%w: the bootstrap input has no blocks", chain.InvalidBlockHeight)
	}
	var err error
	if a.last, err = b.Blocks.Block(b.Blocks.Len() - 1); err != nil {
		return nil, err
	}
	if err := a.walk(nil); err != nil {
		return nil, err
	}
	return a, a.stage()
}

// walk checks that the blocks form a chain and match their headers, and passes their records to
// put. nil: only the check.
func (a *BootstrapSync) walk(put func(*storage.Block) error) error {
	w := &bootstrapWalk{BootstrapSync: a, put: put, whole: map[primitives.Hash]primitives.Height{}, infos: newBootstrapEpochs()}
	var err error
	if w.epochs, err = epoch.NewManager(a.o.Chain.Params, a.o.Chain.Configs, w.infos); err != nil {
		return fmt.Errorf("engine: open the epoch manager: %w", err)
	}
	tree, final := new(primitives.PartialMerkleTree), map[primitives.Hash]primitives.Height{}
	begins := 1 // index of the first block after the genesis and the proof
	if a.input.Proof != nil {
		if err := w.startAtProof(final); err != nil {
			return err
		}
		begins, tree = 4, a.input.Proof.Current.Tree.Clone()
		tree.Insert(a.input.Proof.Current.First.Hash())
	}
	for i := range a.input.Blocks.Len() {
		if i > 0 && i < begins {
			continue
		}
		b, err := a.input.Blocks.Block(i)
		if err != nil {
			return err
		}
		if err := w.next(b, i, tree, final); err != nil {
			return err
		}
	}
	return w.checkNext()
}

// next checks the i-th block and makes its record. tree has the blocks before it, and final their
// heights.
func (w *bootstrapWalk) next(b *primitives.Block, i int, tree *primitives.PartialMerkleTree,
	final map[primitives.Hash]primitives.Height) error {
	h := b.Header
	entry := &BlockNode{Block: b, Hash: b.Hash(), Tree: tree.Clone(), finalHeight: w.o.Chain.Height}
	switch {
	case i == 0 && !h.PrevHash.IsZero():
		return fmt.Errorf("%w: the first block of the bootstrap input is not a genesis", chain.InvalidBlockHeight)
	case i > 0 && (h.PrevHash != w.prev.Hash || h.Height <= w.prev.Height):
		return fmt.Errorf("%w: block %d of the bootstrap input is not a child of the block before it",
			chain.InvalidBlockHeight, h.Height)
	case i > 0 && h.BlockMerkleRoot != tree.Root():
		return chain.InvalidBlockMerkleRoot
	}
	if at, ok := final[h.LastFinalBlock]; ok {
		entry.finalHeight = at
	}
	if final[entry.Hash] = h.Height; !headerOnly(b) {
		w.whole[entry.Hash] = h.Height
	}
	if r := chain.ComputeRoots(b.Body.Chunks, h.Height); i > 0 && !headerOnly(b) &&
		(r.ChunkHeaders != h.ChunkHeadersRoot || !slices.Equal(r.Mask, h.ChunkMask)) {
		return chain.InvalidChunkHeadersRoot
	}
	random := h.RandomValue
	if i == 0 {
		random, entry.Tree = primitives.Hash{}, new(primitives.PartialMerkleTree)
	}
	changes, err := w.epochs.RecordBlockInfo(epoch.BlockInfoFromHeader(h, entry.finalHeight), random)
	if err != nil {
		return fmt.Errorf("engine: record the epoch info of block %d: %w", h.Height, err)
	}
	w.infos.add(&changes)
	if entry.Layout, err = w.epochs.ShardLayout(h.EpochID); err != nil {
		return err
	}
	if err := w.collectBlock(entry, &changes, i); err != nil {
		return err
	}
	w.prev = storage.BlockRef{Height: h.Height, Hash: entry.Hash}
	if w.input.Proof != nil && i == 0 {
		return w.collectProof()
	}
	tree.Insert(entry.Hash)
	w.layout = entry.Layout
	return nil
}

// headerOnly returns whether the block has no body. The genesis always counts as a whole block.
func headerOnly(b *primitives.Block) bool { return b.Body.Chunks == nil && !b.Header.PrevHash.IsZero() }

// bootstrapFirst is the name of the row with the BlockInfo of the first block of epoch T-1, if an
// epoch sync proof leads to epoch T. That block's header is not known.
const bootstrapFirst = "arrived first"

// startAtProof makes the epoch manager start at the end of the proof. startAtProof adds the heights
// of the proof's headers to final.
func (w *bootstrapWalk) startAtProof(final map[primitives.Hash]primitives.Height) error {
	s, err := w.input.Proof.Start()
	if err != nil {
		return err
	}
	if n := w.input.Blocks.Len(); n < 5 {
		return fmt.Errorf("%w: the bootstrap input has an epoch sync proof, but only %d blocks, want at least 5",
			chain.InvalidBlockHeight, n)
	}
	for i, r := range s.Rows {
		b, err := w.input.Blocks.Block(1 + i)
		if err != nil {
			return err
		}
		if b.Hash() != r.Info.Hash {
			return fmt.Errorf("%w: block %d is not the one in the epoch sync proof", chain.InvalidBlockHeight, b.Header.Height)
		}
		w.infos.add(&epoch.Changes{BlockInfo: r.Info, EpochStart: i == 2})
		final[r.Info.Hash] = r.Info.Height
	}
	w.infos.blocks[s.Before.Hash], w.infos.starts[s.Before.EpochID] = s.Before, s.Before.Height
	for _, x := range s.Epochs {
		w.infos.epochs[x.ID] = x.Info
	}
	w.epochs.StartAt(s.Rows[2].Info.Height)
	return nil
}

// collectProof prepares the records of the proof for the store: the proof's last three headers and
// its epochs.
func (w *bootstrapWalk) collectProof() error {
	s, err := w.input.Proof.Start()
	if err != nil {
		return err
	}
	for i, r := range s.Rows {
		w.prev = storage.BlockRef{Height: r.Info.Height, Hash: r.Info.Hash}
		block, err := w.input.Blocks.Block(1 + i)
		if err != nil {
			return err
		}
		if !headerOnly(block) {
			w.whole[r.Info.Hash] = r.Info.Height
		}
		if w.put == nil {
			continue
		}
		entry := &BlockNode{Block: block, Hash: r.Info.Hash, Tree: r.Tree, finalHeight: r.Final}
		if entry.Layout, err = w.epochs.ShardLayout(r.Header.EpochID); err != nil {
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
			for k := range w.input.Proof.Epochs {
				putProven(b.Puts, &w.input.Proof.Epochs[k])
			}
		}
		if err := w.put(b); err != nil {
			return err
		}
	}
	return nil
}

// collectBlock prepares the record of the i-th block for the store, without states.
func (w *bootstrapWalk) collectBlock(entry *BlockNode, c *epoch.Changes, i int) error {
	for k, id := range entry.Layout.ShardIDs() {
		if headerOnly(entry.Block) {
			break
		}
		s := ShardState{ID: id}
		if i > 0 {
			var err error
			if s.Chunk, err = w.brought(entry, k); err != nil {
				return err
			}
		}
		entry.Shards = append(entry.Shards, s)
	}
	if w.put == nil {
		return nil
	}
	rows := *c
	rows.Aggregator = nil // the running node stores its own, and those of all blocks would be large
	b := encodeBlock(entry, &rows)
	if i > 0 {
		b.Prev = w.prev
		if last := entry.Header().LastFinalBlock; !last.IsZero() {
			b.Final = storage.BlockRef{Height: entry.finalHeight, Hash: last}
		}
	}
	return w.put(b)
}

// brought returns the k-th chunk of a block with the receipt proofs that the input has, or nil if the
// chunk is not new in this block. A new chunk without proofs has an empty list: catchUpLate may add
// the receipts for a late shard, which loadLocked restores only if the block has such a list. The
// receipts for a late shard up to the block of its state belong to no block that catchUpLate applies,
// so brought adds them.
func (w *bootstrapWalk) brought(entry *BlockNode, k int) (*primitives.Chunk, error) {
	h := entry.Block.Body.Chunks[k]
	lists := [][]*primitives.Chunk{w.input.Proofs[entry.Hash]}
	for i, next := range w.input.Next {
		if next != nil && entry.Height() < next.Header.HeightIncluded {
			lists = append(lists, w.input.LateProofs[primitives.ShardIndex(i)][entry.Hash])
		}
	}
	out := &primitives.Chunk{Hash: h.ChunkHash(), Header: *h, Proofs: []primitives.ReceiptProof{}}
	for _, list := range lists {
		if k >= len(list) || list[k] == nil {
			continue
		}
		if list[k].Hash != out.Hash || h.HeightIncluded != entry.Height() {
			return nil, fmt.Errorf("%w: receipt proofs for a chunk that is not in block %d", chain.InvalidChunk, entry.Height())
		}
		out.Proofs = append(out.Proofs, list[k].Proofs...)
	}
	if h.HeightIncluded != entry.Height() {
		return nil, nil
	}
	return out, chain.ValidateProofs(out)
}

// checkNext checks that Next contains the newest chunks of the wanted shards after the last block,
// and that the hashes, shards and receipts of these chunks match the chunk headers. checkNext
// returns ErrReshard if the shard layout changes after the last block, because state sync cannot
// start there.
func (w *bootstrapWalk) checkNext() error {
	at := w.last
	layout, err := w.epochs.ShardLayoutFromPrev(at.Hash())
	if err != nil {
		return err
	}
	if !layout.Equal(w.layout) {
		return fmt.Errorf("%w: the layout changes at block %d, at which state sync begins", ErrReshard, at.Header.Height)
	}
	if len(w.input.Next) != layout.NumShards() {
		return fmt.Errorf("%w: the bootstrap input has %d chunks for %d shards", chain.InvalidChunk, len(w.input.Next), layout.NumShards())
	}
	w.states = make([]storage.BlockRef, layout.NumShards())
	for i, id := range layout.ShardIDs() {
		c := w.input.Next[i]
		if c == nil {
			continue
		}
		root, _ := chain.OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout)
		if c.Hash != c.Header.ChunkHash() || c.Header.ShardID != id || c.Header.PrevOutgoingReceiptsRoot != root {
			return fmt.Errorf("%w: the chunk of shard %d after block %d does not match its header",
				chain.InvalidChunk, id, at.Header.Height)
		}
		if w.states[i] = w.at(); c.Header.PrevBlockHash != at.Hash() {
			if w.states[i], err = w.lateState(primitives.ShardIndex(i), c); err != nil {
				return err
			}
		}
	}
	return nil
}

// lateState returns the block of the state before the chunk c of a late shard. c must be the shard's
// chunk in Point.
func (w *bootstrapWalk) lateState(shard primitives.ShardIndex, c *primitives.Chunk) (storage.BlockRef, error) {
	wrong := func(what string) error {
		return fmt.Errorf("%w: state sync at block %d, chunk of shard %d: %s", chain.InvalidChunk, w.at().Height, c.Header.ShardID, what)
	}
	p := w.input.Point
	if p == nil || p.Header.PrevHash != w.at().Hash ||
		chain.ComputeRoots(p.Body.Chunks, p.Header.Height).ChunkHeaders != p.Header.ChunkHeadersRoot {
		return storage.BlockRef{}, wrong("it is not in the block after that, or the input lacks this block")
	}
	if p.Body.Chunks[shard].ChunkHash() != c.Hash {
		return storage.BlockRef{}, wrong("it is not the shard's last chunk")
	}
	height, is := w.whole[c.Header.PrevBlockHash]
	if !is {
		return storage.BlockRef{}, wrong("the input lacks its parent block")
	}
	return storage.BlockRef{Height: height, Hash: c.Header.PrevBlockHash}, nil
}

// late returns whether a wanted shard is late.
func (a *BootstrapSync) late(shard primitives.ShardIndex) bool {
	return !a.states[shard].IsZero() && a.states[shard] != a.at()
}

func (a *BootstrapSync) at() storage.BlockRef {
	return storage.BlockRef{Height: a.last.Header.Height, Hash: a.last.Hash()}
}

// stage prepares the store for the parts of the wanted shards.
func (a *BootstrapSync) stage() error {
	there, err := a.o.Store.IncomingShards()
	if err != nil {
		return err
	}
	if tip := a.o.Store.Tip(); !tip.Empty {
		a.imported = true
		return a.checkImported(tip.Head, there)
	}
	for i, id := range a.layout.ShardIDs() {
		if !a.states[i].IsZero() {
			delete(there, id)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: the folder of the state sync has parts of shards that are not wanted: %v",
			storage.ErrOrder, slices.Sorted(maps.Keys(there)))
	}
	for i, id := range a.layout.ShardIDs() {
		if a.states[i].IsZero() {
			continue
		}
		if _, err := a.o.Store.Stage(id, a.states[i], accounts(a.layout, primitives.ShardIndex(i))); err != nil {
			return err
		}
	}
	return nil
}

// checkImported returns an error unless a previous run has imported the states of the same shards at
// the same block. head is the head of the store. incoming are the late shards that have not reached
// the head yet.
func (a *BootstrapSync) checkImported(head storage.BlockRef, incoming map[primitives.ShardID]storage.AccountRange) error {
	if head != a.at() {
		return fmt.Errorf("%w: the folder of the state sync contains a chain up to block %v", storage.ErrOrder, head)
	}
	rec, err := a.o.Store.Block(head)
	if err != nil {
		return err
	}
	for i, id := range a.layout.ShardIDs() {
		_, there := incoming[id]
		if _, err := rec.Extra(id); err == nil {
			there = true
		} else if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if there != !a.states[i].IsZero() {
			return fmt.Errorf("%w: the folder of the state sync was made for other shards: shard %d", storage.ErrOrder, id)
		}
	}
	return nil
}

// Root returns the root of a wanted shard's state that is to be fetched.
func (a *BootstrapSync) Root(shard primitives.ShardIndex) primitives.Hash {
	return a.input.Next[shard].Header.PrevStateRoot
}

// Has returns the numbers of the stored parts of a wanted shard, including parts stored by previous
// runs. total is the number of all parts.
func (a *BootstrapSync) Has(shard primitives.ShardIndex, total uint64) ([]uint64, error) {
	if a.imported {
		all := make([]uint64, total)
		for k := range all {
			all[k] = uint64(k)
		}
		return all, nil
	}
	return a.o.Store.Stage(a.layout.ShardIDs()[shard], a.states[shard], accounts(a.layout, shard))
}

// Part verifies a part of a wanted shard's state and stores the part. Safe for concurrent use.
func (a *BootstrapSync) Part(shard primitives.ShardIndex, id trie.PartID, strings [][]byte) error {
	return stagePart(&a.o, a.layout.ShardIDs()[shard], a.states[shard], a.Root(shard), id, strings)
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
// parts must be stored. If Finish was interrupted, it continues after the next BeginBootstrap.
func (a *BootstrapSync) Finish() error {
	if !a.imported {
		if err := a.importStates(); err != nil {
			return err
		}
	}
	return a.catchUpLate()
}

// importStates writes the blocks, and makes the staged states the states of the last block, except
// those of late shards.
func (a *BootstrapSync) importStates() error {
	hashes := map[primitives.Height]primitives.Hash{} // of the blocks with the last chunks
	for i, h := range a.last.Body.Chunks {
		if a.states[i] == a.at() {
			hashes[h.HeightIncluded] = primitives.Hash{}
		}
	}
	return a.o.Store.ImportAt(a.at(), func(put func(*storage.Block) error) error {
		return a.walk(func(b *storage.Block) error {
			if _, is := hashes[b.Ref.Height]; is {
				hashes[b.Ref.Height] = b.Ref.Hash
				a.addOutgoing(b)
			}
			if b.Ref == a.at() {
				if err := a.addState(b, hashes); err != nil {
					return err
				}
			}
			return put(b)
		})
	}, nil)
}

// addOutgoing adds the outgoing receipts of those last chunks that are in b, except those of late
// shards.
func (a *BootstrapSync) addOutgoing(b *storage.Block) {
	for i, h := range a.last.Body.Chunks {
		if a.states[i] != a.at() || h.HeightIncluded != b.Ref.Height {
			continue
		}
		for k := range b.Shards {
			if b.Shards[k].ID != h.ShardID {
				continue
			}
			for _, x := range a.input.Next[i].PrevOutgoingReceipts {
				b.Shards[k].Outgoing = append(b.Shards[k].Outgoing, storage.Receipt{ID: x.ID, Value: x.AppendBorsh(nil)})
			}
		}
	}
}

// addState adds to the last block what the headers of the chunks after it say about the states
// after it, except those of late shards. hashes has the blocks with the shards' last chunks, by
// height.
func (a *BootstrapSync) addState(last *storage.Block, hashes map[primitives.Height]primitives.Hash) error {
	last.Head = true
	for i, h := range a.last.Body.Chunks {
		if a.states[i] != a.at() { // the shard is late, or not wanted
			continue
		}
		next, s := a.input.Next[i], &last.Shards[i]
		from := hashes[h.HeightIncluded]
		if from.IsZero() {
			return fmt.Errorf("%w: the bootstrap input lacks the block of height %d, which has the last chunk of shard %d",
				chain.InvalidChunk, h.HeightIncluded, s.ID)
		}
		origin := ShardState{ID: s.ID, OutgoingAt: from, OutgoingOf: h.ShardID}
		s.Extra, s.Other = extraFromHeader(&next.Header).AppendBorsh(nil), appendOrigin(nil, &origin)
	}
	return nil
}

// catchUpLate brings the late shards to the last block: for each of them, an engine on the store
// applies the shard's chunk and the blocks after it. A shard that a previous run has brought there
// is skipped.
func (a *BootstrapSync) catchUpLate() (err error) {
	shards := slices.DeleteFunc(slices.Collect(maps.Keys(a.input.LateProofs)), func(i primitives.ShardIndex) bool { return !a.late(i) })
	for i := range a.states {
		if x := primitives.ShardIndex(i); a.late(x) && !slices.Contains(shards, x) {
			return fmt.Errorf("%w: the bootstrap input lacks the receipts of the late shard at index %d", chain.InvalidChunk, i)
		}
	}
	if len(shards) == 0 {
		return nil
	}
	slices.Sort(shards)
	o := a.o
	o.Scheduled, o.Tracks, o.Assigned = true, nil, nil // the late shards are missing while the engine opens
	e, err := Open(o)
	if err != nil {
		return fmt.Errorf("engine: open the synced chain: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, i := range shards {
		if e.Head().Shards[i].Held() {
			continue
		}
		if err := a.catchUpShard(e, i); err != nil {
			return fmt.Errorf("engine: state sync of shard %d from block %d to block %d: %w",
				a.layout.ShardIDs()[i], a.states[i].Height, a.at().Height, err)
		}
	}
	return nil
}

// catchUpShard brings a late shard to the last block.
func (a *BootstrapSync) catchUpShard(e *Engine, shard primitives.ShardIndex) error {
	point := &BlockNode{Block: a.input.Point, Hash: a.input.Point.Hash(), Layout: a.layout}
	chunk, proofs := a.input.Next[shard], a.input.LateProofs[shard]
	j, err := e.CatchUpShard(point, shard, chunk, proofs)
	if err != nil {
		return err
	}
	defer j.drop()
	has, err := j.Has()
	if err != nil {
		return err
	}
	if err := j.Enter(uint64(len(has))); err != nil {
		return err
	}
	for {
		at, more, err := j.Next()
		if err != nil {
			return err
		}
		if !more {
			return j.Finish(func(primitives.Hash) []*primitives.Chunk { return nil })
		}
		chunks := slices.Clone(proofs[at.Hash])
		if len(chunks) != a.layout.NumShards() {
			return fmt.Errorf("%w: the bootstrap input lacks the receipts of block %v", chain.InvalidChunk, at)
		}
		if at.Height == chunk.Header.HeightIncluded {
			chunks[shard] = chunk
		}
		if err := j.CatchUp(chunks); err != nil {
			return err
		}
	}
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
