package view

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Order says how the members of an object stand.
type Order bool

// The two orders: replies to POST sort their keys, replies to GET keep the order of nearcore's structs.
const (
	Sorted      Order = false
	StructOrder Order = true
)

// Version says what is running.
type Version struct{ Version, Build, Commit, Compiler string }

// Status is the reply of status (nearcore StatusResponse). All members that nearcore may leave null are given, as
// clients refuse null in some; only those of a validator may be missing.
type Status struct {
	Version               Version
	ChainID               string
	ProtocolVersion       primitives.ProtocolVersion // of the head's epoch
	LatestProtocolVersion primitives.ProtocolVersion // that this node can run
	RPCAddr               string                     // as config.json has it; empty: no RPC
	Validators            []primitives.AccountID     // of the head's epoch
	Sync                  SyncInfo
	ValidatorAccountID    primitives.AccountID // empty: no validator
	ValidatorPublicKey    primitives.PublicKey // empty: no validator
	NodePublicKey         primitives.PublicKey
	UptimeSeconds         int64
	GenesisHash           primitives.Hash
}

// SyncInfo says how far the chain is and how far back it goes; times in ns since 1970.
type SyncInfo struct {
	LatestBlockHash     primitives.Hash
	LatestBlockHeight   primitives.Height
	LatestStateRoot     primitives.Hash // prev_state_root of the head
	LatestBlockTime     uint64
	Syncing             bool
	EarliestBlockHash   primitives.Hash
	EarliestBlockHeight primitives.Height
	EarliestBlockTime   uint64
	EpochID             primitives.EpochID
	EpochStartHeight    primitives.Height
}

// member is a JSON member that one of several orders places.
type member struct {
	name   string // with quotes and colon
	append func([]byte) []byte
}

// appendMembers appends {...}; sorted holds indices of ms in the order of their names.
func appendMembers(b []byte, ms []member, sorted []int, order Order) []byte {
	b = append(b, '{')
	first := true
	for i := range ms {
		m := &ms[i]
		if order == Sorted {
			m = &ms[sorted[i]]
		}
		if m.append == nil { // left out
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = m.append(append(b, m.name...))
	}
	return append(b, '}')
}

var (
	statusSorted  = []int{1, 11, 3, 9, 8, 2, 4, 6, 10, 12, 13, 5, 0}
	syncSorted    = []int{5, 6, 7, 8, 9, 0, 1, 3, 2, 4}
	versionSorted = []int{1, 2, 3, 0}
)

// AppendNodeStatus appends the reply of status, in either order. Older clients read is_slashed of validators; it is false.
func AppendNodeStatus(b []byte, s *Status, order Order) []byte {
	ms := []member{
		{`"version":`, func(b []byte) []byte { return appendVersion(b, &s.Version, order) }},
		{`"chain_id":`, func(b []byte) []byte { return AppendString(b, s.ChainID) }},
		{`"protocol_version":`, func(b []byte) []byte { return appendUint(b, s.ProtocolVersion) }},
		{`"latest_protocol_version":`, func(b []byte) []byte { return appendUint(b, s.LatestProtocolVersion) }},
		{`"rpc_addr":`, func(b []byte) []byte { return AppendString(b, s.RPCAddr) }},
		{`"validators":`, func(b []byte) []byte {
			return appendList(b, s.Validators, func(b []byte, a *primitives.AccountID) []byte {
				return append(AppendAccountID(append(b, `{"account_id":`...), *a), `,"is_slashed":false}`...)
			})
		}},
		{`"sync_info":`, func(b []byte) []byte { return appendSyncInfo(b, &s.Sync, order) }},
		{`"validator_account_id":`, func(b []byte) []byte {
			return appendUnless(b, s.ValidatorAccountID == "", func(b []byte) []byte { return AppendAccountID(b, s.ValidatorAccountID) })
		}},
		{`"validator_public_key":`, func(b []byte) []byte { return appendOptionKey(b, s.ValidatorPublicKey) }},
		{`"node_public_key":`, func(b []byte) []byte { return AppendKey(b, s.NodePublicKey) }},
		{`"node_key":`, func(b []byte) []byte { return appendOptionKey(b, s.ValidatorPublicKey) }}, // deprecated twin
		{`"uptime_sec":`, func(b []byte) []byte { return strconv.AppendInt(b, s.UptimeSeconds, 10) }},
		{`"genesis_hash":`, func(b []byte) []byte { return AppendHash(b, &s.GenesisHash) }},
	}
	if s.RPCAddr == "" {
		ms[4].append = nil
	}
	return appendMembers(b, ms, statusSorted, order)
}

func appendOptionKey(b []byte, k primitives.PublicKey) []byte {
	if k == "" {
		return append(b, "null"...)
	}
	return AppendKey(b, k)
}

func appendVersion(b []byte, v *Version, order Order) []byte {
	text := func(s string) func([]byte) []byte { return func(b []byte) []byte { return AppendString(b, s) } }
	ms := []member{
		{`"version":`, text(v.Version)}, {`"build":`, text(v.Build)},
		{`"commit":`, text(v.Commit)}, {`"rustc_version":`, text(v.Compiler)},
	}
	return appendMembers(b, ms, versionSorted, order)
}

func appendSyncInfo(b []byte, s *SyncInfo, order Order) []byte {
	hash := func(h *primitives.Hash) func([]byte) []byte { return func(b []byte) []byte { return AppendHash(b, h) } }
	height := func(h primitives.Height) func([]byte) []byte {
		return func(b []byte) []byte { return appendUint(b, h) }
	}
	at := func(ns uint64) func([]byte) []byte { return func(b []byte) []byte { return AppendTime(b, ns) } }
	ms := []member{
		{`"latest_block_hash":`, hash(&s.LatestBlockHash)},
		{`"latest_block_height":`, height(s.LatestBlockHeight)},
		{`"latest_state_root":`, hash(&s.LatestStateRoot)},
		{`"latest_block_time":`, at(s.LatestBlockTime)},
		{`"syncing":`, func(b []byte) []byte { return appendBool(b, s.Syncing) }},
		{`"earliest_block_hash":`, hash(&s.EarliestBlockHash)},
		{`"earliest_block_height":`, height(s.EarliestBlockHeight)},
		{`"earliest_block_time":`, at(s.EarliestBlockTime)},
		{`"epoch_id":`, hash(&s.EpochID)},
		{`"epoch_start_height":`, height(s.EpochStartHeight)},
	}
	return appendMembers(b, ms, syncSorted, order)
}

// NetworkInfo is the reply of network_info (nearcore chain/jsonrpc-primitives/src/types/network_info.rs).
type NetworkInfo struct {
	ActivePeers         []Peer
	PeerMaxCount        uint32
	SentBytesPerSec     uint64
	ReceivedBytesPerSec uint64
	KnownProducers      []KnownProducer
}

// Peer is a connected node.
type Peer struct {
	ID        primitives.PublicKey
	Addr      string               // empty: unknown
	AccountID primitives.AccountID // empty: none
}

// KnownProducer is a validator whose node is known.
type KnownProducer struct {
	AccountID primitives.AccountID
	Addr      string // empty: unknown
	PeerID    primitives.PublicKey
}

var (
	networkSorted  = []int{0, 5, 1, 2, 4, 3}
	peerSorted     = []int{2, 1, 0}
	producerSorted = []int{0, 1, 2}
)

// AppendNetworkInfo appends the reply of network_info, in either order.
func AppendNetworkInfo(b []byte, n *NetworkInfo, order Order) []byte {
	number := func(v uint64) func([]byte) []byte { return func(b []byte) []byte { return appendUint(b, v) } }
	key := func(k primitives.PublicKey) func([]byte) []byte {
		return func(b []byte) []byte { return AppendKey(b, k) }
	}
	text := func(s string) func([]byte) []byte {
		return func(b []byte) []byte {
			return appendUnless(b, s == "", func(b []byte) []byte { return AppendString(b, s) })
		}
	}
	ms := []member{
		{`"active_peers":`, func(b []byte) []byte {
			return appendList(b, n.ActivePeers, func(b []byte, p *Peer) []byte {
				ms := []member{{`"id":`, key(p.ID)}, {`"addr":`, text(p.Addr)}, {`"account_id":`, text(string(p.AccountID))}}
				return appendMembers(b, ms, peerSorted, order)
			})
		}},
		{`"num_active_peers":`, number(uint64(len(n.ActivePeers)))},
		{`"peer_max_count":`, number(uint64(n.PeerMaxCount))},
		{`"sent_bytes_per_sec":`, number(n.SentBytesPerSec)},
		{`"received_bytes_per_sec":`, number(n.ReceivedBytesPerSec)},
		{`"known_producers":`, func(b []byte) []byte {
			return appendList(b, n.KnownProducers, func(b []byte, p *KnownProducer) []byte {
				ms := []member{{`"account_id":`, text(string(p.AccountID))}, {`"addr":`, text(p.Addr)}, {`"peer_id":`, key(p.PeerID)}}
				return appendMembers(b, ms, producerSorted, order)
			})
		}},
	}
	return appendMembers(b, ms, networkSorted, order)
}
