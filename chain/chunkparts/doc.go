// Package chunkparts spreads chunks in parts and puts them together: who gets which, who passes on what, what is asked of whom, and when.
//
//	in      own chunks; parts, forwards, requests and answers of others; what blocks want; time and chance as arguments
//	out     messages; chunks whose own parts are here (for a block to be made), chunks that are complete, bad ones
//	state   Pool: chunks of the heights around the head, each with its parts; forwards that came before their header
//	units   ms; heights in blocks; parts by number
//	bound   HeightHorizon heights below the highest and MaxAhead above, one chunk a shard and height and one a shard and block that says
//	        another height than the one behind that, but for those that a block wants;
//	        MaxForwards chunks of which only forwards are here, with MaxForwardBytes, of which who has signed most goes first; a few stored chunks that were coded again
//	errors  the message is dropped; nothing here bans a peer, as in neard. Bad chunks are told in Out
//	source  nearcore chain/chunks/src/{shards_manager_actor,chunk_cache,logic}.rs
package chunkparts
