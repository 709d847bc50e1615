// Package chunkparts distributes chunks as erasure-coded parts and reassembles them. It decides
// which validator gets which parts, which parts are forwarded, what is requested from which peer,
// and when.
//
//	in      chunks that this node produced; partial chunks, forwards, requests and responses from
//	        the network; the chunks that blocks need; time and randomness as arguments
//	out     messages; chunks with all own parts (a block may include them), complete
//	        chunks, invalid chunks
//	state   Pool: chunks of the heights around the head with their parts; forwards that arrived
//	        before their chunk header
//	units   ms; heights in blocks; parts by number
//	bound   heights: from HeightHorizon below the highest head to MaxAhead above it. Chunks: one
//	        for each shard and height; those whose height is not that of their previous block plus
//	        one: one for each shard and previous block; no bound for chunks that a block needs.
//	        Forwards without a chunk header: MaxForwards chunks and MaxForwardBytes; a forward of
//	        the producer with the most bytes is evicted first. Stored chunks that were encoded
//	        again for requests: a few
//	errors  the message is dropped; as in neard no peer is banned for it. Invalid chunks are in
//	        Out.Bad
//	source  nearcore chain/chunks/src/{shards_manager_actor,chunk_cache,logic}.rs
//
// See Pool for the design.
package chunkparts
