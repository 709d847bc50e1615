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

// ErrNotYet says that a shard that comes in can't take the next step: blocks have to be folded first, or parts to come.
var ErrNotYet = errors.New("engine: the shard is not there yet")

// ShardCatchup brings a shard into an engine that runs: its state after a block as parts, which are judged as they come, then what the blocks
// behind did in it, one by one, while others are processed; at last it is held with the rest. A restart goes on where it was, with the
// same Join. It belongs to the engine's goroutine, but for Part; while it lasts the layout must stay, and Finish wants no block between Begin
// and Commit. What others have sent that is wrong is ErrChunk, ErrMissing, trie.ErrMissing or trie.ErrCorrupt.
type ShardCatchup struct {
	e      *Engine
	id     primitives.ShardID
	index  primitives.ShardIndex
	layout primitives.ShardLayout
	point  storage.BlockRef
	at     storage.BlockRef // after which the state is that comes
	next   *primitives.Chunk
	before [][]*primitives.Receipt // that came to the shard after its last chunk up to at, oldest first

	block *BlockNode // where the shard is, which ours need not hold; nil: parts are awaited
	shard ShardState
}

// Join begins or goes on to bring in a shard. next is its last new chunk in the block before an epoch's sync block (SyncPoint), or in an older
// one if it has missed that: its header says which state comes, its body what the shard had sent. before are the chunks of blocks behind the
// shard's last chunk before that, as proofs to the shard: none where it has missed none.
func (e *Engine) CatchUpShard(point *BlockNode, index primitives.ShardIndex, next *primitives.Chunk, before map[primitives.Hash][]*primitives.Chunk) (*ShardCatchup, error) {
	j := &ShardCatchup{e: e, index: index, layout: point.Layout, point: ref(point), next: next}
	if tip := e.Tip(); int(index) >= point.Layout.NumShards() || !tip.Layout.Equal(point.Layout) || tip.Shards[index].Held() {
		return nil, fmt.Errorf("%w: shard index %d of block %d is not one to bring in", ErrUnknown, index, point.Height())
	}
	j.id = point.Layout.ShardIDs()[index]
	root, _ := chain.OutgoingReceiptsRoot(next.PrevOutgoingReceipts, j.layout)
	if h := point.Block.Body.Chunks[index]; next.Hash != h.ChunkHash() || next.Hash != next.Header.ChunkHash() || next.Header.PrevOutgoingReceiptsRoot != root {
		return nil, fmt.Errorf("%w: of shard %d at block %d", ErrChunk, j.id, point.Height())
	}
	at, err := e.Block(next.Header.PrevBlockHash)
	if err != nil {
		return nil, err
	}
	if !at.Layout.Equal(j.layout) {
		return nil, fmt.Errorf("%w: behind block %d", ErrReshard, at.Height())
	}
	j.at = ref(at)
	if left, ok := e.store.UntrackedAt(j.id); ok && j.at.Height <= left {
		return nil, fmt.Errorf("%w: shard %d was here up to block %d", ErrNotYet, j.id, left)
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

// gather takes the receipts that came to the shard between its last chunk and the block after which its state comes.
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

// shardView is a block as one sees it who holds this shard alone: its new chunks with what they bring to it.
func (j *ShardCatchup) shardView(x *BlockNode, chunks []*primitives.Chunk) (*BlockNode, error) {
	y := &BlockNode{Block: x.Block, Hash: x.Hash, Layout: x.Layout, Config: x.Config, Tree: x.Tree, Shards: make([]ShardState, len(x.Shards)), finalHeight: x.finalHeight}
	holds, held := make([]bool, len(x.Shards)), []primitives.ShardID{j.id}
	holds[j.index] = true
	for k, h := range x.Block.Body.Chunks {
		s := &y.Shards[k]
		if s.ID = x.Shards[k].ID; h.HeightIncluded != x.Height() {
			continue
		}
		if own := x.Shards[k].Chunk; primitives.ShardIndex(k) != j.index && x.Shards[k].Held() && own != nil && own.Proofs == nil {
			s.Chunk = own
			continue
		}
		if k >= len(chunks) || chunks[k] == nil || chunks[k].Hash != h.ChunkHash() {
			return nil, fmt.Errorf("%w: of shard index %d of block %d", ErrMissing, k, x.Height())
		}
		var err error
		switch {
		case primitives.ShardIndex(k) == j.index && chunks[k].Proofs == nil:
			s.Chunk = chunks[k]
		case !chain.Proves(chunks[k], held):
			err = fmt.Errorf("%w: proofs of shard index %d of block %d", ErrMissing, k, x.Height())
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

// storedShardAt is the block at which the store has a shard that is on its way; entered: it has it.
func (e *Engine) storedShardAt(id primitives.ShardID) (*BlockNode, bool, error) {
	folded := e.store.Tip().Folded
	at, here := e.store.ShardAt(id)
	for now := e.store.Tip().Folded; now != folded; now = e.store.Tip().Folded { // a fold runs beside this
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

// extraFromHeader is what a chunk says of the state that it is on.
func extraFromHeader(h *primitives.ChunkHeader) *chain.ChunkExtra {
	return &chain.ChunkExtra{StateRoot: h.PrevStateRoot, OutcomeRoot: h.PrevOutcomeRoot, Proposals: h.PrevValidatorProposals,
		GasUsed: h.PrevGasUsed, GasLimit: h.GasLimit, BalanceBurnt: h.PrevBalanceBurnt, CongestionInfo: h.CongestionInfo,
		BandwidthRequests: h.BandwidthRequests, ProposedSplit: h.ProposedSplit}
}

// resume takes up a shard that the store has at a block.
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

// Root is the state root whose parts are awaited.
func (j *ShardCatchup) Root() primitives.Hash { return j.next.Header.PrevStateRoot }

// Has returns the parts that have come, before a restart too; nil once the shard has them all.
func (j *ShardCatchup) Has() ([]uint64, error) {
	if j.block != nil {
		return nil, nil
	}
	return j.e.store.Stage(j.id, j.at, accounts(j.layout, j.index))
}

// Part judges a part of the shard's state and stores it. Any goroutine may call it.
func (j *ShardCatchup) Part(id trie.PartID, strings [][]byte) error {
	return stagePart(&j.e.o, j.id, j.at, j.Root(), id, strings)
}

// Enter makes the parts the shard's state; total is how many there are. ErrNotYet: one is missing, or their block is not folded.
func (j *ShardCatchup) Enter(total uint64) error {
	if j.block != nil {
		return nil
	}
	if parts, err := j.Has(); err != nil || uint64(len(parts)) != total {
		return errors.Join(err, fmt.Errorf("%w: %d of %d parts of shard %d", ErrNotYet, len(parts), total, j.id))
	}
	if j.e.store.Tip().Folded.Height <= j.at.Height {
		return fmt.Errorf("%w: block %d is not folded", ErrNotYet, j.at.Height)
	}
	root, err := j.e.importTrie(j.at, j.layout, int(j.index), j.Root())
	if err != nil {
		return fmt.Errorf("engine: parts of shard %d: %w", j.id, err)
	}
	root.Release()
	if err := j.e.store.EnterShard(j.id, nil); err != nil {
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
	if err := j.resume(x); err != nil || !j.e.o.Snapshots {
		return err
	}
	return j.snapshot()
}

// makeSnapshots keeps the state with which the shard comes in as a snapshot, for who needs it next: later all that has changed since is to be taken back for that, which may be too much.
func (j *ShardCatchup) snapshot() error {
	if _, there := j.e.snapshotOf(j.at.Hash, j.index); there {
		return nil
	}
	made, err := j.e.storeSnapshot(&storage.StateSnapshot{Shard: j.id, Index: j.index, At: j.at, Of: j.point, Root: j.Root(), Accounts: accounts(j.layout, j.index)}, j.shard.root)
	if err != nil || !made {
		return err
	}
	return j.e.readSnapshots()
}

// At is the block after which the shard's state is here.
func (j *ShardCatchup) At() storage.BlockRef {
	if j.block == nil {
		return storage.BlockRef{}
	}
	return ref(j.block)
}

// Next names the folded block whose new chunks CatchUp takes next; false: it is at the folded block, and Finish does the rest.
func (j *ShardCatchup) Next() (storage.BlockRef, bool, error) {
	if j.block == nil {
		return storage.BlockRef{}, false, ErrNotYet
	}
	folded := j.e.store.Tip().Folded
	if j.block.Height() >= folded.Height {
		return storage.BlockRef{}, false, nil
	}
	at, err := j.e.store.NextBlock(j.block.Height() + 1)
	return at, err == nil, err
}

// CatchUp does what the block that Next names did in the shard. chunks are the block's new ones, that of the shard with its transactions,
// those of others that are not held with the proofs of what they bring to it.
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

// commit stores what a block did in the shard.
func (j *ShardCatchup) commit(x *BlockNode, s, before *ShardState, changes []storage.FrontierChange) error {
	out := encodeShards([]ShardState{*s})[0]
	prev := *before
	prev.OutgoingAt = primitives.Hash{} // the receipts that a chunk brings stand with it: who sent them may not be stored with them
	if err := encodeResult(&out, s, &prev, j.e, x.Height()); err != nil {
		return err
	}
	return j.e.store.CommitShard(ref(x), &out, changes)
}

// step applies a block's part in the shard to what its parent left. made are steps that are not stored yet.
func (j *ShardCatchup) step(parent *BlockNode, before *ShardState, x *BlockNode, chunks []*primitives.Chunk, made map[primitives.Hash]*ShardState) (*ShardState, error) {
	if !x.Layout.Equal(j.layout) {
		return nil, fmt.Errorf("%w: behind block %d, while shard %d comes in", ErrReshard, parent.Height(), j.id)
	}
	y, err := j.shardView(x, chunks)
	if err != nil {
		return nil, err
	}
	s := &y.Shards[j.index]
	if s.Chunk != nil {
		if err := chain.ValidateChunk(s.Chunk, before.Extra, before.Outgoing, j.layout, j.e.coding); err != nil {
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

// incoming is what a new chunk of the shard applies: the receipts of its block, then those of the blocks before down to the shard's last
// chunk.
func (j *ShardCatchup) incoming(y, parent *BlockNode, made map[primitives.Hash]*ShardState) ([]*primitives.Receipt, error) {
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
		} else if !s.Held() { // brought in since it was made
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

// Finish brings the shard from the folded block to all above it, on every branch, and the engine holds it from then on. chunks gives
// the new chunks of a block as CatchUp takes them. ErrNotYet: folded blocks are to be caught up with first.
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
	if s := &e.flatHead.Shards[j.index]; s.Held() { // a start has brought it back
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
	for _, x := range order { // now nothing is missing: a fold never comes upon a part of it
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

// quiesce waits for blocks on their way to the disk, and for a fold that runs.
func (e *Engine) quiesce() error {
	if _, err := e.Flush(); err != nil {
		return err
	}
	if e.flatHeadUpdate != nil {
		return e.finishFlatHeadUpdate(e.flatHeadUpdate.wait())
	}
	return nil
}

// release gives up the states that were made in vain.
func (j *ShardCatchup) release(states map[primitives.Hash]*ShardState) {
	for hash, s := range states {
		if s != &j.shard && !j.e.entries[hash].Shards[j.index].Held() {
			s.root.Release()
		}
	}
}

// descendsFrom are the blocks above the folded one, parents first.
func (j *ShardCatchup) nodesAboveFlatHead() (order []*BlockNode, err error) {
	for _, x := range j.e.entries {
		if x.evicted || !x.Layout.Equal(j.layout) {
			return nil, fmt.Errorf("%w: finality is far behind, or the shards change", ErrNotYet)
		}
		if x != j.e.flatHead {
			order = append(order, x)
		}
	}
	slices.SortFunc(order, func(a, b *BlockNode) int { return cmp.Compare(a.Height(), b.Height()) })
	return order, nil
}

// install replaces the entries by such that hold the shard.
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
	e.stateSnapshots.begun = false // the next fold makes the shard's part of those that there are; none is under way
}

// with is the same block with another state of a shard. Who reads the old one goes on with it: the new one holds it.
func (x *BlockNode) with(index primitives.ShardIndex, s ShardState) *BlockNode {
	y := &BlockNode{Block: x.Block, Hash: x.Hash, Layout: x.Layout, Config: x.Config, Tree: x.Tree, Shards: append([]ShardState{}, x.Shards...),
		finalHeight: x.finalHeight, descendsFrom: x.descendsFrom, replaces: x}
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

// replaceNodes puts others in the place of entries; nil: that one stays. No block is on its way to the disk, and no fold runs.
func (e *Engine) replaceNodes(by func(*BlockNode) *BlockNode) {
	e.EndRevertPoints() // of entries as they were
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

// drop gives up what is held of a shard that does not come in.
func (j *ShardCatchup) drop() {
	if j.block != nil && j.shard.root != nil {
		j.shard.root.Release()
	}
	j.block = nil
}
