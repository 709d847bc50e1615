package backend

import (
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// This file encodes the JSON of neard's debug pages (nearcore chain/client/src/debug.rs). The JSON
// contains the data that a single validator without peers has. Members are in the order of
// nearcore's structs.

// Bounds on the size of debug pages, as in nearcore.
const (
	debugBlocks    = 50
	maxDebugBlocks = 1000
	debugEpochs    = 5
)

type debugEpoch struct {
	Height      uint64             `json:"epoch_height"`
	ID          primitives.EpochID `json:"epoch_id"`
	First       primitives.Height  `json:"height"`
	FirstBlock  []any              `json:"first_block"` // hash and time of the block; null: the epoch has not begun
	Producers   []debugAccount     `json:"block_producers"`
	Chunks      []string           `json:"chunk_producers"`
	Validators  []string           `json:"chunk_validators"`
	Info        json.RawMessage    `json:"validator_info"`
	Protocol    uint32             `json:"protocol_version"`
	Sync        *primitives.Hash   `json:"sync_hash"`
	ShardsParts [][3]any           `json:"shards_size_and_parts"`
}

type debugAccount struct {
	Account primitives.AccountID `json:"account_id"`
}

type debugChunk struct {
	Shard    primitives.ShardID    `json:"shard_id"`
	Hash     primitives.Hash       `json:"chunk_hash"`
	Producer *primitives.AccountID `json:"chunk_producer"`
	Gas      primitives.Gas        `json:"gas_used"`
}

type debugBlock struct {
	Hash      primitives.Hash       `json:"block_hash"`
	Prev      primitives.Hash       `json:"prev_block_hash"`
	Height    primitives.Height     `json:"block_height"`
	Timestamp uint64                `json:"block_timestamp"`
	Producer  *primitives.AccountID `json:"block_producer"`
	Missing   bool                  `json:"full_block_missing"`
	Canonical bool                  `json:"is_on_canonical_chain"`
	Chunks    []debugChunk          `json:"chunks"`
	Price     json.Number           `json:"gas_price_ratio"`
}

type debugMissed struct {
	Height   primitives.Height     `json:"block_height"`
	Producer *primitives.AccountID `json:"block_producer"`
}

// Debug returns the JSON of a debug page, or nil if there is no page of that name. Debug returns
// *view.LookupError for an unknown epoch.
func (b *Backend) Debug(q *view.Debug) ([]byte, error) {
	name, value := "", any(nil)
	var err error
	switch q.Page {
	case "status":
		return b.debugStatus()
	case "tracked_shards":
		name, value = "TrackedShards", b.trackedShards()
	case "sync_status":
		name, value = "SyncStatus", "NoSync"
	case "catchup_status":
		name, value = "CatchupStatus", []any{}
	case "requested_state_parts":
		name, value = "RequestedStateParts", []any{}
	case "epoch_info", "epoch_info_light":
		name = "EpochInfo"
		value, err = b.debugEpochs(q.Epoch, q.Page == "epoch_info")
	case "block_status":
		name = "BlockStatus"
		value, err = b.debugBlocks(q)
	case "validator_status":
		name = "ValidatorStatus"
		value, err = b.debugValidator()
	case "chain_processing_status":
		name, value = "ChainProcessingStatus", struct {
			Processing int   `json:"num_blocks_in_processing"`
			Orphans    int   `json:"num_orphans"`
			Missing    int   `json:"num_blocks_missing_chunks"`
			Blocks     []any `json:"blocks_info"`
			Floating   []any `json:"floating_chunks_info"`
		}{Blocks: []any{}, Floating: []any{}}
	case "split_store_info":
		s, err := b.SplitStorage()
		if err != nil {
			return nil, err
		}
		name, value = "SplitStoreStatus", json.RawMessage(view.AppendSplitStorage(nil, s))
	case "peer_store":
		name, value = "PeerStore", b.debugPeers(q.Page, view.PeerStore{PeerStates: []view.KnownPeer{}})
	case "network_graph":
		name, value = "NetworkGraph", b.debugPeers(q.Page, view.NetworkGraph{Edges: []view.NetworkEdge{}, NextHops: map[string][]primitives.PublicKey{}})
	case "recent_outbound_connections":
		name, value = "RecentOutboundConnections", b.debugPeers(q.Page, view.RecentConnections{List: []view.RecentConnection{}})
	case "snapshot_hosts":
		name, value = "SnapshotHosts", b.debugPeers(q.Page, view.SnapshotHosts{Hosts: []view.SnapshotHost{}})
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"status_response": map[string]any{name: value}})
}

// debugPeers returns the data of a page about peers; empty for a node without a network.
func (b *Backend) debugPeers(page string, empty any) any {
	if n, ok := b.Network.(PeerDebugger); ok {
		return n.DebugPeers(page)
	}
	return empty
}

// debugStatus returns status with additional fields for the debug page.
func (b *Backend) debugStatus() ([]byte, error) {
	s, err := b.Status()
	if err != nil {
		return nil, err
	}
	net, err := b.NetworkInfo()
	if err != nil {
		return nil, err
	}
	var c struct {
		Delay string `json:"min_block_production_delay"` // the text of a JSON list [seconds, nanoseconds]
	}
	var delay [2]uint64
	if err := json.Unmarshal(b.Config, &c); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(c.Delay), &delay); err != nil {
		return nil, err
	}
	head := view.At{Height: s.Sync.LatestBlockHeight, Hash: s.Sync.LatestBlockHash}
	at := func(out []byte) []byte {
		out = view.AppendHash(append(out, `{"hash":`...), &head.Hash)
		return append(strconv.AppendUint(append(out, `,"height":`...), uint64(head.Height), 10), '}')
	}
	out := view.AppendNodeStatus(nil, s, view.StructOrder)
	out = append(out[:len(out)-1], `,"detailed_debug_status":{"network_info":`...)
	out = view.AppendNetworkInfoView(out, net)
	out = at(append(out, `,"sync_status":"NoSync","catchup_status":[],"current_head_status":`...))
	out = at(append(out, `,"current_header_head_status":`...))
	out = strconv.AppendUint(append(out, `,"block_production_delay_millis":`...), delay[0]*1000+delay[1]/1_000_000, 10)
	return append(out, "}}"...), nil
}

func (b *Backend) trackedShards() any {
	held := []bool{}
	for i := range b.Engine.Head().Shards {
		held = append(held, b.Engine.Head().Shards[i].Held())
	}
	return struct {
		This []bool `json:"shards_tracked_this_epoch"`
		Next []bool `json:"shards_tracked_next_epoch"`
	}{held, held}
}

func names(list []primitives.ValidatorStake) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = string(list[i].AccountID)
	}
	return out
}

// fillEpoch sets in out the validators of an epoch and the roles of these validators.
func fillEpoch(m *epoch.Manager, id primitives.EpochID, out *debugEpoch) error {
	info, err := m.EpochInfo(id)
	if err != nil {
		return err
	}
	producers, err := m.BlockProducersOrdered(id)
	if err != nil {
		return err
	}
	chunks, err := m.ChunkProducers(id)
	if err != nil {
		return err
	}
	version, err := m.ProtocolVersion(id)
	out.ID, out.Height, out.Protocol = id, info.EpochHeight, uint32(version)
	out.Chunks, out.Validators, out.Producers, out.ShardsParts = names(chunks), names(info.Validators), []debugAccount{}, [][3]any{}
	for i := range producers {
		out.Producers = append(out.Producers, debugAccount{producers[i].AccountID})
	}
	return err
}

// debugEpochs describes the next epoch, the epoch of the head or, if `of` is set, the epoch `of`,
// and the epochs before that one.
func (b *Backend) debugEpochs(of *primitives.EpochID, whole bool) ([]debugEpoch, error) {
	out := []debugEpoch{}
	head := b.Engine.Head()
	at, latest := head.Hash, true
	if of != nil && *of != head.Header().EpochID {
		list, err := b.Engine.Store().Epochs()
		if err != nil {
			return nil, err
		}
		latest = false
		at = primitives.Hash{}
		for _, x := range list {
			if x.Epoch == *of {
				if at, err = b.Engine.Store().HashAt(x.Height); err != nil {
					return nil, err
				}
			}
		}
		if at.IsZero() {
			return out, nil
		}
	}
	for n := range debugEpochs {
		var e debugEpoch
		var first primitives.Height
		var length uint64
		var next debugEpoch
		h, err := b.Engine.Header(at)
		if err == nil {
			err = b.Engine.Epochs(func(m *epoch.Manager) (err error) {
				if first, length, _, err = m.EpochSpan(at); err != nil {
					return err
				}
				if n == 0 && fillEpoch(m, h.NextEpochID, &next) == nil {
					next.First = first + primitives.Height(length)
					out = append(out, next)
				}
				return fillEpoch(m, h.EpochID, &e)
			})
		}
		var hash primitives.Hash
		if err == nil {
			hash, err = b.Engine.Store().HashAt(first)
		}
		var begin *primitives.BlockHeader
		if err == nil {
			begin, err = b.Engine.Header(hash)
		}
		if err != nil {
			if errors.Is(err, engine.ErrUnknown) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) || n > 0 {
				return out, nil // garbage collection has deleted the epoch's blocks
			}
			return nil, err
		}
		e.First, e.FirstBlock = first, []any{hash, json.RawMessage(view.AppendTime(nil, begin.Timestamp))}
		e.ShardsParts = b.shardSizes(hash)
		if whole {
			ref := view.EpochRef{Kind: view.EpochByID, ID: h.EpochID}
			if latest && n == 0 {
				ref = view.EpochRef{}
			}
			v, err := b.Validators(ref)
			if err != nil {
				return out, nil
			}
			e.Info = view.AppendValidators(nil, v)
		}
		out = append(out, e)
		if begin.PrevHash.IsZero() || begin.PrevHash == b.Engine.Genesis().Hash {
			return out, nil
		}
		at = begin.PrevHash
	}
	return out, nil
}

// shardSizes returns the sizes of shard states after a block, and the number of state parts of each
// shard. It leaves out shards whose state is not available.
func (b *Backend) shardSizes(block primitives.Hash) [][3]any {
	out := [][3]any{}
	at, err := b.Engine.StateAt(block)
	if err != nil {
		return out
	}
	defer at.Release()
	for i := range at.Shards {
		size := uint64(0)
		if at.Shards[i].Held() {
			size = at.Trie(primitives.ShardIndex(i)).MemoryUsage()
		}
		parts := uint64(0)
		if size > 0 {
			parts = trie.NumParts(size)
		}
		out = append(out, [3]any{size, parts, false})
	}
	return out
}

// debugBlocks describes the blocks of the chain from a height downwards, and the skipped heights.
func (b *Backend) debugBlocks(q *view.Debug) (any, error) {
	head := b.Engine.Head()
	out := struct {
		Blocks []debugBlock    `json:"blocks"`
		Missed []debugMissed   `json:"missed_heights"`
		Head   primitives.Hash `json:"head"`
		Header primitives.Hash `json:"header_head"`
	}{[]debugBlock{}, []debugMissed{}, head.Hash, head.Hash}
	from := head.Height()
	if q.Height != nil {
		from = min(*q.Height, head.Height())
	}
	n := uint64(debugBlocks)
	if q.Blocks != nil {
		n = min(*q.Blocks, maxDebugBlocks)
	}
	genesis := b.Engine.Genesis()
	low := max(from-min(from, primitives.Height(n)), genesis.Height())
	last := head.Header().EpochID
	for height := from; height > low; height-- {
		k, err := b.find(view.BlockRef{Kind: view.RefHeight, Height: height})
		if err != nil {
			missed := debugMissed{Height: height}
			_ = b.Engine.Epochs(func(m *epoch.Manager) error {
				if p, err := m.BlockProducer(last, height); err == nil {
					missed.Producer = &p.AccountID
				}
				return nil
			})
			out.Missed = append(out.Missed, missed)
			continue
		}
		x, err := b.debugBlock(k.ref.Hash)
		if err != nil {
			return nil, err
		}
		out.Blocks = append(out.Blocks, x)
		if h, err := b.Engine.Header(k.ref.Hash); err == nil {
			last = h.EpochID
			// If heights below the page were skipped, also append the next lower block, at which
			// the skipped heights begin.
			if h.PrevHeight < low && h.PrevHeight+1 != height {
				if x, err := b.debugBlock(h.PrevHash); err == nil {
					out.Blocks = append(out.Blocks, x)
				}
			}
		}
	}
	return out, nil
}

func (b *Backend) debugBlock(hash primitives.Hash) (out debugBlock, err error) {
	author, block, err := b.ownBlock(view.BlockRef{Kind: view.RefHash, Hash: hash})
	if err != nil {
		return out, err
	}
	h := block.Header
	out = debugBlock{Hash: hash, Prev: h.PrevHash, Height: h.Height, Timestamp: h.Timestamp, Producer: &author, Canonical: true, Chunks: []debugChunk{},
		Price: ratio(h.NextGasPrice, b.Engine.Genesis().Header().NextGasPrice)}
	for i := range block.Body.Chunks {
		c := block.Body.Chunks[i]
		x := debugChunk{Shard: c.ShardID, Hash: c.ChunkHash(), Gas: c.PrevGasUsed}
		_ = b.Engine.Epochs(func(m *epoch.Manager) error {
			if p, err := m.ChunkProducerFromPrev(h.PrevHash, c.ShardID); err == nil {
				x.Producer = &p.AccountID
			}
			return nil
		})
		out.Chunks = append(out.Chunks, x)
	}
	return out, nil
}

// ratio formats a quotient as serde writes an f64.
func ratio(a, b primitives.Balance) json.Number {
	x, ok1 := new(big.Float).SetString(a.String())
	y, ok2 := new(big.Float).SetString(b.String())
	if !ok1 || !ok2 || y.Sign() == 0 {
		return "1.0"
	}
	f, _ := new(big.Float).Quo(x, y).Float64()
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

func (b *Backend) debugValidator() (any, error) {
	head := b.Engine.Head()
	out := struct {
		Name       *primitives.AccountID `json:"validator_name"`
		Shards     int                   `json:"shards"`
		Head       primitives.Height     `json:"head_height"`
		Validators [][2]any              `json:"validators"`
		Approvals  []any                 `json:"approval_history"`
		Production []any                 `json:"production"`
		Banned     []any                 `json:"banned_chunk_producers"`
	}{Shards: len(head.Shards), Head: head.Height(), Validators: [][2]any{}, Approvals: []any{}, Production: []any{}, Banned: []any{}}
	if key := b.validator.Load(); key != nil {
		out.Name = &key.AccountID
	}
	list, err := b.ValidatorsOrdered(nil)
	for i := range list {
		near, _ := new(big.Int).SetString(list[i].Stake.String(), 10)
		near.Quo(near, new(big.Int).Exp(big.NewInt(10), big.NewInt(24), nil))
		out.Validators = append(out.Validators, [2]any{list[i].AccountID, near.Uint64()})
	}
	return out, err
}
