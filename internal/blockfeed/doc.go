// Package blockfeed follows a chain through block feeds instead of the peer-to-peer network:
// neardata documents over HTTP (a troupe serves them too), a NEAR Lake bucket, or the JSON-RPC of
// any node. Each feed has a goroutine that requests the block above the tip. The first valid block
// wins.
//
//	in      replies of feeds, none of which is trusted; the tip; the chain's verdict on delivered
//	        blocks
//	out     messages.BlockReceived; a Status of each feed
//	state   the next height and the strikes of each feed; code and block hashes that complete
//	        transactions
//	units   heights, milliseconds where the name says so
//	bound   maxReply bytes a reply, maxFetchBytes of an import's replies ahead of the next block,
//	        maxAhead blocks above the tip, maxCodeBytes of code, maxHashes hashes of blocks
//	errors  a feed that fails is retried with a pause that doubles; a feed that sends invalid data
//	        gets a strike; no error ends the node
//	source  our own; the layouts are neardata's (github.com/fastnear/neardata-server) and
//	        near-lake-framework's
package blockfeed
