package messages

// BlockSender sends what becomes of imported blocks to the other actors of the node. The actor that
// imports blocks calls it on its own goroutine. Its methods do not block on an actor.
type BlockSender interface {
	Imported(BlockImported)
	Accepted(BlockAccepted)
	Halted(ChainHalted)
}

// NetworkSender sends to the network actor what the chain actor needs from peers, and which of the
// peers' blocks and chunks are invalid. Its methods do not block.
type NetworkSender interface {
	Refused(BlockRefused)
	ChunkRefused(ChunkRefused)
	Wanted(BlockWanted)
	ChunksWanted(ChunksWanted)
}
