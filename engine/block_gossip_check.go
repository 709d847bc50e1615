package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Vet judges a block of others as far as neard does before it hands one on: all but the contents of its chunks (nearcore client.rs
// verify_and_rebroadcast_block). Who is handed a block that is bad beyond that has no reason to blame who handed it on. Begin checks neither the
// signatures nor the random value of what was found good again. Where the parent is not here, or has left the memory, nothing is said (ErrOrphan), nor whether the block can become final. Safe from any goroutine.
func (e *Engine) ValidateForGossip(b *primitives.Block) error {
	parent := e.Imported(b.Header.PrevHash)
	if parent == nil || parent.evicted || b.Header.Height <= e.TipFinal().Height {
		return fmt.Errorf("%w: %v of block %d", ErrOrphan, b.Header.PrevHash, b.Header.Height)
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
	if !j.Told {
		e.validBlocks.add(b.Hash())
	}
	return nil
}
