// Package blocksync decides how a node that is behind catches up by headers and blocks: whether it
// is behind, which peer is asked for what, when another peer is asked, and which peers lose credit.
//
//	in      Events: connected peers with the heights that they claim, results of what arrived,
//	        imported blocks, time
//	out     Out: requests for headers, blocks and an epoch sync proof; peers to ban
//	state   Machine: peers with their strikes, one header request, the requested blocks
//	units   ms of a monotonic clock; heights in blocks
//	bound   Window blocks above the chain and MaxWanted parents requested, of these
//	        Options.MaxRequests from one peer; one header request; headers are at most MaxLead
//	        ahead of blocks
//	errors  those of Chain, which end the step; peers cause none
//	source  nearcore chain/client/src/sync/{header,block}.rs
//
// A claimed height is all that is known of a peer's chain, and a claim costs nothing. A peer that
// does not deliver the headers that it claims gets a strike: it is neither asked nor believed for a
// pause that doubles, and banned after MaxStrikes. Each false claim thus delays the node by at most
// Options.HeadersWait.
package blocksync
