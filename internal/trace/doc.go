// Package trace records what a transaction did or would do. It records the tree of the transaction's
// receipts, and for each contract call the host functions with their gas and storage entries.
//
//	in      an engine with the transaction's block, or the state to simulate it on; a VM that can
//	        be watched
//	out     Report, with nearcore's JSON forms inside; a profile by contract function, for
//	        speedscope
//	state   a collector for each trace
//	units   gas, yoctoNEAR
//	bound   MaxHostCalls and MaxShown for a trace; flame.Max for its profile; one chunk is applied
//	        again for each block and shard with a receipt of the transaction
//	errors  engine.ErrUnknown; storage.ErrGone; engine.ErrReshard; ErrDiffers if applying a chunk
//	        again gives another result
//	source  our own
package trace
