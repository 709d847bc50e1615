// Package near is what a peer of neards knows and decides: who is connected, who is reached by
// whom, what is told to whom and when. It has no socket and no clock; a shell opens connections,
// reads and writes frames, and carries out what Step says.
//
//	in      Events: a connection came up, a message came, a head, a message of ours to send, time
//	out     Effects in the order to carry out: write, close, dial, and what the rest of the node
//	        is to hear
//	state   a Node: connections in and after their handshake, the graph of edges, ways back,
//	        accounts' data, announcements, hosts, known peers and bans
//	units   times as arguments; nonces in seconds of UTC
//	bound   Limits: edges, peers, hosts, ways back, connections, messages that are remembered; as
//	        neard has them, but for fewer edges (maxEdges), the places of one address in its
//	        handshakes (accepted), and how often a peer has what costs much (limits)
//	errors  none: a bad message closes its connection, or bans who sent it, as neard would; Close
//	        says why
//	source  nearcore chain/network/src/{peer, peer_manager, routing, accounts_data,
//	        announce_accounts, snapshot_hosts}
//
// Where neard draws lots, the draw is an argument of Config, so that a run can be repeated from its
// seed.
package near
