package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// Queries that answer peers' requests, and queries for this node's own requests to peers. All these
// queries are safe for concurrent use.

// WholeBlock returns the header and body of a block on any branch. It returns storage.ErrNotFound
// or storage.ErrGone if there is no such block.
func (e *Engine) WholeBlock(hash primitives.Hash) (*primitives.Block, error) {
	if x := e.BlockNode(hash); x != nil {
		return x.Block, nil
	}
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return nil, err
	}
	b := &primitives.Block{}
	if b.Header, err = headerOf(rec); err != nil {
		return nil, err
	}
	raw, err := rec.Body()
	if err != nil {
		return nil, err
	}
	return b, borsh.Unmarshal(raw, &b.Body)
}

func headerOf(rec *storage.Record) (*primitives.BlockHeader, error) {
	raw, err := rec.Header()
	if err != nil {
		return nil, err
	}
	h := new(primitives.BlockHeader)
	return h, borsh.Unmarshal(raw, h)
}

// HeadersAfter returns at most max headers of the canonical chain, ascending by height. The headers
// follow the first hash in locator that is on that chain. HeadersAfter returns no headers if no
// hash in locator is on the chain.
func (e *Engine) HeadersAfter(locator []primitives.Hash, max int) (out []*primitives.BlockHeader, err error) {
	for _, hash := range locator {
		ref, err := e.Ref(hash)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !e.Canonical(ref) {
			continue
		}
		for len(out) < max {
			next, err := e.store.NextBlock(ref.Height + 1)
			if errors.Is(err, storage.ErrNotFound) {
				return out, nil
			}
			if err != nil {
				return nil, err
			}
			h, err := e.Header(next.Hash)
			if err != nil {
				return nil, err
			}
			if len(out) > 0 && h.PrevHash != ref.Hash { // the chain has changed during this loop
				return out, nil
			}
			out, ref = append(out, h), next
		}
		return out, nil
	}
	return nil, nil
}

// FindChunk returns the stored chunk with this hash; It returns nil if the store lacks the chunk or
// the chunk cannot be read.
func (e *Engine) FindChunk(hash primitives.Hash) *primitives.Chunk {
	places, err := e.store.Find().Chunk(hash)
	if err != nil {
		return nil
	}
	for _, p := range places {
		if c, err := LoadChunk(p.Block, p.Shard); err == nil {
			return c
		}
	}
	return nil
}

// Locator returns at most max block hashes, in descending order of height, with steps that double
// in length. The hashes lead from the top of path to the genesis; if path is empty, from the tip. A
// peer uses the hashes to find the last block that this node and the peer have.
func (e *Engine) Locator(path []storage.BlockRef, max int) (out []primitives.Hash) {
	step, genesis := primitives.Height(1), e.genesis
	at := e.Tip().Height()
	for i := len(path) - 1; i >= 0 && len(out) < max/2; i -= int(step) {
		out = append(out, path[i].Hash)
		step *= 2
	}
	if len(path) == 0 || len(out) < max/2 {
		out = append(out, e.Tip().Hash)
	}
	for len(out) < max-1 && at > genesis.Height()+step {
		at -= step
		step *= 2
		ref, err := e.store.NextBlock(at)
		if err != nil {
			break
		}
		if out[len(out)-1] != ref.Hash {
			out = append(out, ref.Hash)
		}
		at = min(at, ref.Height)
	}
	return append(out, genesis.Hash)
}
