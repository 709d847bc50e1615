package chain

import "github.com/troupe-chain/troupe/primitives"

// LastDSFinal returns the last_ds_final_block of a block with the given height and parent.
func LastDSFinal(parent *primitives.BlockHeader, height primitives.Height) primitives.Hash {
	if height == parent.Height+1 {
		return parent.Hash()
	}
	return parent.LastDSFinalBlock
}

// LastFinal returns the last_final_block of a block with the given height and parent. A block is
// final if its chain contains blocks at the next two heights (nearcore block_header.rs
// last_final_block_for_height).
func LastFinal(parent *primitives.BlockHeader, height primitives.Height) primitives.Hash {
	if height == parent.Height+1 && parent.LastDSFinalBlock == parent.PrevHash {
		return parent.PrevHash
	}
	return parent.LastFinalBlock
}
