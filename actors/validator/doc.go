// Package validator is the shell of a validator among validators: the one goroutine that steps engine/consensus, and with it changes the engine.
//
//	in      Heard: what peers say to it; BlockReceived, ApprovalReceived, ChunkEndorsed from the net; ChainHalted, StopProducing, DrainChain from
//	        the node; notes to self: time, jobs that have run, blocks that are on disk
//	out     BlockAdopted, BlockAccepted; what is to be sent, by a goroutine that has what was signed on disk first; BlockRefused; ChainHalted
//	state   Actor: the core, jobs under way, blocks on their way to the disk. File: what was signed. Life: what outlives a failure
//	units   ns since 1970
//	bound   Workers jobs run at once; what waits to be sent is what the core has said; the rest as engine/consensus has it
//	errors  of others are the core's; the core's own halt the node; a panic outside of the engine makes the actor anew, from what is on disk,
//	        one inside of it halts the node
//	source  our own; nearcore chain/client/src/client_actor.rs
package validator
