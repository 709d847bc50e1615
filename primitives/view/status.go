package view

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is the version of the running software.
type Version struct{ Version, Build, Commit, Compiler string }

// Status is the reply of status (nearcore StatusResponse). All members that may be null in
// nearcore are set, since some clients refuse null there. Only the members about a validator may
// be missing.
type Status struct {
	Version               Version
	ChainID               string
	ProtocolVersion       primitives.ProtocolVersion // version of the head's epoch
	LatestProtocolVersion primitives.ProtocolVersion // newest version that this node supports
	RPCAddr               string                     // address in config.json; empty: no RPC
	Validators            []primitives.AccountID     // validators of the head's epoch
	Sync                  SyncInfo
	ValidatorAccountID    primitives.AccountID // empty: not a validator
	ValidatorPublicKey    primitives.PublicKey // empty: not a validator
	NodePublicKey         primitives.PublicKey
	UptimeSeconds         int64
	GenesisHash           primitives.Hash
	// Mocked are host functions whose signature checks a sandbox mocks. Our own; left out if empty.
	Mocked []string
	// Progress is set while the node is syncing. Our own; left out if nil.
	Progress *Progress
	// Halted is set if the node takes no blocks. Our own; left out if nil.
	Halted  *Halted
	Replica *Replica // nil: not a replica. Our own; left out if nil
	// KeyWait is set while the validator's key signs nothing because it is new to the node. Our own;
	// left out if nil.
	KeyWait *KeyWait
	// Upgrade is set if this node does not support the next epoch's protocol version. Our own; left
	// out if nil.
	Upgrade *Upgrade
}

// Upgrade is the protocol version that begins with the next epoch and needs a newer program.
type Upgrade struct {
	Height  primitives.Height // planned height of the next epoch's first block
	Version primitives.ProtocolVersion
}

func appendUpgrade(b []byte, u *Upgrade) []byte {
	if u == nil {
		return b
	}
	b = appendUint(append(b, `,"upgrade_needed":{"height":`...), u.Height)
	return append(appendUint(append(b, `,"version":`...), u.Version), '}')
}

// KeyWait is how long a validator's key signs nothing.
type KeyWait struct {
	From primitives.Height // height of the head at which it begins to sign; 0: not known yet
	Left primitives.Height // number of heights until then
}

func appendKeyWait(b []byte, w *KeyWait) []byte {
	if w == nil {
		return b
	}
	b = appendUint(append(b, `,"key_wait":{"blocks_left":`...), w.Left)
	return append(appendUint(append(b, `,"from_height":`...), w.From), '}')
}

// Replica is how far a replica is behind its writer.
type Replica struct {
	Connected bool   // connected to the writer
	Behind    uint64 // number of the writer's records that the replica has not applied
	LagMS     uint64 // age of the replica's data in ms, relative to the writer's newest data that the replica knows of
}

func appendReplica(b []byte, r *Replica) []byte {
	if r == nil {
		return b
	}
	b = appendUint(append(b, `,"replica":{"behind":`...), r.Behind)
	b = appendBool(append(b, `,"connected":`...), r.Connected)
	return append(appendUint(append(b, `,"lag_ms":`...), r.LagMS), '}')
}

// Halted is why a node takes no more blocks.
type Halted struct {
	Since  uint64 // ns since 1970
	Reason string
	Height primitives.Height // height of the block that could not be applied; 0: no block was the cause
	File   string            // file with that block, for troupe verify; empty: none
}

// Progress is how far a syncing node has come.
type Progress struct {
	Highest   primitives.Height // highest height that peers reported
	Headers   primitives.Height // height of the newest validated header, or of the head
	Parts     uint64            // number of parts of the state that the node syncs; 0: it syncs no state
	PartsHere uint64            // number of parts that have arrived
}

func appendProgress(b []byte, p *Progress) []byte {
	if p == nil {
		return b
	}
	b = appendUint(append(b, `,"progress":{"header_height":`...), p.Headers)
	b = appendUint(append(b, `,"highest_height":`...), p.Highest)
	b = appendUint(append(b, `,"state_parts":`...), p.Parts)
	return append(appendUint(append(b, `,"state_parts_here":`...), p.PartsHere), '}')
}

func appendHalted(b []byte, h *Halted) []byte {
	if h == nil {
		return b
	}
	b = appendOptionText(append(b, `,"halted":{"file":`...), h.File)
	b = appendUint(append(b, `,"height":`...), h.Height)
	b = AppendString(append(b, `,"reason":`...), h.Reason)
	return append(AppendTime(append(b, `,"since":`...), h.Since), '}')
}

// SyncInfo is the range of the chain that the node has; times in ns since 1970.
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

// AppendNodeStatus appends the reply of status, in either order. Older clients read a validator's
// is_slashed, which is always false.
func AppendNodeStatus(b []byte, s *Status, order Order) []byte {
	if order == StructOrder {
		return appendStatusStruct(b, s)
	}
	b = AppendString(append(b, `{"chain_id":`...), s.ChainID)
	b = AppendHash(append(b, `,"genesis_hash":`...), &s.GenesisHash)
	b = appendKeyWait(appendHalted(b, s.Halted), s.KeyWait)
	b = appendUint(append(b, `,"latest_protocol_version":`...), s.LatestProtocolVersion)
	b = appendMocked(b, s.Mocked)
	b = appendOptionKey(append(b, `,"node_key":`...), s.ValidatorPublicKey) // deprecated; the same as validator_public_key
	b = AppendKey(append(b, `,"node_public_key":`...), s.NodePublicKey)
	b = appendProgress(b, s.Progress)
	b = appendUint(append(b, `,"protocol_version":`...), s.ProtocolVersion)
	b = appendReplica(b, s.Replica)
	b = appendRPCAddr(b, s.RPCAddr)
	y := &s.Sync
	b = AppendHash(append(b, `,"sync_info":{"earliest_block_hash":`...), &y.EarliestBlockHash)
	b = appendUint(append(b, `,"earliest_block_height":`...), y.EarliestBlockHeight)
	b = AppendTime(append(b, `,"earliest_block_time":`...), y.EarliestBlockTime)
	b = AppendHash(append(b, `,"epoch_id":`...), &y.EpochID)
	b = appendUint(append(b, `,"epoch_start_height":`...), y.EpochStartHeight)
	b = AppendHash(append(b, `,"latest_block_hash":`...), &y.LatestBlockHash)
	b = appendUint(append(b, `,"latest_block_height":`...), y.LatestBlockHeight)
	b = AppendTime(append(b, `,"latest_block_time":`...), y.LatestBlockTime)
	b = AppendHash(append(b, `,"latest_state_root":`...), &y.LatestStateRoot)
	b = appendBool(append(b, `,"syncing":`...), y.Syncing)
	b = appendUpgrade(append(b, '}'), s.Upgrade)
	b = strconv.AppendInt(append(b, `,"uptime_sec":`...), s.UptimeSeconds, 10)
	b = appendOptionText(append(b, `,"validator_account_id":`...), string(s.ValidatorAccountID))
	b = appendOptionKey(append(b, `,"validator_public_key":`...), s.ValidatorPublicKey)
	b = appendStatusValidators(append(b, `,"validators":`...), s.Validators)
	v := &s.Version
	b = AppendString(append(b, `,"version":{"build":`...), v.Build)
	b = AppendString(append(b, `,"commit":`...), v.Commit)
	b = AppendString(append(b, `,"rustc_version":`...), v.Compiler)
	return append(AppendString(append(b, `,"version":`...), v.Version), "}}"...)
}

func appendStatusStruct(b []byte, s *Status) []byte {
	v := &s.Version
	b = AppendString(append(b, `{"version":{"version":`...), v.Version)
	b = AppendString(append(b, `,"build":`...), v.Build)
	b = AppendString(append(b, `,"commit":`...), v.Commit)
	b = AppendString(append(b, `,"rustc_version":`...), v.Compiler)
	b = AppendString(append(b, `},"chain_id":`...), s.ChainID)
	b = appendUint(append(b, `,"protocol_version":`...), s.ProtocolVersion)
	b = appendUint(append(b, `,"latest_protocol_version":`...), s.LatestProtocolVersion)
	b = appendRPCAddr(b, s.RPCAddr)
	b = appendStatusValidators(append(b, `,"validators":`...), s.Validators)
	y := &s.Sync
	b = AppendHash(append(b, `,"sync_info":{"latest_block_hash":`...), &y.LatestBlockHash)
	b = appendUint(append(b, `,"latest_block_height":`...), y.LatestBlockHeight)
	b = AppendHash(append(b, `,"latest_state_root":`...), &y.LatestStateRoot)
	b = AppendTime(append(b, `,"latest_block_time":`...), y.LatestBlockTime)
	b = appendBool(append(b, `,"syncing":`...), y.Syncing)
	b = AppendHash(append(b, `,"earliest_block_hash":`...), &y.EarliestBlockHash)
	b = appendUint(append(b, `,"earliest_block_height":`...), y.EarliestBlockHeight)
	b = AppendTime(append(b, `,"earliest_block_time":`...), y.EarliestBlockTime)
	b = AppendHash(append(b, `,"epoch_id":`...), &y.EpochID)
	b = appendUint(append(b, `,"epoch_start_height":`...), y.EpochStartHeight)
	b = appendOptionText(append(b, `},"validator_account_id":`...), string(s.ValidatorAccountID))
	b = appendOptionKey(append(b, `,"validator_public_key":`...), s.ValidatorPublicKey)
	b = AppendKey(append(b, `,"node_public_key":`...), s.NodePublicKey)
	b = appendOptionKey(append(b, `,"node_key":`...), s.ValidatorPublicKey)
	b = strconv.AppendInt(append(b, `,"uptime_sec":`...), s.UptimeSeconds, 10)
	b = AppendHash(append(b, `,"genesis_hash":`...), &s.GenesisHash)
	b = appendHalted(appendProgress(appendMocked(b, s.Mocked), s.Progress), s.Halted)
	b = appendKeyWait(appendReplica(b, s.Replica), s.KeyWait)
	return append(appendUpgrade(b, s.Upgrade), '}')
}

func appendMocked(b []byte, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	return appendStrings(append(b, `,"mocked_verification":`...), names)
}

func appendStatusValidators(b []byte, vs []primitives.AccountID) []byte {
	return appendList(b, vs, func(b []byte, a *primitives.AccountID) []byte {
		return append(AppendAccountID(append(b, `{"account_id":`...), *a), `,"is_slashed":false}`...)
	})
}

func appendRPCAddr(b []byte, addr string) []byte {
	if addr == "" {
		return b
	}
	return AppendString(append(b, `,"rpc_addr":`...), addr)
}

func appendOptionKey(b []byte, k primitives.PublicKey) []byte {
	if k == "" {
		return append(b, "null"...)
	}
	return AppendKey(b, k)
}

// appendOptionText appends null for an empty text.
func appendOptionText(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return AppendString(b, text)
}

// NetworkInfo is the reply of network_info (nearcore
// chain/jsonrpc-primitives/src/types/network_info.rs).
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

// AppendNetworkInfoView appends the network part of detailed_debug_status for a node without peers
// (nearcore NetworkInfoView).
func AppendNetworkInfoView(b []byte, n *NetworkInfo) []byte {
	b = appendUint(append(b, `{"peer_max_count":`...), n.PeerMaxCount)
	b = appendUint(append(b, `,"num_connected_peers":`...), uint64(len(n.ActivePeers)))
	return append(b, `,"connected_peers":[],"known_producers":[],"tier1_accounts_keys":[],"tier1_accounts_data":[],"tier1_connections":[]}`...)
}

// AppendNetworkInfo appends the reply of network_info, in either order. The members of known
// producers have the same order in both.
func AppendNetworkInfo(b []byte, n *NetworkInfo, order Order) []byte {
	active := uint64(len(n.ActivePeers))
	if order == StructOrder {
		b = appendList(append(b, `{"active_peers":`...), n.ActivePeers, func(b []byte, p *Peer) []byte {
			b = AppendKey(append(b, `{"id":`...), p.ID)
			b = appendOptionText(append(b, `,"addr":`...), p.Addr)
			return append(appendOptionText(append(b, `,"account_id":`...), string(p.AccountID)), '}')
		})
		b = appendUint(append(b, `,"num_active_peers":`...), active)
		b = appendUint(append(b, `,"peer_max_count":`...), n.PeerMaxCount)
		b = appendUint(append(b, `,"sent_bytes_per_sec":`...), n.SentBytesPerSec)
		b = appendUint(append(b, `,"received_bytes_per_sec":`...), n.ReceivedBytesPerSec)
		return append(appendProducers(append(b, `,"known_producers":`...), n.KnownProducers), '}')
	}
	b = appendList(append(b, `{"active_peers":`...), n.ActivePeers, func(b []byte, p *Peer) []byte {
		b = appendOptionText(append(b, `{"account_id":`...), string(p.AccountID))
		b = appendOptionText(append(b, `,"addr":`...), p.Addr)
		return append(AppendKey(append(b, `,"id":`...), p.ID), '}')
	})
	b = appendProducers(append(b, `,"known_producers":`...), n.KnownProducers)
	b = appendUint(append(b, `,"num_active_peers":`...), active)
	b = appendUint(append(b, `,"peer_max_count":`...), n.PeerMaxCount)
	b = appendUint(append(b, `,"received_bytes_per_sec":`...), n.ReceivedBytesPerSec)
	return append(appendUint(append(b, `,"sent_bytes_per_sec":`...), n.SentBytesPerSec), '}')
}

func appendProducers(b []byte, ps []KnownProducer) []byte {
	return appendList(b, ps, func(b []byte, p *KnownProducer) []byte {
		b = AppendAccountID(append(b, `{"account_id":`...), p.AccountID)
		b = appendOptionText(append(b, `,"addr":`...), p.Addr)
		return append(AppendKey(append(b, `,"peer_id":`...), p.PeerID), '}')
	})
}
