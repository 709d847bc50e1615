// Package blocksync decides how a node that is behind the network catches up, by headers and blocks: whether it is behind, whom it asks for what,
// when it asks another, and whom it believes no longer.
//
//	in      Events: who is connected and how high it says to be, what came, what became part of the chain, time
//	out     Out: requests for headers and blocks, peers to be banned
//	state   Machine: peers with what is held against them, one request for headers, the blocks that are asked for
//	units   ms of a clock that only goes on; heights in blocks
//	bound   Window blocks above the chain and MaxWanted others asked for, MaxRequests of them of one peer; one request for headers;
//	        headers lead the blocks by MaxLead at the most
//	errors  of Chain, which end the step; peers cause none
//	source  nearcore chain/client/src/sync/{header,block}.rs
//
// What a peer says of its height is all that is known of it, and costs nothing to say. Who can't show the headers is believed less and less, and
// banned in the end; until then who can is asked first, and a lie delays nobody by more than one HeadersWait.
package blocksync
