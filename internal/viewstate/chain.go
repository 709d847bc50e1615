package viewstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// ChainRequest selects a block to print.
type ChainRequest struct {
	Height *primitives.Height `json:"height,omitempty"` // nil: the head
	Block  bool               `json:"block,omitempty"`  // print the block
	Chunks bool               `json:"chunk,omitempty"`  // print its new chunks
}

// viewChain prints a block's place in the chain, its shard layout, and what its chunks led to.
func viewChain(s *Source, r *ChainRequest, out Out) error {
	ref := view.BlockRef{Kind: view.RefOptimistic}
	if r.Height != nil {
		ref = view.BlockRef{Kind: view.RefHeight, Height: *r.Height}
	}
	author, b, err := s.Blocks.Block(context.Background(), ref)
	if err != nil {
		return noBlock(s, err)
	}
	hash, h := b.Hash(), b.Header
	if r.Height == nil {
		tip := struct {
			Height primitives.Height `json:"height"`
			Last   primitives.Hash   `json:"last_block_hash"`
			Prev   primitives.Hash   `json:"prev_block_hash"`
			Epoch  primitives.Hash   `json:"epoch_id"`
			Next   primitives.Hash   `json:"next_epoch_id"`
		}{h.Height, hash, h.PrevHash, h.EpochID, h.NextEpochID}
		if err := printJSON(out, "head: ", tip); err != nil {
			return err
		}
	} else if err := out.Line(fmt.Sprintf("block height %d, hash %v", h.Height, hash)); err != nil {
		return err
	}
	var layout primitives.ShardLayout
	if err := s.Engine.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayout(h.EpochID)
		return err
	}); err != nil {
		return err
	}
	if err := printJSON(out, "shard layout: ", layout); err != nil {
		return err
	}
	rec, err := s.Engine.Store().BlockByHash(hash)
	if err != nil {
		return err
	}
	ids := layout.ShardIDs()
	fresh := func(i int) bool { return b.Body.Chunks[i].HeightIncluded == h.Height }
	for i, id := range ids {
		if !fresh(i) {
			continue
		}
		x, err := extraOf(rec, id)
		if err != nil {
			return err
		}
		text := "not stored"
		if x != nil {
			text = extraText(x)
		}
		if err := out.Line(fmt.Sprintf("shard %d, chunk extra: %s", id, text)); err != nil {
			return err
		}
	}
	if r.Block {
		if err := out.Line("last block: " + string(view.AppendBlock(nil, author, b))); err != nil {
			return err
		}
	}
	if !r.Chunks {
		return nil
	}
	for i, id := range ids {
		if !fresh(i) {
			continue
		}
		text := "not stored"
		author, c, err := s.Blocks.Chunk(context.Background(), view.ChunkRef{ByHash: true, Hash: b.Body.Chunks[i].ChunkHash()})
		if err == nil {
			text = string(view.AppendChunk(nil, author, c))
		} else if !errors.As(err, new(*view.LookupError)) {
			return err
		}
		if err := out.Line(fmt.Sprintf("shard %d, chunk: %s", id, text)); err != nil {
			return err
		}
	}
	return nil
}

// noBlock adds to the error of an unknown block which blocks there are.
func noBlock(s *Source, err error) error {
	if !errors.As(err, new(*view.LookupError)) {
		return err
	}
	store := s.Engine.Store()
	return fmt.Errorf("%w; the folder has blocks from %d to %d", err, store.Tip().Tail, s.Engine.Head().Height())
}

// extraOf returns a shard's chunk extra after a block; nil: the shard is not tracked.
func extraOf(rec *storage.Record, id primitives.ShardID) (*chain.ChunkExtra, error) {
	raw, err := rec.Extra(id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x := new(chain.ChunkExtra)
	return x, borsh.Unmarshal(raw, x)
}

// extraText is the JSON of a chunk extra.
func extraText(x *chain.ChunkExtra) string {
	text, err := json.Marshal(struct {
		State     primitives.Hash `json:"state_root"`
		Outcomes  primitives.Hash `json:"outcome_root"`
		Proposals int             `json:"validator_proposals"` // their number
		Used      primitives.Gas  `json:"gas_used"`
		Limit     primitives.Gas  `json:"gas_limit"`
		Burnt     string          `json:"balance_burnt"`
	}{x.StateRoot, x.OutcomeRoot, len(x.Proposals), x.GasUsed, x.GasLimit, x.BalanceBurnt.String()})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func printJSON(out Out, label string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return out.Line(label + string(text))
}
