package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ErrExecutedBlock means that an ExecutedBlock is malformed or contradicts its block.
var ErrExecutedBlock = errors.New("engine: the writer's record of an executed block is inconsistent")

// ExecutedBlock is a block with the results of applying it. The writer, a second engine that runs
// the same chain and tracks all shards, has computed the results. An engine that imports an
// ExecutedBlock executes nothing: the engine writes the changes to its state and compares the state
// roots.
type ExecutedBlock struct {
	Block  *primitives.Block
	Ref    storage.BlockRef
	chunks []*primitives.Chunk // new chunks by shard index; nil: the shard has none
	shards []executedShard
	patch  []genesis.Record
	mocks  *primitives.Mocks
}

type executedShard struct {
	result  apply.Result // result of applying the chunk; its field Trie is nil
	extra   chain.ChunkExtra
	changes []trie.Change
}

// ReadExecutedBlock decodes a stored block. Errors wrap ErrExecutedBlock. Safe for concurrent use.
func ReadExecutedBlock(b *storage.Block) (*ExecutedBlock, error) {
	g, err := readExecuted(b)
	if err != nil {
		return nil, fmt.Errorf("%w: block %v: %w", ErrExecutedBlock, b.Ref, err)
	}
	return g, nil
}

func readExecuted(b *storage.Block) (g *ExecutedBlock, err error) {
	g = &ExecutedBlock{Block: &primitives.Block{Header: new(primitives.BlockHeader)}, Ref: b.Ref}
	if err := borsh.Unmarshal(b.Header, g.Block.Header); err != nil {
		return nil, err
	}
	if err := borsh.Unmarshal(b.Body, &g.Block.Body); err != nil {
		return nil, err
	}
	h := g.Block.Header
	switch {
	case g.Block.Hash() != b.Ref.Hash || h.Height != b.Ref.Height:
		return nil, errors.New("the block's header does not match its height and hash")
	case h.PrevHash != b.Prev.Hash:
		return nil, errors.New("the parent in the record is not the parent in the block's header")
	case len(b.Shards) != len(g.Block.Body.Chunks):
		return nil, fmt.Errorf("the record has %d shards, expected %d, one for each chunk header", len(b.Shards), len(g.Block.Body.Chunks))
	}
	if len(b.Patch) > 0 {
		if g.patch, g.mocks, err = parsePatch(b.Patch); err != nil {
			return nil, err
		}
	}
	g.chunks, g.shards = make([]*primitives.Chunk, len(b.Shards)), make([]executedShard, len(b.Shards))
	for i := range b.Shards {
		if b.Shards[i].Extra == nil {
			return nil, fmt.Errorf("the record has no state changes of shard %d: the writer must track all shards", b.Shards[i].ID)
		}
		if g.chunks[i], err = executedChunk(&b.Shards[i]); err == nil {
			err = g.shards[i].read(&b.Shards[i])
		}
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", b.Shards[i].ID, err)
		}
	}
	return g, nil
}

// executedChunk decodes a new chunk without its receipts. The engine takes the receipts from its
// own result for the shard's previous chunk. executedChunk returns nil if the shard has no new
// chunk.
func executedChunk(s *storage.Shard) (*primitives.Chunk, error) {
	if s.Chunk == nil {
		return nil, nil
	}
	c := &primitives.Chunk{Hash: s.Chunk.Hash}
	c.Transactions = make([]*primitives.SignedTransaction, len(s.Chunk.Transactions))
	if err := borsh.Unmarshal(s.Chunk.Header, &c.Header); err != nil {
		return nil, err
	}
	for i := range s.Chunk.Transactions {
		c.Transactions[i] = new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(s.Chunk.Transactions[i].Value, c.Transactions[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (g *executedShard) read(s *storage.Shard) error {
	if err := borsh.Unmarshal(s.Extra, &g.extra); err != nil {
		return err
	}
	r, x := &g.result, &g.extra
	r.OutcomeRoot, r.GasUsed, r.BalanceBurnt, r.Proposals = x.OutcomeRoot, x.GasUsed, x.BalanceBurnt, x.Proposals
	r.Congestion, r.BandwidthRequests, r.ProposedSplit = x.CongestionInfo, x.BandwidthRequests, x.ProposedSplit
	r.Outcomes = make([]primitives.OutcomeWithID, len(s.Outcomes))
	for i := range s.Outcomes {
		r.Outcomes[i].ID = s.Outcomes[i].ID
		if err := borsh.Unmarshal(s.Outcomes[i].Value, &r.Outcomes[i].Outcome); err != nil {
			return fmt.Errorf("outcome %v: %w", s.Outcomes[i].ID, err)
		}
	}
	if s.Chunk == nil && len(s.Outcomes) > 0 {
		return fmt.Errorf("the record has %d outcomes, must have 0 for a shard without a new chunk", len(s.Outcomes))
	}
	if s.Chunk != nil && apply.OutcomeRoot(r.Outcomes) != x.OutcomeRoot {
		return fmt.Errorf("the outcomes do not hash to outcome root %v", x.OutcomeRoot)
	}
	var err error
	if r.Outgoing, err = executedReceipts(s.Outgoing); err != nil {
		return err
	}
	for _, list := range []struct {
		receipts []storage.Receipt
		source   apply.Source
	}{{s.Local, apply.SourceLocal}, {s.Delayed, apply.SourceDelayed}} {
		processed, err := executedReceipts(list.receipts)
		if err != nil {
			return err
		}
		for _, receipt := range processed {
			r.Processed = append(r.Processed, apply.Processed{Receipt: receipt, Source: list.source})
		}
	}
	for _, o := range s.Origins {
		r.Origins = append(r.Origins, apply.Origin(o))
	}
	r.Changes, g.changes = make([]primitives.KeyChanges, len(s.Changes)), make([]trie.Change, len(s.Changes))
	for i := range s.Changes {
		r.Changes[i] = s.Changes[i].KeyChanges
		g.changes[i] = trie.Change{Key: s.Changes[i].Key, Value: s.Changes[i].Last()}
	}
	return nil
}

func executedReceipts(list []storage.Receipt) ([]*primitives.Receipt, error) {
	var out []*primitives.Receipt
	for i := range list {
		x := new(primitives.Receipt)
		if err := borsh.Unmarshal(list[i].Value, x); err != nil {
			return nil, fmt.Errorf("receipt %v: %w", list[i].ID, err)
		}
		if x.ID != list[i].ID {
			return nil, fmt.Errorf("the record stores receipt %v under id %v", x.ID, list[i].ID)
		}
		out = append(out, x)
	}
	return out, nil
}

// BeginExecuted validates an executed block like BeginImport validates a peer's block. The jobs
// then write the block's changes instead of executing its chunks.
func (e *Engine) BeginExecuted(g *ExecutedBlock) (*BlockImport, error) {
	p, err := e.BeginImport(g.Block, g.chunks, false)
	if err != nil {
		return nil, err
	}
	p.patch, p.mocks = g.patch, g.mocks
	for i := range p.jobs {
		p.jobs[i].executed = &g.shards[i]
		c := p.entry.Shards[i].Chunk
		if c == nil {
			continue
		}
		// BeginImport has checked the chunk's hash. The hash does not cover HeightIncluded: in the
		// writer's header it is 0 if the writer stored the header as it was before the block
		// included the chunk. Keep the writer's value.
		h := &g.chunks[i].Header
		if h.Signature != c.Header.Signature || h.HeightIncluded != 0 && h.HeightIncluded != c.Header.HeightIncluded {
			p.Drop()
			return nil, fmt.Errorf("%w: the header of chunk %v does not match that in block %d", ErrExecutedBlock, c.Hash, g.Ref.Height)
		}
		c.Header.HeightIncluded = h.HeightIncluded
	}
	return p, nil
}

// Err returns the error of the first job that failed, or nil.
func (p *BlockImport) Err() error {
	for i := range p.jobs {
		if err := p.jobs[i].err; err != nil {
			return fmt.Errorf("shard %d of block %d: %w", p.jobs[i].ID, p.entry.Height(), err)
		}
	}
	return nil
}

// applyExecuted writes the changes of the executed block instead of applying the chunk.
func (j *Job) applyExecuted() error {
	g := j.executed
	if j.input.NewChunk && g.extra.GasLimit != j.input.GasLimit {
		return fmt.Errorf("%w: the record states gas limit %d, expected %d, the gas limit of the chunk", ErrExecutedBlock,
			g.extra.GasLimit, j.input.GasLimit)
	}
	before := rootOf(j.input.Trie)
	r := g.result
	r.Olds = make([]state.OldValue, len(r.Changes)) // zero: encodeResult reads the old values from the parent state
	after, err := before.Forest().Update(before, g.changes, nil)
	if err != nil {
		return err
	}
	if after.Hash() != g.extra.StateRoot {
		after.Release()
		return fmt.Errorf(
			"%w: the record states state root %v, but its changes lead to %v",
			ErrExecutedBlock,
			g.extra.StateRoot,
			after.Hash(),
		)
	}
	r.Trie = rooted(after)
	j.result = &r
	return nil
}
