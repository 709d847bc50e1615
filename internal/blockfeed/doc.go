// Package blockfeed brings blocks from feeds to a node that follows them instead of a network:
// neardata's documents over HTTP (also a troupe's), a NEAR Lake bucket, the JSON-RPC of any node.
// Each feed is asked by a goroutine of its own for the block above the tip; what comes first and is
// right is what the chain goes on with.
//
//	in      replies of feeds, of which nothing is believed; the tip; what the chain says of blocks
//	        that were given to it
//	out     messages.BlockReceived; a Status of each feed
//	state   where each feed is asked next, its strikes; code and hashes of blocks by which
//	        transactions are completed
//	units   heights, milliseconds where the name says so
//	bound   maxReply bytes a reply, maxAhead blocks above the tip, maxCodeBytes of code, maxHashes
//	        hashes of blocks
//	errors  a feed that errs is asked again later, twice as late each time; one that lies is
//	        struck; none ends the node
//	source  our own; the layouts are neardata's (github.com/fastnear/neardata-server) and
//	        near-lake-framework's
package blockfeed
