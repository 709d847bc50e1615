package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// After the flat head has advanced, the transitions up to it can no longer be computed. If a shard
// has no chunk in the block after the flat head, a later chunk may still need the shard's
// transitions. Before each advance these transitions are written to one row. If there are none, the
// row is removed. So after a restart all transitions are available: the stored ones are read, and
// later ones are computed.

// transitionsRow is the name of the row with the saved transitions.
const transitionsRow = "transitions"

// maxSavedTransitions bounds the size of the row in bytes, even if more transitions are in memory.
// A record of the log has at most 1 GiB, and a failed write of the row would stop the node.
const maxSavedTransitions = 512 << 20

// wantsProof returns whether to keep the transition of a shard in a child of parent. id is the
// child's epoch. Without Options.ProofsFor it returns true. Otherwise it returns true if that
// account produces chunks of the shard in this epoch or the next, and that epoch has other
// validators. The caller holds epochMu.
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

// hasOtherValidators returns whether an epoch has more than one validator. The caller holds
// epochMu.
func (e *Engine) hasOtherValidators(id primitives.EpochID) bool {
	info, err := e.epochs.EpochInfo(id)
	return err == nil && len(info.Validators) > 1
}

// saveProofs stores the transitions that cannot be computed after the flat head has advanced to the
// block `to`. It runs before the advance, concurrently with the engine's goroutine. It omits
// transitions beyond the limit and those that cannot be computed. A later request for an omitted
// transition fails.
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
		return fmt.Errorf("engine: save transitions up to block %d: %w", to.Height(), err)
	}
	e.proofs.saved.Store(len(list) > 0)
	return nil
}

// transitionsToSave returns the transitions at or below the block `to`, the next flat head, that
// later chunks may need.
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
			if seen[t] || t.Proof == nil || size+t.size() > limit { // the transition of the genesis has no proof
				continue
			}
			seen[t] = true
			size += t.size()
			list = append(list, t)
		}
	}
	return list
}

// shardsWithoutChunk returns the shards whose transitions are wanted and that have no new chunk in
// at least one child of the block `to`. If the block has no child yet, it returns all shards whose
// transitions are wanted.
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

// loadProofs puts the saved transitions into the cache.
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
		return fmt.Errorf("engine: load the saved transitions: %w", err)
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
		t := &Transition{
			Kind:   TransitionKind(r.Byte()),
			Block:  primitives.ReadHash(r),
			Height: primitives.Height(r.Uint64()),
			Shard:  primitives.ShardID(r.Uint64()),
		}
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
