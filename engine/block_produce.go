package engine

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// NewChunk builds and signs a shard's next chunk on parent, with the transactions txs in the given
// order.
func (e *Engine) NewChunk(
	parent primitives.Hash,
	shard primitives.ShardIndex,
	txs []*primitives.SignedTransaction,
	key primitives.SecretKey,
) (*primitives.Chunk, error) {
	c, _, err := e.NewCodedChunk(parent, shard, txs, key)
	return c, err
}

// NewCodedChunk does the same as NewChunk. NewCodedChunk also returns the chunk's encoded body and
// receipt proofs, which the producer distributes.
func (e *Engine) NewCodedChunk(
	parent primitives.Hash,
	shard primitives.ShardIndex,
	txs []*primitives.SignedTransaction,
	key primitives.SecretKey,
) (*primitives.Chunk, *chain.EncodedBody, error) {
	p := e.Imported(parent)
	if p == nil || !p.Acquire() {
		return nil, nil, fmt.Errorf("%w: %v", ErrOrphan, parent)
	}
	defer p.Release()
	next, err := e.rulesAfter(p)
	if err != nil {
		return nil, nil, err
	}
	layout := next.layout
	id, err := layout.IDAt(shard)
	if err != nil {
		return nil, nil, err
	}
	inherited, err := e.inherited(p, layout)
	if err != nil {
		return nil, nil, err
	}
	s := &inherited[shard]
	if !s.Held() {
		return nil, nil, fmt.Errorf("%w: shard %d, for which a chunk is to be produced", ErrUntracked, id)
	}
	c, coded, err := chain.BuildChunk(&chain.ChunkInput{
		PrevBlock: parent, Height: p.Height() + 1, ShardID: id, Extra: s.Extra, Outgoing: s.Outgoing,
		Transactions: txs, Layout: layout, Coding: e.coding,
	}, key)
	if err == nil {
		e.ownChunks.add(c.Hash)
		e.validChunks.add(c.Hash)
		e.times.Applied.produced(id, len(txs))
	}
	return c, coded, err
}

// Proposal describes a block to produce.
type Proposal struct {
	Parent       primitives.Hash
	Height       primitives.Height
	Timestamp    uint64                   // ns since 1970; raised to the parent's timestamp plus 1 if it is lower
	Chunks       []*primitives.Chunk      // new chunks by shard index; nil: the chunk is missing
	Endorsements [][]primitives.Signature // by shard index, one for each chunk validator; empty: no endorsement
	Approvals    []primitives.Signature   // one for each approver; empty: no approval
	// Vote is the latest_protocol_version of the header. 0: the version of the upgrade schedule.
	Vote primitives.ProtocolVersion
	// Patch has records that the block writes into the state. Only a sandbox sets Patch. A Patch
	// requires that each shard has a new chunk in the block.
	Patch []genesis.Record
	Mocks *primitives.Mocks // signature checks of contracts that a sandbox mocks in the block; nil: none
}

// NewBlock builds and signs a block. It does not import the block.
func (e *Engine) NewBlock(p *Proposal, key primitives.SecretKey) (*primitives.Block, error) {
	parent := e.Imported(p.Parent)
	if parent == nil {
		return nil, fmt.Errorf("%w: %v", ErrOrphan, p.Parent)
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	headers := make([]*primitives.ChunkHeader, len(p.Chunks))
	endorsements := make([][]primitives.Signature, len(p.Chunks))
	layout, err := e.epochs.ShardLayoutFromPrev(p.Parent)
	if err != nil {
		return nil, err
	}
	if len(p.Chunks) != layout.NumShards() {
		return nil, fmt.Errorf("engine: produce a block: it has %d chunks, must have %d, one for each shard", len(p.Chunks), layout.NumShards())
	}
	for i, c := range p.Chunks {
		if c == nil {
			id, err := layout.IDAt(primitives.ShardIndex(i))
			if err != nil {
				return nil, err
			}
			_, _, index, err := e.epochs.PrevShard(p.Parent, id)
			if err != nil {
				return nil, err
			}
			headers[i] = parent.Block.Body.Chunks[index]
			continue
		}
		h := c.Header // a copy, because another block may include the same chunk
		h.HeightIncluded = p.Height
		headers[i], endorsements[i] = &h, p.Endorsements[i]
	}
	facts, _, err := e.blockFacts(parent, p.Height, headers)
	if err != nil {
		return nil, err
	}
	value, proof, err := e.proveVRF(parent.Header().RandomValue, key)
	if err != nil {
		return nil, err
	}
	timestamp := max(p.Timestamp, parent.Header().Timestamp+1)
	vote := p.Vote
	if vote == 0 {
		next, err := e.epochs.ProtocolVersion(facts.NextEpochID)
		if err != nil {
			return nil, err
		}
		vote = e.o.Upgrades.Vote(timestamp, next)
	}
	b, err := chain.BuildBlock(&chain.BlockInput{
		BlockFacts: facts, Parent: parent.Header(), Height: p.Height, Timestamp: timestamp,
		Chunks: headers, ChunkEndorsements: endorsements, Approvals: p.Approvals,
		VRFValue: value, VRFProof: proof, Vote: vote,
	})
	if err != nil {
		return nil, err
	}
	chain.SignBlock(b, key)
	if len(p.Patch) > 0 && slices.Contains(p.Chunks, nil) {
		return nil, fmt.Errorf("engine: produce block %d: a block with a state patch must have new chunks of all shards", p.Height)
	}
	if len(p.Patch) > 0 || p.Mocks.Any() {
		e.patch = pendingPatch{b.Hash(), p.Patch, p.Mocks}
	}
	e.precomputeVRF(b, key)
	return b, nil
}
