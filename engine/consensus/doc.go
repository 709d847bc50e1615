// Package consensus is a validator among validators: what a node says, makes, asks for and waits for, as one state machine.
//
//	in      Received: a message of another node; Submitted: a client's transaction; Tick: time passed; Done: a job has run; Written:
//	        adopted blocks are on disk; Moved: the engine holds other shards. Time is an argument
//	out     Out: what must be on disk before anything is said, messages, jobs that may run anywhere, blocks that were adopted and
//	        stored, when to wake it
//	state   Node: the engine; votes (chain/doomslug); received blocks and bodies (chain/blockpool); chunks in parts (chain/chunkparts);
//	        witnesses and endorsements (chain/partialwitness); pools (chain/txpool); what was signed (Signatures)
//	units   times in ns since 1970, heights in blocks
//	bound   those of the packages above; MaxParked votes for blocks that have not come, MaxMissing blocks that are asked for
//	errors  a bad message is dropped and noted; a failure of this node's own is Out.Fatal, after which it does nothing more
//	source  nearcore chain/client/src/{client,client_actor,chunk_inclusion_tracker}.rs, chain/client/src/sync
//
// It has no goroutine, clock, socket or randomness of its own: equal events at equal times give equal effects, so that internal/sim
// runs a whole cluster in one process from a seed.
package consensus
