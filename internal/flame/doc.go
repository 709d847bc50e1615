// Package flame records the function calls of a traced contract call, in order, in a profile that
// speedscope and pprof can open.
//
//	in      Begin and End of functions, with the gas burnt so far
//	out     WriteSpeedscope: every call in order, with the burnt gas as the time axis; WritePprof:
//	        the number of calls and their gas, summed by stack
//	state   a Profile for each call; none is shared
//	units   gas
//	bound   what was recorded: a call of 300 TGas makes at most some tens of millions of events,
//	        so Begin refuses beyond Max
//	errors  of the writer
//	source  speedscope's file format (evented profiles); pprof's profile.proto
package flame
