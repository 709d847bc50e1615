// Package blocksync decides how a node that is behind catches up by headers and blocks: whether the
// node is behind, what to request from which peer, when to ask another peer, and which peers to
// ban.
//
//	in      events: connected peers and the heights that they claim, results of received data,
//	        imported blocks, time
//	out     Out: requests for headers, blocks and an epoch sync proof; peers to ban
//	state   Machine: peers and their strikes, one header request, the requested blocks
//	units   ms of a monotonic clock; heights in blocks
//	bound   Window requested blocks above the chain, MaxWanted requested parents, of these
//	        Options.MaxRequests from one peer; one header request; headers are at most MaxLead
//	        above the blocks
//	errors  those of Chain, which end the step; peers cause none
//	source  nearcore chain/client/src/sync/{header,block}.rs
//
// The only information about a peer's chain is the height that the peer claims, which may be false.
// A peer that does not deliver the headers that it claims to have gets a strike. A strike pauses
// the peer: the node sends it no requests and ignores its claimed height. The pause doubles with
// each strike. After MaxStrikes the peer is banned. So each false claim delays the node by at most
// Options.HeadersWait.
//
// A peer that sends no requested block, such as a false archive, delays the node by BlockWait each time
// that it is asked. It is asked ever more rarely while another peer can be asked (Machine.miss). A block
// that did not arrive is requested from the peers that lost the fewest blocks (Machine.askBlocks).
package blocksync
