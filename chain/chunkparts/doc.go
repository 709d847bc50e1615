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
//	bound   HeightHorizon heights below the highest head and MaxAhead above it; one chunk for each
//	        shard and height, and one for each shard and block if the height is not that of the
//	        next block; chunks that a block needs are exempt. Forwards without header: MaxForwards
//	        chunks and MaxForwardBytes, evicted from the producer with the most bytes. A few
//	        re-encoded stored chunks
//	errors  the message is dropped; as in neard no peer is banned for it. Invalid chunks are in
//	        Out.Bad
//	source  nearcore chain/chunks/src/{shards_manager_actor,chunk_cache,logic}.rs
//
// See Pool for the design.
package chunkparts
