// Package near is the protocol logic of a peer in nearcore's network: connections, handshakes,
// routing, and which messages are sent to which peers at which time. It has no sockets and no
// clock. A caller (package tcp) opens connections, reads and writes frames, and carries out the
// effects that Step returns.
//
//	in      Events: connections, received messages, a new head, messages to send, time
//	out     Effects, in the order to carry them out: write, close, dial, deliver to the node
//	state   PeerManager: connections in and after their handshake, the edge graph, the route-back
//	        cache, account data, announcements, snapshot hosts, known peers and bans
//	units   times as arguments; nonces in seconds of UTC
//	bound   edges, peers, hosts, route-backs, connections and remembered messages, as in neard,
//	        except: fewer edges (maxEdges), a share of handshakes for each address (accepted), and
//	        rate limits on expensive messages (limits)
//	errors  none: an invalid message closes its connection, or bans its sender, as in neard; Close
//	        has the reason
//	source  nearcore chain/network/src/{peer, peer_manager, routing, accounts_data,
//	        announce_accounts, snapshot_hosts}
//
// Where neard makes random choices, Config.Draw makes them. So a run can be repeated from its seed.
// See PeerManager for the design.
package near
