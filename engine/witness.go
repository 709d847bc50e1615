package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Witness is a chunk state witness with the contract data that the chunk's producer sends in other
// messages.
type Witness struct {
	*primitives.ChunkStateWitness
	Transition primitives.TransitionKey // identifies the main transition
	Accesses   []primitives.Hash        // hashes of the called contracts, in no particular order
	Deploys    [][]byte                 // code that the main transition deployed; nil: that code is no longer in memory
}

// Witness builds the state witness of the chunk c, whose parent must be known (nearcore
// chain/chain/src/stateless_validation/state_witness.rs create_state_witness). This node must hold
// the chunk's shard. Errors are those of Transition. Safe for concurrent use.
func (e *Engine) Witness(c *primitives.Chunk) (*Witness, error) {
	h := &c.Header
	main, implicit, err := e.Transitions(h.PrevBlockHash, h.ShardID)
	if err != nil {
		return nil, err
	}
	s, err := newSpan(e, h.PrevBlockHash, h.ShardID)
	if err != nil {
		return nil, err
	}
	if s.last.Hash != main.Block || s.shard != main.Shard {
		return nil, fmt.Errorf(
			"engine: witness: the main transition of shard %d is that of block %v, expected block %v, which has the last chunk",
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

// toStateTransition returns t in the form that a witness contains.
func toStateTransition(t *Transition) primitives.StateTransition {
	return primitives.StateTransition{Block: t.Block, Base: t.Proof, PostState: t.Post}
}

// deployed returns the code that changes deploy to accounts. deployed omits global contracts,
// because every shard receives them (nearcore runtime/runtime/src/actions.rs:295).
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

// span is the range of blocks that a chunk's witness covers. The range extends from the chunk's
// parent backwards.
type span struct {
	epoch  primitives.EpochID     // the chunk's epoch
	layout primitives.ShardLayout // the chunk's layout
	prev   *BlockNode             // the chunk's parent
	steps  []spanStep             // implicit transitions, oldest first
	last   *BlockNode             // block with the shard's newest chunk
	shard  primitives.ShardID     // id of the shard in the layout of last
	index  primitives.ShardIndex
	// sources are the blocks whose new chunks sent the receipts that the newest chunk executed,
	// newest first. The first source is the block last.
	sources []receiptSource
}

// spanStep is one implicit transition: a block in which the shard has no new chunk, or a split
// after a block.
type spanStep struct {
	split bool
	at    *BlockNode
	shard primitives.ShardID // for a split: the child shard
}

// receiptSource is a block and the witness's shard in that block. to is the shard's id in that
// block's layout.
type receiptSource struct {
	at *BlockNode
	to primitives.ShardID
}

func (s *span) genesis() bool { return s.last.Header().PrevHash.IsZero() }

// spanChain has the blocks and epochs that newSpan reads.
type spanChain interface {
	Block(hash primitives.Hash) (*BlockNode, error)
	Epochs(f func(*epoch.Manager) error) error
}

// newSpan returns the range of blocks that the witness of a chunk on the block prev covers. The
// range goes back from prev to the shard's newest chunk, and from there to the shard's previous
// chunk (nearcore chain/chain/src/stateless_validation/chunk_validation.rs
// get_state_witness_block_range). newSpan needs no states.
func newSpan(on spanChain, prev primitives.Hash, shard primitives.ShardID) (*span, error) {
	at, err := on.Block(prev)
	if err != nil {
		return nil, err
	}
	s := &span{prev: at}
	err = on.Epochs(func(m *epoch.Manager) error {
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
		if at, err = on.Block(at.Header().PrevHash); err != nil {
			return nil, err
		}
	}
}

// shardIn returns the id and index of a shard in the block `at`. layout is the layout of the shard.
// If the shard was split off after that block, shardIn returns the parent shard.
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

// prove adds the receipt proofs of the new chunks in src.at to a witness.
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
				"%w: witness: receipts of shard %d in block %d for shard %d",
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
