// Package trace says what a transaction did, or would do: the tree of its receipts, and of each
// contract call the host functions with their gas and the entries of the storage that they were
// about.
//
//	in      an engine with the block that has the transaction, or the state to try it on; a VM
//	        that can be watched
//	out     Report, with nearcore's JSON forms inside; a profile by function of the contract, for
//	        speedscope
//	state   a Collector for each trace
//	units   gas, yoctoNEAR
//	bound   MaxHostCalls and MaxShown for a trace; flame.Max for its profile; one chunk is applied
//	        again for each block and shard that the transaction has been in
//	errors  engine.ErrUnknown; storage.ErrGone; engine.ErrReshard; ErrDiffers if a chunk comes out
//	        otherwise than it did
//	source  our own
package trace
