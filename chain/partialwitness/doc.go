// Package partialwitness distributes the data of stateless validation: parts of state witnesses,
// the contract code that the witnesses call, and endorsements.
//
//	in      messages of other validators, blocks that became known, results of witness
//	        validation; time and randomness as arguments
//	out     messages to validators, witnesses to validate, code to precompile, endorsements for a
//	        block
//	state   Tracker: MaxWitnesses incomplete witnesses for each shard, orphans; Endorsements:
//	        MaxChunks chunks
//	units   bytes; heights in blocks; stake in yoctoNEAR
//	bound   MaxRaw and MaxEncoded bytes for each witness; a constant for each list
//	errors  ErrCoding, ErrIrrelevant, ErrSigner and others: the message is dropped; as in neard no
//	        peer is banned for it
//	source  nearcore chain/client/src/stateless_validation,
//	        core/primitives/src/{reed_solomon,utils/compression}.rs
//
// See Tracker for the design.
package partialwitness
