package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// ValidateForGossip checks everything in a block except the contents of chunks. nearcore checks less
// before it rebroadcasts a block (chain/client/src/client.rs verify_and_rebroadcast_block). So this
// node relays no block for which a peer would ban this node. If a block has passed, BeginImport does
// not repeat its signature and VRF checks.
//
// ValidateForGossip returns ErrOrphan if the parent is unknown or evicted, or if the block is not
// above the final block. ValidateForGossip does not check that the block descends from the final
// block. Safe for concurrent use.
func (e *Engine) ValidateForGossip(b *primitives.Block) error {
	parent := e.Imported(b.Header.PrevHash)
	if parent == nil || parent.evicted || b.Header.Height <= e.TipFinal().Height {
		return fmt.Errorf("%w: %v, the parent of block %d", ErrOrphan, b.Header.PrevHash, b.Header.Height)
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	j, _, err := e.validationContext(b, parent, false)
	if err != nil {
		return err
	}
	if err := chain.ValidateBlock(b, j); err != nil {
		return err
	}
	if !j.HeadersOnly {
		e.validBlocks.add(b.Hash())
	}
	return nil
}
