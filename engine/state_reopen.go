package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ErrInconsistent means that stored data contradicts itself. For example, a stored block does not
// lead to its state root.
var ErrInconsistent = errors.New("engine: stored chain is inconsistent")

// resume continues a stored chain. resume loads the flat head and the frontier of its tries, then
// the blocks above the flat head in order. It applies the stored changes of these blocks to the
// tries. The resulting roots must equal the roots in the blocks.
func (e *Engine) resume() error {
	tip := e.store.Tip()
	genesis, err := e.store.BlockAt(e.chain.Height)
	if err != nil {
		return fmt.Errorf("engine: load the genesis block: %w", err)
	}
	first, err := e.load(genesis)
	if err != nil {
		return err
	}
	rec, err := e.store.Block(tip.FlatHead)
	if err != nil {
		return fmt.Errorf("engine: load the flat head: %w", err)
	}
	folded := first
	if tip.FlatHead.Hash != first.Hash {
		if folded, err = e.load(rec); err != nil {
			return err
		}
	}
	if err := e.checkTracked(folded); err != nil {
		return err
	}
	e.start(first, folded)
	back := []*waiting{{entry: folded}}
	for _, rec := range e.store.Pending() {
		w, err := e.loadWaiting(rec)
		if err != nil {
			return err
		}
		back = append(back, w)
		// Restore in steps, so that a start needs no more memory than a running node.
		if len(back) >= e.residentBlocks() {
			if err := e.restore(back); err != nil {
				return err
			}
			back = back[:0:0]
			e.evictBlocks()
		}
	}
	if err := e.restore(back); err != nil {
		return err
	}
	e.evictBlocks()
	at := e.BlockNode(tip.Head.Hash)
	if at == nil {
		return fmt.Errorf("%w: head %v does not descend from the flat head", ErrInconsistent, tip.Head)
	}
	final := tip.Final
	if final.IsZero() {
		final = storage.BlockRef{Height: e.chain.Height, Hash: first.Hash}
	}
	e.show(&head{entry: at, final: final})
	return errors.Join(e.proofs.load(), e.snapshots.loadSnapshots(e.flatHead.Layout.NumShards()))
}

// waiting is a block whose states are to be restored. rec is nil if the block is the flat head.
// Otherwise the block is above the flat head.
type waiting struct {
	rec           *storage.Record
	entry, parent *BlockNode
	prev          []ShardState // states after parent, by shard index of entry
}

// loadWaiting loads a block above the flat head, without its states.
func (e *Engine) loadWaiting(rec *storage.Record) (*waiting, error) {
	entry, err := e.load(rec)
	if err != nil {
		return nil, err
	}
	parent := e.entries[entry.Header().PrevHash]
	if parent == nil {
		return nil, fmt.Errorf("%w: the parent of block %v is not stored", ErrInconsistent, rec.Ref())
	}
	if parent.evicted {
		if parent, err = e.restoreEvicted(parent); err != nil {
			return nil, err
		}
	}
	e.entries[entry.Hash] = entry
	e.resident = append(e.resident, entry)
	return &waiting{rec: rec, entry: entry, parent: parent}, nil
}

// restore restores the states of blocks. Parents must come before their children. Shards are
// restored concurrently, each on its own goroutine, because nothing else runs during a start.
// Before a block with a new layout is restored, all blocks before that block are restored, because
// restore makes the states of child shards from the states of these blocks.
func (e *Engine) restore(back []*waiting) error {
	from := 0
	for i, w := range back {
		if w.rec == nil {
			continue
		}
		if !w.entry.Layout.Equal(w.parent.Layout) {
			if err := e.restoreRun(back[from:i]); err != nil {
				return err
			}
			from = i
		}
	}
	return e.restoreRun(back[from:])
}

// restoreRun restores the states of blocks. The parent of each block must already be restored, or
// come before the block in back and have the block's layout.
func (e *Engine) restoreRun(back []*waiting) error {
	shards := 0
	for _, w := range back {
		shards = max(shards, len(w.entry.Shards))
		if w.rec == nil {
			continue
		}
		var err error
		if w.prev, err = e.inherited(w.parent, w.entry.Layout); err != nil {
			return err
		}
	}
	errs := make([]error, shards)
	var wg sync.WaitGroup
	for i := range shards {
		wg.Go(func() {
			for _, w := range back {
				if i >= len(w.entry.Shards) {
					continue
				}
				if errs[i] = e.restoreShard(w, i); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return e.explained(errors.Join(errs...))
}

// restoreShard restores the trie of one shard after a block. For the flat head it imports the trie
// from the frontier. For any other block it applies the stored changes to the parent's trie. It
// returns a mismatch if the root differs from the root in the block.
func (e *Engine) restoreShard(w *waiting, i int) (err error) {
	s := &w.entry.Shards[i]
	if !s.Held() {
		return nil
	}
	if w.rec == nil {
		if s.root, err = e.importTrie(ref(w.entry), w.entry.Layout, i, s.Extra.StateRoot); err != nil {
			return fmt.Errorf("engine: restore the state of shard %d at block %d: %w", s.ID, w.entry.Height(), err)
		}
		return nil
	}
	stored, err := w.rec.Changes(s.ID)
	if err != nil {
		return err
	}
	changes := make([]trie.Change, len(stored))
	for k := range stored {
		changes[k] = trie.Change{Key: stored[k].Key, Value: stored[k].Last()}
	}
	root := w.prev[i].root
	if s.root, err = root.Forest().Update(root, changes, nil); err != nil {
		return err
	}
	if s.root.Hash() != s.Extra.StateRoot {
		return &mismatch{w, i, s.root.Hash()}
	}
	return nil
}

// importTrie returns a shard's trie after the block `at`. importTrie builds the trie from the
// frontier in the store. root is the expected root.
func (e *Engine) importTrie(
	at storage.BlockRef,
	layout primitives.ShardLayout,
	i int,
	root primitives.Hash,
) (*trie.Root, error) {
	var list []trie.FrontierEntry
	err := e.rows(layout.ShardIDs()[i])(trie.Top, nil, func(f trie.FrontierEntry) bool {
		f.Path = slices.Clone(f.Path)
		list = append(list, f)
		return true
	})
	if err != nil {
		return nil, err
	}
	return e.forest(at, layout, i).Import(list, root)
}

// load returns a block from its record, without states.
func (e *Engine) load(rec *storage.Record) (*BlockNode, error) {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	return e.loadLocked(rec)
}

// loadLocked does the same as load. The caller holds epochMu.
func (e *Engine) loadLocked(rec *storage.Record) (*BlockNode, error) {
	entry := &BlockNode{
		Block: &primitives.Block{Header: new(primitives.BlockHeader)},
		Tree:  new(primitives.PartialMerkleTree),
	}
	for _, part := range []struct {
		get  func() ([]byte, error)
		into borsh.Decoder
	}{{rec.Header, entry.Block.Header}, {rec.Body, &entry.Block.Body}, {rec.MerkleTree, entry.Tree}} {
		raw, err := part.get()
		if err == nil {
			err = borsh.Unmarshal(raw, part.into)
		}
		if err != nil {
			return nil, fmt.Errorf("engine: load block %v: %w", rec.Ref(), err)
		}
	}
	entry.Hash, entry.finalHeight = rec.Ref().Hash, max(rec.Final().Height, e.chain.Height)
	entry.refs.Store(1)
	entry.persisted.Store(true)
	h := entry.Header()
	var err error
	if entry.Layout, err = e.epochs.ShardLayout(h.EpochID); err != nil {
		return nil, err
	}
	if h.IsGenesis() {
		entry.Config, err = parameters.ForGenesis(e.chain.Version)
	} else {
		entry.Config, err = e.version(h.EpochID)
	}
	if err != nil {
		return nil, err
	}
	entry.Shards = make([]ShardState, len(entry.Block.Body.Chunks))
	if entry.Layout.NumShards() != len(entry.Shards) {
		return nil, fmt.Errorf(
			"%w: it has %d chunks in block %v, expected %[4]d, one for each shard of the layout",
			ErrInconsistent,
			len(entry.Shards),
			rec.Ref(),
			entry.Layout.NumShards(),
		)
	}
	holds := make([]bool, len(entry.Shards))
	for i, id := range entry.Layout.ShardIDs() {
		err := e.loadShard(rec, &entry.Shards[i], id, entry.Block.Body.Chunks[i].HeightIncluded)
		if errors.Is(err, errNotHeld) {
			err = loadUntracked(rec, &entry.Shards[i], entry.Block.Body.Chunks[i])
		} else if err == nil && e.store.LacksState(rec.Ref(), id) { // the shard was untracked later
			entry.Shards[i] = ShardState{ID: id, Chunk: entry.Shards[i].Chunk}
		}
		holds[i] = entry.Shards[i].Held()
		if err != nil {
			return nil, fmt.Errorf("engine: load shard %d of block %v: %w", id, rec.Ref(), err)
		}
	}
	for i := range entry.Shards {
		for _, p := range entry.Shards[i].brought {
			if k, err := entry.Layout.Index(p.From); err == nil && entry.Shards[k].Chunk != nil &&
				entry.Shards[k].Chunk.Proofs != nil {
				entry.Shards[k].Chunk.Proofs = append(entry.Shards[k].Chunk.Proofs, p)
			}
		}
	}
	// If the block is old, or below the block with whose states the store began, keep the receipts
	// for all shards: a shard without a state at this block may have one at the next.
	if rec.Ref().Height < e.begins || !slices.Contains(holds, true) {
		for i := range holds {
			holds[i] = true
		}
	}
	gatherIncoming(entry, holds)
	return entry, nil
}

// errNotHeld means that a stored block has no state of a shard.
var errNotHeld = errors.New("engine: this node stores no state of the shard")

// loadShard reads the stored results of a block in a shard, without the trie. included is the
// height of the block with the shard's last new chunk.
func (e *Engine) loadShard(rec *storage.Record, s *ShardState, id primitives.ShardID, included primitives.Height) error {
	s.ID, s.Extra = id, new(chain.ChunkExtra)
	raw, err := rec.Extra(s.ID)
	if errors.Is(err, storage.ErrNotFound) {
		return errNotHeld
	}
	if err == nil {
		err = borsh.Unmarshal(raw, s.Extra)
	}
	if err != nil {
		return err
	}
	if raw, err = rec.Other(s.ID); err != nil {
		return err
	}
	if err := s.readOrigin(raw); err != nil {
		return err
	}
	if err := e.loadOutgoing(rec, s, included); err != nil {
		return err
	}
	if _, ok, err := rec.ChunkHash(s.ID); err != nil {
		return err
	} else if ok {
		s.Chunk, err = LoadChunk(rec, s.ID)
		return err
	}
	if raw, err = rec.Incoming(s.ID); err == nil { // in the first block of a bootstrapped data folder
		s.Chunk = new(primitives.Chunk)
		s.Chunk.Proofs, err = readBroughtReceipts(raw)
		return err
	}
	return nil
}

// loadOutgoing reads the outgoing receipts of the shard's last new chunk. The block with that chunk
// may be garbage collected. While the chunk's receipts may be needed, the store keeps that block's
// record and finds the record by height and hash.
func (e *Engine) loadOutgoing(rec *storage.Record, s *ShardState, included primitives.Height) (err error) {
	if s.OutgoingAt.IsZero() {
		return nil
	}
	if s.OutgoingAt != rec.Ref().Hash {
		rec, err = e.store.BlockByHash(s.OutgoingAt)
		if errors.Is(err, storage.ErrNotFound) {
			rec, err = e.store.Block(storage.BlockRef{Height: included, Hash: s.OutgoingAt})
		}
		if err != nil {
			return err
		}
	}
	outgoing, err := rec.Outgoing(s.OutgoingOf)
	if err != nil {
		return err
	}
	for _, x := range outgoing {
		receipt := new(primitives.Receipt)
		if err := borsh.Unmarshal(x.Value, receipt); err != nil {
			return err
		}
		s.Outgoing = append(s.Outgoing, receipt)
	}
	return nil
}

// LoadChunk reads the new chunk of a shard from a stored block.
func LoadChunk(rec *storage.Record, id primitives.ShardID) (*primitives.Chunk, error) {
	c := new(primitives.Chunk)
	raw, err := rec.Chunk(id)
	if err == nil {
		err = borsh.Unmarshal(raw, &c.Header)
	}
	if err != nil {
		return nil, err
	}
	if c.Hash, _, err = rec.ChunkHash(id); err != nil {
		return nil, err
	}
	txs, err := rec.Transactions(id)
	if err != nil {
		return nil, err
	}
	for _, t := range txs {
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(t.Value, tx); err != nil {
			return nil, err
		}
		c.Transactions = append(c.Transactions, tx)
	}
	receipts, err := rec.ChunkReceipts(id)
	if err != nil {
		return nil, err
	}
	for _, v := range receipts {
		x := new(primitives.Receipt)
		if err := borsh.Unmarshal(v, x); err != nil {
			return nil, err
		}
		c.PrevOutgoingReceipts = append(c.PrevOutgoingReceipts, x)
	}
	return c, nil
}
