package engine

// isBetterHead is the fork choice: a block becomes the head if it is higher than the head before it
// (nearcore chain/chain/src/chain_update.rs:431 update_head). The first of two blocks of one height
// stays. Finality is kept by the callers: a block that does not descend from the final block is not
// imported.
func isBetterHead(block, head *BlockNode) bool { return block.Height() > head.Height() }
