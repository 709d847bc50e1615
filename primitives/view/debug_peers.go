package view

import "github.com/troupe-chain/troupe/primitives"

// The data about peers of neard's debug pages (nearcore core/primitives/src/views.rs), with its
// members in nearcore's order. Times are in seconds since 1970.
type (
	// PeerStore is the data of the page peer_store.
	PeerStore struct {
		PeerStates []KnownPeer `json:"peer_states"`
	}
	// KnownPeer is a peer to which the node is connected or could connect.
	KnownPeer struct {
		PeerID      primitives.PublicKey `json:"peer_id"`
		Status      string               `json:"status"` // Rust's debug form of KnownPeerStatus
		Addr        string               `json:"addr"`   // Rust's debug form of an optional address
		FirstSeen   int64                `json:"first_seen"`
		LastSeen    int64                `json:"last_seen"`
		LastAttempt *[2]any              `json:"last_attempt"` // time and result of the last dial; nil: none
	}
	// NetworkGraph is the data of the page network_graph.
	NetworkGraph struct {
		Edges    []NetworkEdge                     `json:"edges"`
		NextHops map[string][]primitives.PublicKey `json:"next_hops"` // by the target's id
	}
	// NetworkEdge is a connection of two peers. An even nonce means that it was closed.
	NetworkEdge struct {
		Peer0 primitives.PublicKey `json:"peer0"`
		Peer1 primitives.PublicKey `json:"peer1"`
		Nonce uint64               `json:"nonce"`
	}
	// RecentConnections is the data of the page recent_outbound_connections.
	RecentConnections struct {
		List []RecentConnection `json:"recent_outbound_connections"`
	}
	// RecentConnection is a connection that this node has dialled and that has lasted.
	RecentConnection struct {
		PeerID      primitives.PublicKey `json:"peer_id"`
		Addr        string               `json:"addr"`
		Established int64                `json:"time_established"`
		Until       int64                `json:"time_connected_until"`
	}
	// SnapshotHosts is the data of the page snapshot_hosts.
	SnapshotHosts struct {
		Hosts []SnapshotHost `json:"hosts"`
	}
	// SnapshotHost is a peer that serves the states of shards.
	SnapshotHost struct {
		PeerID      primitives.PublicKey `json:"peer_id"`
		SyncHash    primitives.Hash      `json:"sync_hash"`
		EpochHeight uint64               `json:"epoch_height"`
		Shards      []primitives.ShardID `json:"shards"`
	}
)
