// Package chain makes and judges blocks and chunks: what their fields must be, given what came before.
//
//	in      the parent's header, the epoch's facts (from chain/epoch), chunk extras, votes; everything as arguments
//	out     unsigned blocks and chunks, or the reason why a received one is refused
//	state   none here; chain/doomslug, chain/epoch and chain/txstatus hold their own
//	units   heights in blocks, times in ns since 1970, stakes and prices in yoctoNEAR
//	bound   linear in the shards and validators of an epoch
//	errors  Invalid values: the block is bad and so is who sent it
//	source  nearcore chain/chain/src/{chain,validate,lightclient}.rs, chain/client/src/client.rs, core/primitives/src/block.rs
package chain
