// Package libp2p is an alternative transport. It carries the frames, handshakes and rules of
// net/near over libp2p streams, and also gossips. It implements tcp.Transport, so the server's
// near.PeerManager makes all decisions. A server with both libp2p and sockets is a bridge.
//
//	in      inbound connections over TCP with noise and over QUIC; peers found on the local
//	        network; messages to publish (Spread)
//	out     streams as connections (Station.Take); validated gossip (near.Gossiped), in the order
//	        of validation
//	state   Transport: the libp2p host; which peers have completed a handshake or are banned; what
//	        was published lately. Metrics outlive it
//	units   a stream is a near connection: u32 little-endian length ‖ frame. A gossip message is
//	        the frame of a block, or a batch: its time in ms ‖ transactions
//	bound   maxGossip bytes for a message; blockRate and transactionRate from a peer, and half of
//	        these to a peer; maxSpread messages waiting to be published; maxDropped blocks that
//	        wait to be sent over a connection because gossip dropped them; maxRecent hashes;
//	        maxRPC bytes for an RPC, maxUnmetRPC before the handshake, at least minEntrySize
//	        of them for each entry; maxChecks batches of a peer that wait for a core (batches
//	        use half of the cores); maxUnmet streams of a peer that wait for a handshake; half
//	        of the peers from one address; a frame must arrive at paceBytes a second; libp2p's
//	        resource manager bounds connections and streams; a connection without a handshake
//	        lasts Grace, or twice that during a handshake
//	errors  an error of a peer closes its connections, or bans it: for invalid gossip, or for
//	        more than maxExcess messages above its rate
//	source  go-libp2p, go-libp2p-pubsub (gossipsub 1.1 to 1.3); the messages are net/wire's
//
// libp2p authenticates the node key of the peer before the first frame. A handshake with another
// key closes the connection. See validate for the design of gossip validation.
package libp2p
