package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// After the flat head has advanced, the transitions up to the flat head can no longer be computed.
// If a shard has no chunk in the block after the flat head, the shard's next chunk may still need
// these transitions. Before each advance the engine writes these transitions to one row. If no
// transitions are needed, the engine removes the row. So after a restart all transitions are
// available: the engine reads the stored transitions, and computes the transitions after the flat
// head.

// transitionsRow is the name of the row with the saved transitions.
const transitionsRow = "transitions"

// maxSavedTransitions bounds the size of the row in bytes, even if more transitions are in memory.
// A record of the log has at most 1 GiB, and a failed write of the row would stop the node.
const maxSavedTransitions = 512 << 20

// wants returns whether to keep the transition of a shard in a child of parent. id is the child's
// epoch. Without Options.ProofsFor, wants returns true if the cache keeps anything. Otherwise wants
// returns true if the account Options.ProofsFor produces chunks of the shard in this epoch or the
// next, and that epoch has more than one validator. The caller holds epochMu.
func (p *witnessCache) wants(
	m *epoch.Manager,
	id primitives.EpochID,
	parent primitives.Hash,
	shard primitives.ShardID,
) bool {
	if p.limit == 0 {
		return false
	}
	account := p.account
	if account == "" {
		return true
	}
	if hasOtherValidators(m, id) {
		if cares, err := m.CaresAboutShard(id, account, shard); err == nil && cares {
			return true
		}
	}
	next, err := m.NextEpochIDFromPrev(parent)
	if err != nil || !hasOtherValidators(m, next) {
		return false
	}
	cares, err := m.CaresAboutShardNextEpoch(parent, account, shard)
	return err == nil && cares
}

// hasOtherValidators returns whether an epoch has more than one validator.
func hasOtherValidators(m *epoch.Manager, id primitives.EpochID) bool {
	info, err := m.EpochInfo(id)
	return err == nil && len(info.Validators) > 1
}

// save stores the transitions that cannot be computed after the flat head has advanced to the block
// `to`. save runs before the advance, concurrently with the engine's goroutine. It omits
// transitions beyond the limit and transitions that cannot be computed. A request for an omitted
// transition fails.
func (p *witnessCache) save(to *BlockNode) error {
	list := p.toSave(to)
	if len(list) == 0 && !p.saved.Load() {
		return nil
	}
	var batch storage.Batch
	if len(list) == 0 {
		storage.Misc.Delete(&batch, transitionsRow)
	} else {
		row := storage.Raw(appendTransitions(nil, list))
		storage.Misc.Put(&batch, transitionsRow, &row)
	}
	if err := p.store.Write(&batch); err != nil {
		return fmt.Errorf("engine: save transitions up to block %d: %w", to.Height(), err)
	}
	p.saved.Store(len(list) > 0)
	return nil
}

// toSave returns the transitions at or below the block `to`, the next flat head, that chunks after
// that block may need.
func (p *witnessCache) toSave(to *BlockNode) (list []*Transition) {
	if p.limit == 0 {
		return nil
	}
	seen, size, limit := map[*Transition]bool{}, int64(0), min(p.limit, maxSavedTransitions)
	for _, id := range p.shardsWithoutChunk(to) {
		main, implicit, err := p.chain.Transitions(to.Hash, id)
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
// at least one child of the block `to`. If the block has no child yet, shardsWithoutChunk returns
// all shards whose transitions are wanted.
func (p *witnessCache) shardsWithoutChunk(to *BlockNode) (out []primitives.ShardID) {
	children := p.chain.childrenOf(to.Hash)
	_ = p.chain.Epochs(func(m *epoch.Manager) error { // without the epoch, no transition is wanted
		layout, err := m.ShardLayoutFromPrev(to.Hash)
		if err != nil {
			return err
		}
		id, err := m.EpochIDFromPrev(to.Hash)
		if err != nil {
			return err
		}
		for i, shard := range layout.ShardIDs() {
			missed := len(children) == 0
			for _, c := range children {
				missed = missed || c.Block.Body.Chunks[i].HeightIncluded != c.Height()
			}
			if missed && p.wants(m, id, to.Hash, shard) {
				out = append(out, shard)
			}
		}
		return nil
	})
	return out
}

// load puts the saved transitions into the cache.
func (p *witnessCache) load() error {
	raw, err := storage.Misc.Get(p.store.Reader(), transitionsRow)
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
	p.saved.Store(true)
	for _, t := range list {
		p.keep(t)
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
