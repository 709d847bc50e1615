package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// chunkLeaves returns the leaves of the Merkle tree over a block's chunk headers.
func chunkLeaves(chunks []*primitives.ChunkHeader) []primitives.Hash {
	out := make([]primitives.Hash, len(chunks))
	for i, c := range chunks {
		hash := c.ChunkHash()
		out[i] = primitives.HashBytes(borsh.AppendUint64(hash[:], uint64(c.HeightIncluded)))
	}
	return out
}

// StateSyncHeader returns the state header of a shard in neard's form (nearcore
// chain/chain/src/state_sync/adapter.rs ShardStateSyncResponseHeader). sync is the sync block, a
// child of a SyncPoint. Part serves the parts of the state before the chunk in this header. Safe
// for concurrent use.
func (e *Engine) StateSyncHeader(sync primitives.Hash, id primitives.ShardID) (*primitives.StateHeader, error) {
	at, err := e.Block(sync)
	if err != nil {
		return nil, err
	}
	point, err := e.Block(at.Header().PrevHash)
	if err != nil {
		return nil, err
	}
	index, err := point.Layout.Index(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	own, err := e.StateHeader(point, index)
	if err != nil {
		return nil, err
	}
	h := &primitives.StateHeader{Chunk: *own.Chunk}
	last := point.Block.Body.Chunks[index]
	h.Chunk.Header = *last
	_, paths := primitives.Merklize(chunkLeaves(point.Block.Body.Chunks))
	h.ChunkProof = paths[index]
	before, err := e.Block(last.PrevBlockHash)
	if err != nil {
		return nil, err
	}
	prev := before.Block.Body.Chunks[index]
	_, paths = primitives.Merklize(chunkLeaves(before.Block.Body.Chunks))
	h.PrevChunkHeader, h.PrevChunkProof = prev, &paths[index]
	for x := at; x.Height() > prev.HeightIncluded; {
		if err := e.broughtTo(h, x, id); err != nil {
			return nil, err
		}
		if x, err = e.Block(x.Header().PrevHash); err != nil {
			return nil, err
		}
	}
	if last.PrevStateRoot.IsZero() {
		return h, nil
	}
	err = e.snapshots.lendState(last.PrevBlockHash, index, func(r *trie.Root) error {
		h.Root = primitives.StateRootNode{Data: bytes.Clone(own.Root), MemoryUsage: r.MemoryUsage()}
		return nil
	})
	return h, err
}

// broughtTo adds to h the receipts in the block x for the shard id, with the receipts' proofs.
func (e *Engine) broughtTo(h *primitives.StateHeader, x *BlockNode, id primitives.ShardID) error {
	chunks, err := e.ChunksFor(x.Hash, id)
	if err != nil {
		return err
	}
	roots := make([]primitives.Hash, len(x.Block.Body.Chunks))
	for i, c := range x.Block.Body.Chunks {
		roots[i] = primitives.HashBytes(c.PrevOutgoingReceiptsRoot[:])
	}
	_, paths := primitives.Merklize(roots)
	in, proofs := primitives.BlockReceipts{Block: x.Hash}, []primitives.RootProof{}
	full, err := e.Block(x.Hash) // an evicted node has no chunks, so read the block from the store
	if err != nil {
		return err
	}
	var order []int
	for i, c := range chunks {
		if c != nil {
			order = append(order, i)
		}
	}
	primitives.Shuffle(primitives.NewChaCha20Rng(x.Header().PrevHash), order)
	for _, i := range order {
		c := chunks[i]
		if c.Proofs == nil { // the shard's own chunk may contain receipts to the shard, too
			c = chain.CutChunk(full.Shards[i].Chunk, x.Layout, []primitives.ShardID{id})
		}
		p := chain.ProofTo(c, id)
		if p == nil {
			return fmt.Errorf("%w: the receipts of block %d for shard %d", ErrUntracked, x.Height(), id)
		}
		in.Proofs = append(in.Proofs, *p)
		proofs = append(proofs, primitives.RootProof{Root: x.Block.Body.Chunks[i].PrevOutgoingReceiptsRoot, Path: paths[i]})
	}
	h.Incoming, h.RootProofs = append(h.Incoming, in), append(h.RootProofs, proofs)
	return nil
}

// VerifyStateHeader verifies a peer's state header. point is the parent of the sync block. layout
// is the layout of the epoch. blocks must return a block with a validated header, or nil.
// VerifyStateHeader checks that the header's chunk is the shard's newest chunk as of point. It also
// checks the outgoing receipts and the root node. VerifyStateHeader returns the receipts that were
// sent to the shard since the shard's previous chunk, in blocks below point: for each block, the
// block's new chunks, by shard index, with receipt proofs. Errors: chain.Invalid if the sender is at
// fault; ErrUnknown if a block is unknown.
func VerifyStateHeader(
	h *primitives.StateHeader,
	point *primitives.Block,
	layout primitives.ShardLayout,
	index primitives.ShardIndex,
	id primitives.ShardID,
	blocks func(primitives.Hash) *primitives.Block,
) (map[primitives.Hash][]*primitives.Chunk, error) {
	wrong := func(what string) error {
		return fmt.Errorf("%w: state header of shard %d: %s", chain.InvalidChunk, id, what)
	}
	last := point.Body.Chunks[index]
	if h.Chunk.Hash != h.Chunk.Header.ChunkHash() || h.Chunk.Hash != last.ChunkHash() ||
		h.Chunk.Header.HeightIncluded != last.HeightIncluded {
		return nil, wrong("its chunk is not the shard's last chunk")
	}
	if err := chain.ValidateBody(&h.Chunk); err != nil { // a late shard applies these transactions
		return nil, wrong("its transactions do not match their root in the chunk header")
	}
	root, _ := chain.OutgoingReceiptsRoot(h.Chunk.PrevOutgoingReceipts, layout)
	if root != h.Chunk.Header.PrevOutgoingReceiptsRoot {
		return nil, wrong("its outgoing receipts do not match their root in the chunk header")
	}
	before := blocks(last.PrevBlockHash)
	if before == nil || int(index) >= len(before.Body.Chunks) {
		return nil, fmt.Errorf("%w: block %v", ErrUnknown, last.PrevBlockHash)
	}
	since := before.Body.Chunks[index].HeightIncluded
	out := map[primitives.Hash][]*primitives.Chunk{}
	brought := map[primitives.Hash][]primitives.ReceiptProof{}
	for _, in := range h.Incoming {
		brought[in.Block] = in.Proofs
	}
	b := blocks(point.Header.PrevHash) // above `before` if the shard has no new chunk in point
	if b == nil {
		return nil, fmt.Errorf("%w: block %v", ErrUnknown, point.Header.PrevHash)
	}
	for b.Header.Height > since {
		list := make([]*primitives.Chunk, len(b.Body.Chunks))
		for _, p := range brought[b.Hash()] {
			k := int(-1)
			for i, c := range b.Body.Chunks {
				if c.ShardID == p.From && c.HeightIncluded == b.Header.Height {
					k = i
				}
			}
			if k < 0 || list[k] != nil || p.To != id {
				return nil, wrong("receipts of a chunk that is not in the block")
			}
			c := b.Body.Chunks[k]
			list[k] = &primitives.Chunk{Hash: c.ChunkHash(), Header: *c, Proofs: []primitives.ReceiptProof{p}}
			if err := chain.ValidateProofs(list[k]); err != nil {
				return nil, err
			}
		}
		for i, c := range b.Body.Chunks {
			if c.HeightIncluded == b.Header.Height && list[i] == nil {
				return nil, wrong("receipts are missing")
			}
		}
		out[b.Hash()] = list
		prev := b.Header.PrevHash
		if b = blocks(prev); b == nil {
			return nil, fmt.Errorf("%w: block %v", ErrUnknown, prev)
		}
	}
	if !last.PrevStateRoot.IsZero() {
		p, err := trie.NewPartial([][]byte{h.Root.Data}, last.PrevStateRoot)
		if err != nil || p.MemoryUsage() != h.Root.MemoryUsage {
			return nil, wrong("its root node has another hash or size")
		}
	}
	return out, nil
}

// SyncBlock describes a sync block at which a node that is far behind starts, and its last two
// ancestors.
type SyncBlock struct {
	// Point is the parent of Sync. Before is the parent of Point. The fetched states are the states
	// after Before.
	Sync, Point, Before storage.BlockRef
	Epoch               primitives.EpochID
	Length              primitives.Height // epoch length in blocks
	Layout              primitives.ShardLayout
	// Wanted are the shards, by shard index, that this node holds in the epoch or in the next one.
	Wanted []bool
	// Path are the blocks from the first block after the epoch sync proof up to Before, ascending.
	// HeaderChain.Header reads their headers, of which three epochs do not fit into memory.
	Path []storage.BlockRef
}

// SyncBlock finds the sync block of the highest header's epoch from headers alone. SyncBlock
// returns nil if there is no sync block yet, if the sync block is not final, or if no header is
// above the blocks. SyncBlock reads all headers after the epoch sync proof, one by one, and keeps
// headerRef of each. It does not block Add or Precheck meanwhile.
func (l *HeaderChain) SyncBlock() (*SyncBlock, error) {
	s, err := l.scan()
	if err != nil || len(s.refs) == 0 {
		return nil, err
	}
	return s.find()
}

// Header returns the header of a row on disk, also while Add runs. It returns ErrUnknown if there is
// none. Safe for concurrent use.
func (l *HeaderChain) Header(hash primitives.Hash) (*primitives.BlockHeader, error) {
	r, err := l.newRows().Row(hash)
	if err == nil && r == nil {
		err = fmt.Errorf("%w: header %v", ErrUnknown, hash)
	}
	if err != nil {
		return nil, err
	}
	return r.Header, nil
}

// headerRef is what a headerScan keeps of a header. A header of mainnet takes 8 to 10 kB.
type headerRef struct {
	storage.BlockRef
	mask []bool // chunk mask; nil in the epochs before the highest header's
}

// headerScan is a snapshot of the headers.
type headerScan struct {
	disk   *headerRows // reads rows on disk
	epoch  primitives.EpochID
	refs   []headerRef     // the newest headers, newest first; some may not be on disk yet
	next   primitives.Hash // hash of the parent of the oldest of refs
	final  headerchain.Ref
	layout primitives.ShardLayout
	wanted []bool
	err    error // first error of reading layout and wanted
}

// add appends a header to refs. It returns false at the first header, whose ancestors are unknown.
func (s *headerScan) add(r *headerchain.Row) bool {
	if r == nil || r.Tree.Size() == 0 {
		return false
	}
	x := headerRef{BlockRef: storage.BlockRef{Height: r.Info.Height, Hash: r.Info.Hash}}
	if r.Header.EpochID == s.epoch {
		x.mask = slices.Clone(r.Header.ChunkMask)
	}
	s.refs, s.next = append(s.refs, x), r.Info.PrevHash
	return true
}

// scan takes a snapshot of the headers. scan reads only the rows that may not be on disk yet.
func (l *HeaderChain) scan() (*headerScan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ensure(); err != nil {
		return nil, err
	}
	head := l.chain.Head()
	s := &headerScan{disk: l.newRows(), epoch: head.Header.EpochID, final: l.chain.Final()}
	for at := head; s.add(at); {
		at = l.rows.new[s.next]
	}
	epochs := l.chain.Epochs()
	if s.layout, s.err = epochs.ShardLayout(head.Header.EpochID); s.err != nil {
		return s, nil
	}
	for _, id := range s.layout.ShardIDs() {
		wanted, err := l.blocks.wantsShard(epochs, head.Header.EpochID, head.Header.PrevHash, s.layout, id)
		if err != nil {
			s.err = err
			break
		}
		s.wanted = append(s.wanted, wanted)
	}
	return s, nil
}

// find reads the rows on disk and searches for the sync block. find returns nil if there is no sync
// block yet, or if the sync block is not final.
func (s *headerScan) find() (*SyncBlock, error) {
	for {
		at, err := s.disk.Row(s.next)
		if err != nil {
			return nil, err
		}
		if !s.add(at) {
			break
		}
	}
	refs := s.refs
	var had []int
	found := -1
	for i := len(refs) - 2; i > 0; i-- { // begin with the epoch's second block
		mask := refs[i].mask
		if mask == nil || refs[i+1].mask == nil {
			continue
		}
		if had == nil {
			had = make([]int, len(mask))
		}
		done := true
		for k, is := range mask {
			if is {
				had[k]++
			}
			done = done && had[k] >= 2
		}
		if done {
			found = i
			break
		}
	}
	if found < 1 || found+1 >= len(refs) || refs[found-1].Height > s.final.Height {
		return nil, nil
	}
	out := &SyncBlock{
		Sync:   refs[found-1].BlockRef,
		Point:  refs[found].BlockRef,
		Before: refs[found+1].BlockRef,
		Epoch:  s.epoch,
		Layout: s.layout,
		Wanted: s.wanted,
		Path:   make([]storage.BlockRef, 0, len(refs)-found-1),
	}
	for i := len(refs) - 1; i > found; i-- {
		out.Path = append(out.Path, refs[i].BlockRef)
	}
	return out, s.err
}

// MergeProofs adds the receipt proofs of the chunks in `more` to the chunks in `to`. The two must
// have proofs for different shards.
func MergeProofs(to, more map[primitives.Hash][]*primitives.Chunk) {
	for hash, list := range more {
		if to[hash] == nil {
			to[hash] = make([]*primitives.Chunk, len(list))
		}
		for i, c := range list {
			switch old := to[hash][i]; {
			case c == nil:
			case old == nil:
				to[hash][i] = c
			default:
				old.Proofs = append(old.Proofs, c.Proofs...)
			}
		}
	}
}
