// Package chain builds and validates blocks and chunks: what their fields must be, given what
// precedes them.
//
//	in      the parent's header, epoch data (from chain/epoch), chunk extras, votes; all as arguments
//	out     unsigned blocks and chunks, or the rule that a received one breaks
//	state   none; chain/doomslug, chain/epoch and chain/txstatus hold their own
//	units   heights in blocks, times in ns since 1970, stakes and prices in yoctoNEAR
//	bound   linear in the shards and validators of an epoch
//	errors  Invalid: the block is invalid, and a peer that relays it may be penalised
//	source  nearcore chain/chain/src/{chain,validate,lightclient}.rs, chain/client/src/client.rs,
//	        core/primitives/src/block.rs
package chain
