package viewstate

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// AnchorRequest asks for a block of the chain, as one line of JSON (Anchor).
type AnchorRequest struct {
	// Height is the block's height. nil: the lowest block, or the last final block if the folder has
	// all blocks since the genesis.
	Height *primitives.Height `json:"height,omitempty"`
}

// Anchor is a block from which older blocks can be verified.
type Anchor struct {
	Height  primitives.Height `json:"height"`
	Hash    primitives.Hash   `json:"hash"`
	Genesis primitives.Hash   `json:"genesis_hash"`
	First   primitives.Height `json:"genesis_height"`
}

func anchor(s *Source, r *AnchorRequest, out Out) error {
	store, first := s.Engine.Store(), s.Engine.Chain().Height
	at := max(store.Tip().Tail, first)
	switch {
	case r.Height != nil:
		at = *r.Height
	case at == first:
		at = s.Engine.Final().Height
	}
	hash, err := store.HashAt(at)
	if r.Height == nil && errors.Is(err, storage.ErrNotFound) {
		var ref storage.BlockRef
		ref, err = store.NextBlock(at)
		at, hash = ref.Height, ref.Hash
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
		return fmt.Errorf("view-state: the folder has no block at height %d: it has blocks from %d to %d", at,
			store.Tip().Tail, s.Engine.Head().Height())
	}
	if err != nil {
		return err
	}
	if final := s.Engine.Final().Height; at > final { // another block may take its place
		return fmt.Errorf("view-state: block %d is not final; the last final block is %d, choose one up to that height", at, final)
	}
	return printJSON(out, "", Anchor{at, hash, s.Engine.Genesis().Hash, first})
}
