// Package chain builds and validates blocks and chunks. It computes what the fields must be from
// the blocks before and from epoch data.
//
//	in      all as arguments: the parent's header, epoch data (from chain/epoch), chunk extras,
//	        approvals
//	out     unsigned blocks and chunks; for a received block or chunk, the rule that it breaks
//	state   none; the packages chain/doomslug, chain/epoch and chain/txstatus have their own
//	units   heights in blocks, times in ns since 1970, stakes and prices in yoctoNEAR
//	bound   linear in the number of shards and validators of an epoch
//	errors  Invalid: the block is invalid, and a peer that relays it may be penalised
//	source  nearcore chain/chain/src/{chain,validate,lightclient}.rs, chain/client/src/client.rs,
//	        core/primitives/src/block.rs
package chain
