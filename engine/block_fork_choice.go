package engine

// isBetterHead is the fork choice: a block becomes the head if it is higher than the current head
// (nearcore chain/chain/src/chain_update.rs:431 update_head). If two blocks have the same height,
// the block that was imported first stays the head. Callers ensure that block descends from the
// final block.
func isBetterHead(block, head *BlockNode) bool { return block.Height() > head.Height() }
