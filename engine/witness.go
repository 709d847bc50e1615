package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Witness is a chunk state witness together with the contracts that go separately to the chunk's
// validators.
type Witness struct {
	*primitives.ChunkStateWitness
	Transition primitives.TransitionKey // of the main transition
	Accesses   []primitives.Hash        // hashes of the called contracts, in no order
	Deploys    [][]byte                 // deployed code, if it is still in memory
}

// Witness builds the witness of a chunk on a known block (nearcore
// chain/chain/src/stateless_validation/state_witness.rs create_state_witness). The chunk's shard
// must be held. Errors are those of Transition. Safe for concurrent use.
func (e *Engine) Witness(c *primitives.Chunk) (*Witness, error) {
	h := &c.Header
	main, implicit, err := e.Transitions(h.PrevBlockHash, h.ShardID)
	if err != nil {
		return nil, err
	}
	s, err := e.span(h.PrevBlockHash, h.ShardID)
	if err != nil {
		return nil, err
	}
	if s.last.Hash != main.Block || s.shard != main.Shard {
		return nil, fmt.Errorf(
			"engine: the main transition of shard %d is in block %v, not %v",
			main.Shard,
			main.Block,
			s.last.Hash,
		)
	}
	w := &primitives.ChunkStateWitness{
		EpochID:         s.epoch,
		Header:          *h,
		Main:            toStateTransition(main),
		AppliedReceipts: main.Receipts,
		NewTransactions: c.Transactions,
	}
	w.Header.HeightIncluded = 0
	for _, t := range implicit {
		w.Implicit = append(w.Implicit, toStateTransition(t))
	}
	out := &Witness{ChunkStateWitness: w, Transition: primitives.TransitionKey{Block: main.Block, ShardID: main.Shard}}
	if s.genesis() {
		return out, nil
	}
	last := &s.last.Shards[s.index]
	w.Transactions = last.Chunk.Transactions
	for _, src := range s.sources {
		if err := src.prove(w); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.Sources, func(a, b primitives.SourceProof) int { return a.Chunk.Compare(b.Chunk) })
	for _, code := range main.Codes {
		out.Accesses = append(out.Accesses, code.Hash)
	}
	if last.Result != nil {
		out.Deploys = deployed(last.Result.Changes)
	}
	return out, nil
}

// toStateTransition returns a transition in the form of a witness.
func toStateTransition(t *Transition) primitives.StateTransition {
	return primitives.StateTransition{Block: t.Block, Base: t.Proof, PostState: t.Post}
}

// deployed returns the accounts' contracts among changes. Global contracts are not announced: every
// shard receives them (nearcore runtime/runtime/src/actions.rs:295).
func deployed(changes []primitives.KeyChanges) (out [][]byte) {
	for i := range changes {
		key := changes[i].Key
		if len(key) == 0 || key[0] != byte(primitives.ColContractCode) {
			continue
		}
		for _, x := range changes[i].Changes {
			if x.Value != nil && !slices.ContainsFunc(out, func(o []byte) bool { return bytes.Equal(o, x.Value) }) {
				out = append(out, x.Value)
			}
		}
	}
	return out
}

// span is the range of blocks that a chunk's witness covers.
type span struct {
	epoch  primitives.EpochID     // of the chunk
	layout primitives.ShardLayout // of the chunk
	prev   *BlockNode             // the chunk's parent
	steps  []spanStep             // implicit transitions, oldest first
	last   *BlockNode             // the block with the shard's last new chunk
	shard  primitives.ShardID     // the shard's id in last
	index  primitives.ShardIndex
	// sources are the blocks with the new chunks that brought the receipts of that last chunk,
	// newest first, starting with last.
	sources []receiptSource
}

// spanStep is one implicit transition: a block without a new chunk, or a split after a block.
type spanStep struct {
	split bool
	at    *BlockNode
	shard primitives.ShardID // for a split: the child
}

// receiptSource is a block and the id of the witness's shard in its layout.
type receiptSource struct {
	at *BlockNode
	to primitives.ShardID
}

func (s *span) genesis() bool { return s.last.Header().PrevHash.IsZero() }

// span walks from a chunk's parent back over the shard's last new chunk to the one before (nearcore
// chain/chain/src/stateless_validation/chunk_validation.rs get_state_witness_block_range). It needs
// no state.
func (e *Engine) span(prev primitives.Hash, shard primitives.ShardID) (*span, error) {
	at, err := e.Block(prev)
	if err != nil {
		return nil, err
	}
	s := &span{prev: at}
	err = e.Epochs(func(m *epoch.Manager) error {
		if s.epoch, err = m.EpochIDFromPrev(prev); err != nil {
			return err
		}
		s.layout, err = m.ShardLayout(s.epoch)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !s.layout.Has(shard) {
		return nil, fmt.Errorf("%w: shard %d after block %d", chain.InvalidShardID, shard, at.Height())
	}
	for layout, seen := s.layout, 0; ; {
		before, index, err := shardIn(at, layout, shard)
		if err != nil {
			return nil, err
		}
		if seen == 0 && before != shard {
			s.steps = append(s.steps, spanStep{split: true, at: at, shard: shard})
		}
		fresh := at.Block.Body.Chunks[index].HeightIncluded == at.Height()
		switch {
		case fresh && seen == 1:
			slices.Reverse(s.steps)
			return s, nil
		case fresh:
			seen, s.last, s.shard, s.index = 1, at, before, index
			s.sources = append(s.sources, receiptSource{at, before})
		case seen == 1:
			s.sources = append(s.sources, receiptSource{at, before})
		default:
			s.steps = append(s.steps, spanStep{at: at, shard: before})
		}
		if at.Header().PrevHash.IsZero() {
			if seen == 0 {
				return nil, fmt.Errorf("%w: shard %d has no chunk in the genesis", ErrInconsistent, before)
			}
			slices.Reverse(s.steps)
			return s, nil
		}
		shard, layout = before, at.Layout
		if at, err = e.Block(at.Header().PrevHash); err != nil {
			return nil, err
		}
	}
}

// shardIn returns the id and index in block at of the shard that later became shard of layout.
func shardIn(
	at *BlockNode,
	layout primitives.ShardLayout,
	shard primitives.ShardID,
) (primitives.ShardID, primitives.ShardIndex, error) {
	if !at.Layout.Equal(layout) {
		var err error
		if shard, err = layout.Parent(shard); err != nil {
			return 0, 0, err
		}
	}
	index, err := at.Layout.Index(shard)
	return shard, index, err
}

// prove adds the receipt proofs of a block's new chunks to a witness.
func (src *receiptSource) prove(w *primitives.ChunkStateWitness) error {
	for i := range src.at.Shards {
		s := &src.at.Shards[i]
		if s.Chunk == nil {
			continue
		}
		p := chain.ProofTo(s.Chunk, src.to)
		if p == nil && s.Chunk.Proofs == nil {
			to, err := src.at.Layout.Index(src.to)
			if err != nil {
				return err
			}
			p = &chain.ProveReceipts(s.ID, s.Chunk.PrevOutgoingReceipts, src.at.Layout)[to]
		}
		if p == nil {
			return fmt.Errorf(
				"%w: receipts of the chunk of shard %d of block %d for shard %d",
				ErrMissing,
				s.ID,
				src.at.Height(),
				src.to,
			)
		}
		w.Sources = append(w.Sources, primitives.SourceProof{Chunk: s.Chunk.Hash, ReceiptProof: *p})
	}
	return nil
}
