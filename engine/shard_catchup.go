package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ErrNotYet means that the next step is not possible yet. For example, the flat head must advance
// first, or state parts are missing. The caller repeats the call after a while.
var ErrNotYet = errors.New("engine: not possible yet")

// ShardCatchup adds the state of one shard to a running engine.
//
// Problem. A node starts to track a shard in the middle of a chain, because its validator is
// assigned to the shard in the next epoch. It must obtain the shard's state and reach the head
// without stopping the chain.
//
// Invariants. (1) All data comes from peers and is verified before it is stored: state parts
// against the state root in a chunk header of this chain, chunks against their hashes, receipts
// against their proofs. (2) While the engine runs, either all BlockNodes in memory hold the shard,
// or no BlockNode does. (3) After a restart, CatchUpShard with the same arguments continues where
// the catchup stopped. (4) If the shard layout changes during a catchup, the catchup fails with
// ErrReshard, and the caller abandons it.
//
// Outline.
//
//	CatchUpShard  begins or resumes; the state to fetch is that after the block j.at
//	Part          verifies and stores one state part; callable from any goroutine
//	Enter         once all parts are stored: makes them the shard's flat state at j.at
//	CatchUp       applies one block at or below the flat head and persists the result
//	Finish        applies the blocks above the flat head on all branches and adds the shard to
//	              the BlockNodes
//
// Finish runs while no block is between BeginImport and FinishImport, and replaces all nodes in
// memory at once. All methods except Part run on the engine's goroutine. A call of CatchUp applies
// only one block, so that new blocks can be imported between calls.
//
// Wrong data from a peer causes ErrChunk, ErrMissing, trie.ErrMissing or trie.ErrCorrupt.
//
// Rejected. Replaying the shard from the genesis: peers have garbage collected the old blocks.
// Stopping at the head until the shard is complete: the node's other shards would stop for hours.
// Catching up in a second store: both stores would need history, snapshots and garbage collection.
type ShardCatchup struct {
	e      *Engine
	id     primitives.ShardID
	index  primitives.ShardIndex
	layout primitives.ShardLayout
	point  storage.BlockRef        // the sync point
	at     storage.BlockRef        // block of the fetched state
	next   *primitives.Chunk       // the shard's first chunk that is applied on the fetched state
	before [][]*primitives.Receipt // receipts that arrived after the shard's previous chunk, for each block up to at

	block *BlockNode // block after which shard is the state; nil before Enter
	shard ShardState
}

// CatchUpShard begins or resumes the catchup of the shard with this index. point is the block
// before an epoch's sync block (SyncPoint). next is the shard's newest chunk as of point: its
// header contains the root of the state to fetch, and its body contains the receipts that the
// shard's previous chunk sent. before contains the receipts that arrived at the shard between the
// previous chunk and next. For each block between these two chunks, before has the block's new
// chunks with receipt proofs to the shard. before is empty if there are no such blocks.
func (e *Engine) CatchUpShard(
	point *BlockNode,
	index primitives.ShardIndex,
	next *primitives.Chunk,
	before map[primitives.Hash][]*primitives.Chunk,
) (*ShardCatchup, error) {
	j := &ShardCatchup{e: e, index: index, layout: point.Layout, point: ref(point), next: next}
	if tip := e.Tip(); int(index) >= point.Layout.NumShards() || !tip.Layout.Equal(point.Layout) ||
		tip.Shards[index].Held() {
		return nil, fmt.Errorf(
			"%w: no shard to catch up at index %d of block %d: the layout has no such shard or has changed since, or this node has the shard's state",
			ErrUnknown,
			index,
			point.Height(),
		)
	}
	j.id = point.Layout.ShardIDs()[index]
	root, _ := chain.OutgoingReceiptsRoot(next.PrevOutgoingReceipts, j.layout)
	if h := point.Block.Body.Chunks[index]; next.Hash != h.ChunkHash() || next.Hash != next.Header.ChunkHash() ||
		next.Header.PrevOutgoingReceiptsRoot != root {
		return nil, fmt.Errorf("%w: shard %d at block %d: the downloaded chunk after the sync block does not match the chunk header",
			ErrChunk, j.id, point.Height())
	}
	at, err := e.Block(next.Header.PrevBlockHash)
	if err != nil {
		return nil, err
	}
	if !at.Layout.Equal(j.layout) {
		return nil, fmt.Errorf("%w: the layout changes after block %[3]d, and the catchup of shard %[2]d ends", ErrReshard, j.id, at.Height())
	}
	j.at = ref(at)
	if left, ok := e.store.UntrackedAt(j.id); ok && j.at.Height <= left {
		return nil, fmt.Errorf(
			"%w: catchup of shard %d: this node tracked the shard up to block %d, so the sync point must be a later block",
			ErrNotYet,
			j.id,
			left,
		)
	}
	if err := j.gather(at, before); err != nil {
		return nil, err
	}
	here, entered, err := e.storedShardAt(j.id)
	if err != nil {
		return nil, err
	}
	if !entered {
		_, err = e.store.Stage(j.id, j.at, accounts(j.layout, index))
		return j, err
	}
	return j, j.resume(here)
}

// gather sets j.before: the receipts that arrived at the shard after its previous chunk, up to the
// block `at`. The parameter before has the new chunks of these blocks, by block hash, with receipt
// proofs to the shard.
func (j *ShardCatchup) gather(at *BlockNode, before map[primitives.Hash][]*primitives.Chunk) error {
	since := at.Block.Body.Chunks[j.index].HeightIncluded
	for at.Height() > since {
		y, err := j.shardView(at, before[at.Hash])
		if err != nil {
			return err
		}
		j.before = append([][]*primitives.Receipt{y.Shards[j.index].Incoming}, j.before...)
		if at, err = j.e.Block(at.Header().PrevHash); err != nil {
			return err
		}
	}
	return nil
}

// shardView returns the block x as a node that holds only this shard would have it. Of the receipts
// in the new chunks, the result contains only the receipts for the shard.
func (j *ShardCatchup) shardView(x *BlockNode, chunks []*primitives.Chunk) (*BlockNode, error) {
	y := &BlockNode{
		Block:       x.Block,
		Hash:        x.Hash,
		Layout:      x.Layout,
		Config:      x.Config,
		Tree:        x.Tree,
		Shards:      make([]ShardState, len(x.Shards)),
		finalHeight: x.finalHeight,
	}
	holds, held := make([]bool, len(x.Shards)), []primitives.ShardID{j.id}
	holds[j.index] = true
	for k, h := range x.Block.Body.Chunks {
		s := &y.Shards[k]
		if s.ID = x.Shards[k].ID; h.HeightIncluded != x.Height() {
			continue
		}
		if own := x.Shards[k].Chunk; primitives.ShardIndex(k) != j.index && x.Shards[k].Held() && own != nil &&
			own.Proofs == nil {
			s.Chunk = own
			continue
		}
		if k >= len(chunks) || chunks[k] == nil || chunks[k].Hash != h.ChunkHash() {
			return nil, fmt.Errorf("%w: shard index %d of block %d", ErrMissing, k, x.Height())
		}
		var err error
		switch {
		case primitives.ShardIndex(k) == j.index && chunks[k].Proofs == nil:
			s.Chunk = chunks[k]
		case !chain.Proves(chunks[k], held):
			err = fmt.Errorf("%w: receipt proofs of shard index %d of block %d", ErrMissing, k, x.Height())
		default:
			s.Chunk, err = untrackedChunk(chunks[k], h, held)
		}
		if err != nil {
			return nil, err
		}
	}
	gatherIncoming(y, holds)
	return y, nil
}

// storedShardAt returns the block at which the store has the state of a shard that is being caught
// up. storedShardAt returns nil if the store has no state of the shard. The bool is true if all
// parts of that state are in place (Enter).
func (e *Engine) storedShardAt(id primitives.ShardID) (*BlockNode, bool, error) {
	folded := e.store.Tip().FlatHead
	at, here := e.store.ShardAt(id)
	// Read the shard again if the flat head has advanced during the call of ShardAt.
	for now := e.store.Tip().FlatHead; now != folded; now = e.store.Tip().FlatHead {
		folded = now
		at, here = e.store.ShardAt(id)
	}
	if !here {
		return nil, false, nil
	}
	rec, err := e.store.Block(at)
	if err != nil {
		return nil, false, err
	}
	x, err := e.load(rec)
	if err != nil {
		return nil, false, err
	}
	i, err := x.Layout.Index(id)
	return x, err == nil && (x.Shards[i].Held() || at != folded), err
}

// extraFromHeader returns the ChunkExtra of the shard's previous chunk. The header h of the shard's
// next chunk repeats that ChunkExtra.
func extraFromHeader(h *primitives.ChunkHeader) *chain.ChunkExtra {
	return &chain.ChunkExtra{
		StateRoot:         h.PrevStateRoot,
		OutcomeRoot:       h.PrevOutcomeRoot,
		Proposals:         h.PrevValidatorProposals,
		GasUsed:           h.PrevGasUsed,
		GasLimit:          h.GasLimit,
		BalanceBurnt:      h.PrevBalanceBurnt,
		CongestionInfo:    h.CongestionInfo,
		BandwidthRequests: h.BandwidthRequests,
		ProposedSplit:     h.ProposedSplit,
	}
}

// resume continues the catchup from the state that the store has for the shard after the block x.
func (j *ShardCatchup) resume(x *BlockNode) error {
	j.block, j.shard = x, x.Shards[j.index]
	if ref(x) == j.at {
		j.shard = ShardState{ID: j.id, Extra: extraFromHeader(&j.next.Header), Outgoing: j.next.PrevOutgoingReceipts}
	}
	if !j.shard.Held() {
		return fmt.Errorf("%w: shard %d at block %d", ErrUntracked, j.id, x.Height())
	}
	var err error
	j.shard.root, err = j.e.importTrie(ref(x), j.layout, int(j.index), j.shard.Extra.StateRoot)
	return err
}

// Root returns the root of the state to fetch.
func (j *ShardCatchup) Root() primitives.Hash { return j.next.Header.PrevStateRoot }

// Has returns the numbers of the stored parts, including parts stored before a restart. It returns
// nil after Enter has succeeded.
func (j *ShardCatchup) Has() ([]uint64, error) {
	if j.block != nil {
		return nil, nil
	}
	return j.e.store.Stage(j.id, j.at, accounts(j.layout, j.index))
}

// Part verifies a part of the shard's state and stores the part. Errors: trie.ErrMissing or
// trie.ErrCorrupt if the part is wrong. Safe for concurrent use.
func (j *ShardCatchup) Part(id trie.PartID, strings [][]byte) error {
	return stagePart(&j.e.o, j.id, j.at, j.Root(), id, strings)
}

// Enter makes the stored parts the shard's flat state. total is the number of parts. It returns
// ErrNotYet if a part is missing, or if the flat head has not passed the block of the state.
func (j *ShardCatchup) Enter(total uint64) error {
	if j.block != nil {
		return nil
	}
	if parts, err := j.Has(); err != nil || uint64(len(parts)) != total {
		return errors.Join(err, fmt.Errorf("%w: catchup of shard %d: %d of %d state parts are stored", ErrNotYet, j.id, len(parts), total))
	}
	if j.e.store.Tip().FlatHead.Height <= j.at.Height {
		return fmt.Errorf("%w: catchup of shard %d: the flat head must first pass block %d", ErrNotYet, j.id, j.at.Height)
	}
	root, err := j.e.importTrie(j.at, j.layout, int(j.index), j.Root())
	if err != nil {
		return fmt.Errorf("engine: build the state of shard %d from its parts: %w", j.id, err)
	}
	root.Release()
	if err := j.e.store.InstallShard(j.id, nil); err != nil {
		return err
	}
	rec, err := j.e.store.Block(j.at)
	if err != nil {
		return err
	}
	x, err := j.e.load(rec)
	if err != nil {
		return err
	}
	if err := j.resume(x); err != nil || !j.e.snapshots.serves {
		return err
	}
	return j.snapshot()
}

// snapshot stores the entered state as a state snapshot, which this node serves to peers. A
// snapshot made after further blocks would have to undo the changes of these blocks. The store may
// not keep the changes of so many blocks.
func (j *ShardCatchup) snapshot() error {
	if _, there := j.e.snapshots.snapshotOf(j.at.Hash, j.index); there {
		return nil
	}
	made, err := j.e.snapshots.storeSnapshot(
		&storage.StateSnapshot{
			Shard:    j.id,
			Index:    j.index,
			At:       j.at,
			Of:       j.point,
			Root:     j.Root(),
			Accounts: accounts(j.layout, j.index),
		},
		j.shard.root,
	)
	if err != nil || !made {
		return err
	}
	return j.e.snapshots.readSnapshots()
}

// At returns the block of the state that the catchup has reached. At returns the zero value before
// Enter.
func (j *ShardCatchup) At() storage.BlockRef {
	if j.block == nil {
		return storage.BlockRef{}
	}
	return ref(j.block)
}

// Next returns the block that the next CatchUp applies. The bool is false if the shard has reached
// the flat head. The next step is then Finish. Next returns ErrNotYet before Enter.
func (j *ShardCatchup) Next() (storage.BlockRef, bool, error) {
	if j.block == nil {
		return storage.BlockRef{}, false, ErrNotYet
	}
	folded := j.e.store.Tip().FlatHead
	if j.block.Height() >= folded.Height {
		return storage.BlockRef{}, false, nil
	}
	at, err := j.e.store.NextBlock(j.block.Height() + 1)
	return at, err == nil, err
}

// CatchUp applies the block from Next to the shard. chunks are the new chunks of that block, by
// shard index: the shard's own chunk with its transactions, and the chunks of other shards with
// receipt proofs to the shard. Chunks of held shards may be missing.
func (j *ShardCatchup) CatchUp(chunks []*primitives.Chunk) error {
	at, more, err := j.Next()
	if err != nil || !more {
		return errors.Join(err, ErrNotYet)
	}
	rec, err := j.e.store.Block(at)
	if err != nil {
		return err
	}
	x, err := j.e.load(rec)
	if err != nil {
		return err
	}
	before := j.shard
	s, err := j.step(j.block, &before, x, chunks, nil)
	if err != nil {
		return err
	}
	changes, err := appendFrontier(nil, j.id, before.root, s.root)
	if err == nil {
		err = j.commit(x, s, &before, changes)
	}
	if err != nil {
		s.root.Release()
		return err
	}
	s.root.Forest().SetSource(j.e.source(at, j.layout, int(j.index)))
	before.root.Release()
	j.block, j.shard = x, *s
	return nil
}

// commit stores the shard's result s of the block x.
func (j *ShardCatchup) commit(x *BlockNode, s, before *ShardState, changes []storage.FrontierChange) error {
	out := encodeShards([]ShardState{*s})[0]
	prev := *before
	// Store the incoming receipts with the chunk, because this node may not store the chunk that
	// sent them.
	prev.OutgoingAt = primitives.Hash{}
	if err := encodeResult(&out, s, &prev, j.e, x.Height()); err != nil {
		return err
	}
	return j.e.store.CommitShard(ref(x), &out, changes)
}

// step returns the shard's state after the block x. before is the shard's state after parent, the
// parent of x. made contains results that are not stored yet, by block.
func (j *ShardCatchup) step(
	parent *BlockNode,
	before *ShardState,
	x *BlockNode,
	chunks []*primitives.Chunk,
	made map[primitives.Hash]*ShardState,
) (*ShardState, error) {
	if !x.Layout.Equal(j.layout) {
		return nil, fmt.Errorf("%w: the layout changes after block %d, during the catchup of shard %d", ErrReshard, parent.Height(), j.id)
	}
	y, err := j.shardView(x, chunks)
	if err != nil {
		return nil, err
	}
	s := &y.Shards[j.index]
	if s.Chunk != nil {
		if err := j.e.times.Applied.validate(s.Chunk, before.Extra, before.Outgoing, j.layout, j.e.coding); err != nil {
			return nil, fmt.Errorf("%w: shard %d of block %d: %w", ErrChunk, j.id, x.Height(), err)
		}
		checked := *s.Chunk
		checked.Header, checked.PrevOutgoingReceipts = *x.Block.Body.Chunks[j.index], before.Outgoing
		s.Chunk = &checked
		holds := make([]bool, len(y.Shards))
		holds[j.index] = true
		gatherIncoming(y, holds)
	}
	p := &BlockImport{entry: y, parent: parent, prev: make([]ShardState, len(y.Shards))}
	p.prev[j.index] = *before
	j.e.epochMu.Lock()
	err = j.e.makeJobs(p, parent.Block.Body.Chunks, func(primitives.ShardIndex) state.Trie { return rooted(before.root) })
	j.e.epochMu.Unlock()
	if err != nil {
		return nil, err
	}
	job := &p.jobs[j.index]
	if s.Chunk != nil {
		if job.input.Incoming, err = j.incoming(y, parent, made); err != nil {
			return nil, err
		}
	}
	if job.Run(); job.err != nil {
		return nil, job.err
	}
	fillShardState(s, before, job, x.Hash)
	for k := range y.Shards {
		if c := y.Shards[k].Chunk; c != nil && c.Proofs != nil {
			s.brought = append(s.brought, *chain.ProofTo(c, j.id))
		}
	}
	return s, nil
}

// incoming returns the receipts that a new chunk of the shard executes: first the receipts that
// arrive in the chunk's own block y, then the receipts of the blocks before y, newest block first.
// The oldest of these blocks is the block after the shard's previous chunk.
func (j *ShardCatchup) incoming(
	y, parent *BlockNode,
	made map[primitives.Hash]*ShardState,
) ([]*primitives.Receipt, error) {
	out := append([]*primitives.Receipt{}, y.Shards[j.index].Incoming...)
	since := parent.Block.Body.Chunks[j.index].HeightIncluded
	for at := parent; at.Height() > since; {
		if ref(at) == j.at {
			for i := len(j.before) - 1; i >= 0; i-- {
				out = append(out, j.before[i]...)
			}
			break
		}
		full, err := j.e.Block(at.Hash)
		if err != nil {
			return nil, err
		}
		s := &full.Shards[j.index]
		if own := made[at.Hash]; own != nil && at.Hash != j.e.flatHead.Hash {
			s = own
		} else if !s.Held() { // Enter was called after the node was loaded
			rec, err := j.e.store.Block(ref(at))
			if err == nil {
				full, err = j.e.load(rec)
			}
			if err != nil {
				return nil, err
			}
			s = &full.Shards[j.index]
		}
		out = append(out, s.Incoming...)
		if at, err = j.e.Block(at.Header().PrevHash); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Finish applies all blocks above the flat head, on every branch, and adds the shard to the engine.
// chunks returns a block's new chunks in the form that CatchUp takes. It returns ErrNotYet if the
// shard has not reached the flat head, and ErrMissing if chunks of a block are missing.
func (j *ShardCatchup) Finish(chunks func(primitives.Hash) []*primitives.Chunk) error {
	e := j.e
	if err := e.quiesce(); err != nil {
		return err
	}
	if _, more, err := j.Next(); err != nil || more {
		return errors.Join(err, ErrNotYet)
	}
	order, err := j.nodesAboveFlatHead()
	if err != nil {
		return err
	}
	states := map[primitives.Hash]*ShardState{e.flatHead.Hash: &j.shard}
	if s := &e.flatHead.Shards[j.index]; s.Held() { // the state was restored when the store was opened
		states[e.flatHead.Hash] = s
	}
	for _, x := range order {
		s := &x.Shards[j.index]
		if !s.Held() {
			parent := e.entries[x.Header().PrevHash]
			if s, err = j.step(parent, states[parent.Hash], x, chunks(x.Hash), states); err != nil {
				j.release(states)
				return err
			}
		}
		states[x.Hash] = s
	}
	for _, x := range order { // commit all results now, so that the flat head never passes only some of them
		if s := states[x.Hash]; !x.Shards[j.index].Held() {
			if err := j.commit(x, s, states[x.Header().PrevHash], nil); err != nil {
				j.release(states)
				return err
			}
		}
	}
	j.install(states)
	return nil
}

// quiesce waits until all imported blocks are on disk and no update of the flat head runs.
func (e *Engine) quiesce() error {
	if _, err := e.Flush(); err != nil {
		return err
	}
	if e.flatHeadUpdate != nil {
		return e.finishFlatHeadUpdate(e.flatHeadUpdate.wait())
	}
	return nil
}

// release releases the states that a failed Finish has created.
func (j *ShardCatchup) release(states map[primitives.Hash]*ShardState) {
	for hash, s := range states {
		if s != &j.shard && !j.e.entries[hash].Shards[j.index].Held() {
			s.root.Release()
		}
	}
}

// nodesAboveFlatHead returns the nodes above the flat head, parents first. It returns ErrNotYet if
// a node is evicted, or if the shard layout changes among the nodes.
func (j *ShardCatchup) nodesAboveFlatHead() (order []*BlockNode, err error) {
	for _, x := range j.e.entries {
		if x.evicted || !x.Layout.Equal(j.layout) {
			return nil, fmt.Errorf("%w: catchup of shard %d: finality is far behind, or the shard layout changes", ErrNotYet, j.id)
		}
		if x != j.e.flatHead {
			order = append(order, x)
		}
	}
	slices.SortFunc(order, func(a, b *BlockNode) int { return cmp.Compare(a.Height(), b.Height()) })
	return order, nil
}

// install replaces all nodes in memory by copies that hold the shard.
func (j *ShardCatchup) install(states map[primitives.Hash]*ShardState) {
	e := j.e
	e.replaceNodes(func(x *BlockNode) *BlockNode {
		if x.Shards[j.index].Held() {
			return nil
		}
		return x.with(j.index, *states[x.Hash])
	})
	if states[e.flatHead.Hash] != &j.shard {
		j.shard.root.Release()
	}
	j.block = nil
	// Make the next update of the flat head add the shard to the existing state snapshots. No
	// update is running now.
	e.snapshots.begun = false
}

// with returns a copy of the node in which one shard has the state s. The copy holds the old node,
// because readers may continue to use it.
func (x *BlockNode) with(index primitives.ShardIndex, s ShardState) *BlockNode {
	y := &BlockNode{
		Block:        x.Block,
		Hash:         x.Hash,
		Layout:       x.Layout,
		Config:       x.Config,
		Tree:         x.Tree,
		Shards:       append([]ShardState{}, x.Shards...),
		finalHeight:  x.finalHeight,
		descendsFrom: x.descendsFrom,
		replaces:     x,
	}
	y.Shards[index] = s
	y.refs.Store(1)
	y.persisted.Store(true)
	y.rules.Store(x.rules.Load())
	if x.evicted {
		y.evicted, y.replaces = true, nil
		y.refs.Store(0)
	}
	return y
}

// replaceNodes replaces each node x in memory by the node that by(x) returns, unless that is nil.
// It ends all revert points and drops all optimistic blocks. No block may be in flight to the disk,
// and no update of the flat head may be running.
func (e *Engine) replaceNodes(by func(*BlockNode) *BlockNode) {
	e.EndRevertPoints()                      // revert points refer to the old nodes
	for _, o := range e.usableOptimistic() { // their imports would have other states before the block
		o.Drop()
	}
	now := map[*BlockNode]*BlockNode{}
	e.mu.Lock()
	for hash, x := range e.entries {
		if y := by(x); y != nil {
			now[x] = y
			e.entries[hash] = y
		}
	}
	if y := now[e.flatHead]; y != nil {
		e.flatHead = y
	}
	e.mu.Unlock()
	for i, x := range e.resident {
		if y := now[x]; y != nil {
			e.resident[i] = y
		}
	}
	for _, p := range []interface {
		Load() *head
		Store(*head)
	}{&e.view, &e.tip} {
		if h := p.Load(); now[h.entry] != nil {
			p.Store(&head{entry: now[h.entry], final: h.final})
		}
	}
}

// drop releases the shard's state in memory when its catchup is abandoned.
func (j *ShardCatchup) drop() {
	if j.block != nil && j.shard.root != nil {
		j.shard.root.Release()
	}
	j.block = nil
}
