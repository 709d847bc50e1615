// Package partialwitness spreads what chunks are judged by: witnesses in parts, the code that they call, endorsements.
//
//	in      messages of other validators, blocks that became known, verdicts on witnesses; time and chance as arguments
//	out     messages to validators, witnesses to be judged, code to be compiled ahead, endorsements for a block
//	state   Tracker: MaxWitnesses witnesses a shard that come together, orphans; Endorsements: MaxChunks chunks
//	units   bytes; heights in blocks; stake in yoctoNEAR
//	bound   MaxRaw and MaxEncoded bytes a witness; each list by a constant
//	errors  ErrCoding, ErrIrrelevant, ErrSigner and others: the message is dropped; nothing here bans a peer, as in neard
//	source  nearcore chain/client/src/stateless_validation, core/primitives/src/{reed_solomon,utils/compression}.rs
package partialwitness
