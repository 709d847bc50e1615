// Package stateprobe asks peers for the state of a shard at a sync block, as a node does that is far
// behind, and reports which peers give which parts.
//
//	in      Options: the chain, the peers, the shard, which parts
//	out     a Report: an answer for each peer and part, with its verdict, duration and size
//	state   Prober: a near.PeerManager on sockets, one waiting request for each peer
//	units   durations in ms, sizes in bytes of the encoded header or part
//	bound   MaxPeers peers, each with one request at a time, of which Options.Wait limits the time;
//	        a peer that leaves maxSilent requests in a row without an answer is asked no more;
//	        maxJudged parts are judged at a time; a frame has at most maxAnswer bytes, and two frames of a
//	        peer are in memory at most, one of them on its way
//	errors  of the whole probe, as ErrNoPeer and ErrNoSync; what a peer does wrong is in the Report
//	source  nearcore tools/state-parts, chain/client/src/sync/state
//
// The probe trusts no peer for the state: a header must prove its chunk against the block before the
// sync block, and a part must prove its place below the state root in that chunk. It trusts the
// majority of the peers for the sync block, unless Options.Sync names it. So "valid" means valid for that
// block: with one peer, and without Options.Sync, a peer can invent a block whose state it has.
package stateprobe
