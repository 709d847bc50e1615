// Package libp2p is the second way to peers: the frames, handshakes and rules of net/near over
// streams of libp2p, and gossip beside them. It is a tcp.Transport, so what is decided is decided
// by the near.PeerManager of the host, and a host with sockets too is a bridge.
//
//	in      connections of others over TCP with noise and over QUIC; peers found on the local
//	        network; what is to be spread (Spread)
//	out     streams as connections (Station.Take); gossip of peers (near.Gossiped), in the order
//	        in which it was judged
//	state   Way: the libp2p host; who is met and banned; what was spread lately. Counters outlive
//	        it
//	units   a stream is a near connection: u32 little-endian length ‖ frame. Gossip is a frame of
//	        a block, or ms of its time ‖ transactions
//	bound   maxGossip bytes a message, blockRate and transactionRate a peer, half of which is what
//	        a peer is brought; maxSpread waiting to be spread, maxDropped that go by a connection
//	        since gossip has no room, maxRecent remembered; maxRPC an RPC, maxUnmetRPC of who has
//	        not shaken hands, with leastOfOne bytes for each thing in it; maxChecks batches of a
//	        peer wait for half of the cores; maxUnmet streams of a peer wait for a handshake, and
//	        half of the peers are of one address; a frame comes at paceBytes a second or ends its
//	        connection; connections and streams by libp2p's resource manager, those without a
//	        handshake for Grace, or twice that while one is tried
//	errors  of a peer end its connections, or ban it: gossip that nobody who looked would hand on,
//	        or that comes faster than maxExcess allows
//	source  go-libp2p, go-libp2p-pubsub (gossipsub 1.1 to 1.3); the messages are net/wire's
//
// Who is at the other end has proven his node key to libp2p before the first frame, and a handshake
// by another key ends the connection.
package libp2p
