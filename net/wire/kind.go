package wire

import "fmt"

// Kind is the field number of a message in PeerMessage.
type Kind uint32

// The kinds of messages.
const (
	KindTier2Handshake     Kind = 4
	KindHandshakeFailure   Kind = 5
	KindLastEdge           Kind = 6
	KindRoutingTable       Kind = 7
	KindNonceRequest       Kind = 8
	KindNonceResponse      Kind = 9 // decoded as a RoutingTable of one edge
	KindPeersRequest       Kind = 10
	KindPeersResponse      Kind = 11
	KindHeadersRequest     Kind = 12
	KindHeaders            Kind = 13
	KindBlockRequest       Kind = 14
	KindBlock              Kind = 15
	KindTransaction        Kind = 16
	KindRouted             Kind = 17
	KindDisconnect         Kind = 18
	KindChallenge          Kind = 19
	KindAccountsData       Kind = 25
	KindTier1Handshake     Kind = 27
	KindStateHeaderRequest Kind = 29
	KindStatePartRequest   Kind = 30
	KindStateResponse      Kind = 31
	KindSnapshotHosts      Kind = 32
	KindTier3Handshake     Kind = 33
	KindEpochSyncRequest   Kind = 34
	KindEpochSyncResponse  Kind = 35
	KindOptimisticBlock    Kind = 36
	KindRoutedV3           Kind = 37 // decoded as a Routed
)

var kindNames = map[Kind]string{
	KindTier2Handshake: "tier2_handshake", KindHandshakeFailure: "handshake_failure", KindLastEdge: "last_edge",
	KindRoutingTable: "sync_routing_table", KindNonceRequest: "update_nonce_request", KindNonceResponse: "update_nonce_response",
	KindPeersRequest: "peers_request", KindPeersResponse: "peers_response", KindHeadersRequest: "block_headers_request",
	KindHeaders: "block_headers_response", KindBlockRequest: "block_request", KindBlock: "block_response",
	KindTransaction: "transaction", KindRouted: "routed", KindDisconnect: "disconnect", KindChallenge: "challenge",
	KindAccountsData: "sync_accounts_data", KindTier1Handshake: "tier1_handshake", KindStateHeaderRequest: "state_request_header",
	KindStatePartRequest: "state_request_part", KindStateResponse: "state_response", KindSnapshotHosts: "sync_snapshot_hosts",
	KindTier3Handshake: "tier3_handshake", KindEpochSyncRequest: "epoch_sync_request", KindEpochSyncResponse: "epoch_sync_response",
	KindOptimisticBlock: "optimistic_block", KindRoutedV3: "routed_v3",
}

// String returns the field's name in network.proto.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Tier is the purpose of a connection. T1 is for consensus among validators. T2 is for all
// messages. T3 is for one response with state.
type Tier byte

// The tiers.
const (
	T1 Tier = 1
	T2 Tier = 2
	T3 Tier = 3
)

// String returns "T1", "T2" or "T3".
func (t Tier) String() string { return fmt.Sprintf("T%d", byte(t)) }

// Allows returns whether m is allowed on a connection of this tier. If not, the connection must be
// closed (nearcore peer_manager/connection/mod.rs:30).
func (t Tier) Allows(m Message) bool {
	switch m := m.(type) {
	case *Handshake:
		return m.Tier == t
	case *HandshakeFailure, *LastEdge, *Disconnect, *OptimisticBlock:
		return true
	case *StateResponse:
		return t == T2 || t == T3
	case *Routed:
		return t == T2 || m.Body.BodyKind().IsT1()
	}
	return t == T2
}
