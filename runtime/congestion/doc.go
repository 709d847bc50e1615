// Package congestion decides how much a loaded shard may be sent, and keeps the account of its
// load.
//
//	in      primitives.CongestionInfo of a shard's chunk header, how many chunks it missed, the
//	        parameters
//	out     levels from 0 to 1, gas limits, whether transactions are taken; the changed info of
//	        the own shard
//	state   none; the accounts change a CongestionInfo that the caller holds
//	units   levels are float64; gas; bytes of borsh receipts
//	bound   constant per question
//	errors  ErrOverflow: an account would pass its width or fall below zero, which is fatal to the
//	        chunk
//	source  nearcore core/primitives/src/congestion_info.rs
//
// This is consensus in floating point. It is exact on every machine because each step is one IEEE
// 754 operation on doubles, rounded to nearest even: every product stands in its own float64(),
// since Go may otherwise fuse it with the sum around it and round once where nearcore rounds twice.
package congestion
