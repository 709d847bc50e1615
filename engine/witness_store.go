package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// A fold takes away what the transitions up to its block could be made of again. Those that a chunk behind it still has to show are
// those of shards without a chunk in the block behind the folded one: as many as are kept of them stand in one row, which each fold
// writes anew, or removes, before it happens. So what a fold has passed comes back with a start, and what it has not is made again.

// transitionsRow names the row.
const transitionsRow = "transitions"

// maxSavedTransitions is what the row takes at the most, whatever the bound of those in memory: a record of the log is no larger than 1 GiB, and a fold that
// could not write its row would be the node's end.
const maxSavedTransitions = 512 << 20

// wantsProof tells whether somebody asks what proves a shard's part of a block of an epoch on parent: all of it, or with Options.ProofsFor
// the other validators of that epoch or the next, in which the account makes the shard's chunks. The caller holds epochMu.
func (e *Engine) wantsProof(id primitives.EpochID, parent primitives.Hash, shard primitives.ShardID) bool {
	if e.proofs.limit == 0 {
		return false
	}
	account := e.o.ProofsFor
	if account == "" {
		return true
	}
	if e.hasOtherValidators(id) {
		if cares, err := e.epochs.CaresAboutShard(id, account, shard); err == nil && cares {
			return true
		}
	}
	next, err := e.epochs.NextEpochIDFromPrev(parent)
	if err != nil || !e.hasOtherValidators(next) {
		return false
	}
	cares, err := e.epochs.CaresAboutShardNextEpoch(parent, account, shard)
	return err == nil && cares
}

// hasOtherValidators tells whether an epoch has validators to whom chunks are to be proven. The caller holds epochMu.
func (e *Engine) hasOtherValidators(id primitives.EpochID) bool {
	info, err := e.epochs.EpochInfo(id)
	return err == nil && len(info.Validators) > 1
}

// saveProofs writes what a fold would lose. It runs beside the writer, before the fold. What can't be made again is not kept, and what is
// beyond the bound neither: who asks for it later is told so.
func (e *Engine) saveProofs(to *BlockNode) error {
	list := e.transitionsToSave(to)
	if len(list) == 0 && !e.proofs.saved.Load() {
		return nil
	}
	var batch storage.Batch
	if len(list) == 0 {
		storage.Misc.Delete(&batch, transitionsRow)
	} else {
		row := storage.Raw(appendTransitions(nil, list))
		storage.Misc.Put(&batch, transitionsRow, &row)
	}
	if err := e.store.Write(&batch); err != nil {
		return fmt.Errorf("engine: what proves chunks up to block %d: %w", to.Height(), err)
	}
	e.proofs.saved.Store(len(list) > 0)
	return nil
}

// transitionsToSave are the transitions up to a block, which is about to be folded, that chunks behind it have to show.
func (e *Engine) transitionsToSave(to *BlockNode) (list []*Transition) {
	if e.proofs.limit == 0 {
		return nil
	}
	seen, size, limit := map[*Transition]bool{}, int64(0), min(e.proofs.limit, maxSavedTransitions)
	for _, id := range e.shardsWithoutChunk(to) {
		main, implicit, err := e.Transitions(to.Hash, id)
		if err != nil {
			continue
		}
		for _, t := range append([]*Transition{main}, implicit...) {
			if seen[t] || t.Proof == nil || size+t.size() > limit { // of the genesis there is no proof
				continue
			}
			seen[t] = true
			size += t.size()
			list = append(list, t)
		}
	}
	return list
}

// shardsWithoutChunk are the shards that have no new chunk in some child of a block, and whose proofs somebody asks for; all of them if there is no
// child.
func (e *Engine) shardsWithoutChunk(to *BlockNode) (out []primitives.ShardID) {
	var children []*BlockNode
	e.mu.RLock()
	for _, x := range e.entries {
		if x.Header().PrevHash == to.Hash {
			children = append(children, x)
		}
	}
	e.mu.RUnlock()
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	layout, err := e.epochs.ShardLayoutFromPrev(to.Hash)
	if err != nil {
		return nil
	}
	id, err := e.epochs.EpochIDFromPrev(to.Hash)
	if err != nil {
		return nil
	}
	for i, shard := range layout.ShardIDs() {
		missed := len(children) == 0
		for _, c := range children {
			missed = missed || c.Block.Body.Chunks[i].HeightIncluded != c.Height()
		}
		if missed && e.wantsProof(id, to.Hash, shard) {
			out = append(out, shard)
		}
	}
	return out
}

// loadProofs reads what folds have kept.
func (e *Engine) loadProofs() error {
	raw, err := storage.Misc.Get(e.store.Reader(), transitionsRow)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := readTransitions(raw)
	if err != nil {
		return fmt.Errorf("engine: transitions that were kept: %w", err)
	}
	e.proofs.saved.Store(true)
	for _, t := range list {
		e.proofs.keep(t)
	}
	return nil
}

func appendTransitions(b []byte, list []*Transition) []byte {
	b = borsh.AppendLen(b, len(list))
	for _, t := range list {
		b = t.Block.AppendBorsh(append(b, byte(t.Kind)))
		b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(t.Height)), uint64(t.Shard))
		b = t.Receipts.AppendBorsh(t.Post.AppendBorsh(t.Pre.AppendBorsh(b)))
		b = borsh.AppendLen(b, len(t.Proof))
		for _, s := range t.Proof {
			b = borsh.AppendBytes(b, s)
		}
		b = borsh.AppendLen(b, len(t.Codes))
		for _, c := range t.Codes {
			b = borsh.AppendBytes(c.Hash.AppendBorsh(b), c.Key)
		}
	}
	return b
}

func readTransitions(raw []byte) ([]*Transition, error) {
	r := borsh.NewReader(raw)
	list := make([]*Transition, r.Len(1+5*32))
	for i := range list {
		t := &Transition{Kind: TransitionKind(r.Byte()), Block: primitives.ReadHash(r), Height: primitives.Height(r.Uint64()), Shard: primitives.ShardID(r.Uint64())}
		t.Pre, t.Post, t.Receipts = primitives.ReadHash(r), primitives.ReadHash(r), primitives.ReadHash(r)
		if t.Kind > TransitionSplit {
			r.Failf("a transition of kind %d", t.Kind)
		}
		t.Proof = make([][]byte, r.Len(4))
		for k := range t.Proof {
			t.Proof[k] = r.Bytes()
		}
		for range r.Len(32 + 4) {
			t.Codes = append(t.Codes, state.CodeAccess{Hash: primitives.ReadHash(r), Key: r.Bytes()})
		}
		list[i] = t
	}
	return list, r.Close()
}
