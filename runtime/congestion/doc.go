// Package congestion decides how much may be sent to a loaded shard, and accounts for the load of
// the own shard.
//
//	in      primitives.CongestionInfo of a shard's chunk header, the number of chunks that it missed,
//	        the parameters
//	out     levels from 0 to 1, gas limits, whether transactions are accepted; the changed info of
//	        the own shard
//	state   none; Account changes a CongestionInfo of the caller
//	units   levels are float64; gas; bytes of borsh receipts
//	bound   constant time per query
//	errors  ErrOverflow: a count would exceed its type or fall below zero; the chunk cannot be applied
//	source  nearcore core/primitives/src/congestion_info.rs
//
// These rules are consensus in floating point. They give the same result on every machine, because
// each step is one IEEE 754 operation on float64, rounded to nearest even. An explicit float64()
// wraps every product. Otherwise Go may fuse a product with the following sum and round once, where
// nearcore rounds twice.
package congestion
