package epoch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// EarlyKickoutVersion is the first protocol version in which the producer of a chunk is read from
// the BlockInfo of its anchor (nearcore ProtocolFeature::EarlyKickout). See package earlykickout for
// the rule.
const EarlyKickoutVersion primitives.ProtocolVersion = 87

// shardBlacklist contains one shard's blacklist, and draws among the producers that are not on the
// blacklist.
type shardBlacklist struct {
	listed []ValidatorID // excluded producers, ascending; empty: the draw is the canonical draw
	// number of producers that qualify for the list; if all producers qualify, the best is not
	// listed
	candidates int
	sampler    *earlykickout.Sampler // nil if listed is empty
}

// anchorOf returns the anchor of chunks that a child of parent in the epoch id may include. It
// returns nil if these chunks have the canonical producers at parent.Height+1. All code calls
// anchorOf to decide between the two cases. Errors: ErrMissingBlock.
func (m *Manager) anchorOf(parent *BlockInfo, id primitives.EpochID, info *EpochInfo) (*BlockInfo, error) {
	return findAnchor(parent.PrevHash, id, info, m.BlockInfo)
}

// findAnchor does the same as anchorOf if the caller knows the anchor's hash. hash is zero for
// children of the genesis. find returns the anchor's BlockInfo.
func findAnchor(hash primitives.Hash, id primitives.EpochID, info *EpochInfo,
	find func(primitives.Hash) (*BlockInfo, error)) (*BlockInfo, error) {
	c := earlykickout.Chunk{
		Enabled: info.ProtocolVersion >= EarlyKickoutVersion, HasAnchor: !hash.IsZero(), Epoch: id,
	}
	if !c.NeedsAnchor() {
		return nil, nil
	}
	a, err := find(hash)
	if err != nil || !c.IsAnchored(a.EpochID) {
		return nil, err
	}
	return a, nil
}

// producerOfRow returns the producer in the row of an anchor and a shard. Errors:
// ErrChunkProducerNotInDB.
func producerOfRow(anchor *BlockInfo, info *EpochInfo, shard primitives.ShardID,
	index primitives.ShardIndex) (ValidatorID, error) {
	if index < 0 || int(index) >= len(anchor.ChunkProducers) {
		return 0, chunkProducerNotInDB(anchor.Hash, shard)
	}
	id := anchor.ChunkProducers[index]
	if id >= ValidatorID(len(info.Validators)) {
		return 0, fmt.Errorf("%w: block %v names chunk producer %d of %d validators", ErrBlockInfo, anchor.Hash, id,
			len(info.Validators))
	}
	return id, nil
}

// chunkProducersOn returns the producers of the chunks in children of parent that are in epoch id,
// by shard index. Errors: ErrMissingBlock, ErrChunkProducerNotInDB, ErrSharding.
func (m *Manager) chunkProducersOn(parent *BlockInfo, id primitives.EpochID, info *EpochInfo,
	layout primitives.ShardLayout) ([]ValidatorID, error) {
	anchor, err := m.anchorOf(parent, id, info)
	if err != nil {
		return nil, err
	}
	shards := layout.ShardIDs()
	out := make([]ValidatorID, len(shards))
	for i, shard := range shards {
		if anchor == nil {
			out[i], err = info.SampleChunkProducer(layout, primitives.ShardIndex(i), parent.Height+1)
		} else {
			out[i], err = producerOfRow(anchor, info, shard, primitives.ShardIndex(i))
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ChunkProducerFromPrev returns the producer of a shard's chunk on a parent block. This producer
// must sign the chunk, and the chunk counts in the producer's statistics (nearcore
// get_chunk_producer_info_from_prev_block). The caller must not change the result. Errors:
// ErrSharding, ErrChunkProducerNotInDB. ErrMissingBlock if the parent is unknown or, from protocol
// version 87 on, if the parent's parent is unknown.
func (m *Manager) ChunkProducerFromPrev(parent primitives.Hash,
	shard primitives.ShardID) (*primitives.ValidatorStake, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return nil, err
	}
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	return m.AnchoredChunkProducer(p.PrevHash, id, shard, p.Height+1)
}

// ChunkProducerInEpoch does the same as ChunkProducerFromPrev for old blocks, whose parent may have
// been garbage collected. id is the block's epoch, at the parent's height. find returns the
// BlockInfo of the parent or the anchor if this Manager does not have it. ChunkProducerInEpoch
// calls find only from protocol version 87 on.
func (m *Manager) ChunkProducerInEpoch(id primitives.EpochID, parent primitives.Hash, at primitives.Height,
	shard primitives.ShardID, find func(primitives.Hash) (*BlockInfo, error)) (*primitives.ValidatorStake, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	if info.ProtocolVersion < EarlyKickoutVersion {
		return m.CanonicalChunkProducer(id, shard, at+1)
	}
	old := func(hash primitives.Hash) (*BlockInfo, error) {
		b, err := m.BlockInfo(hash)
		if errors.Is(err, ErrMissingBlock) {
			return find(hash)
		}
		return b, err
	}
	p, err := old(parent)
	if err != nil {
		return nil, err
	}
	return m.anchoredChunkProducer(p.PrevHash, id, shard, at+1, old)
}

// AnchoredChunkProducer returns the producer of a shard's chunk, given the chunk's epoch, anchor
// and height_created. The parent need not be known (nearcore get_chunk_producer_info_anchored). For
// children of the genesis the anchor is zero. If the parent is known, the caller must check that
// epoch, anchor and height match the parent. The caller must not change the result. Errors:
// ErrSharding. From protocol version 87 on also ErrMissingBlock if the anchor is unknown, and
// ErrChunkProducerNotInDB if the anchor has no row.
func (m *Manager) AnchoredChunkProducer(anchor primitives.Hash, id primitives.EpochID, shard primitives.ShardID,
	h primitives.Height) (*primitives.ValidatorStake, error) {
	return m.anchoredChunkProducer(anchor, id, shard, h, m.BlockInfo)
}

func (m *Manager) anchoredChunkProducer(anchor primitives.Hash, id primitives.EpochID, shard primitives.ShardID,
	h primitives.Height, find func(primitives.Hash) (*BlockInfo, error)) (*primitives.ValidatorStake, error) {
	info, layout, index, err := m.shard(id, shard)
	if err != nil {
		return nil, err
	}
	a, err := findAnchor(anchor, id, info, find)
	if err != nil {
		return nil, err
	}
	var v ValidatorID
	if a == nil {
		v, err = info.SampleChunkProducer(layout, index, h)
	} else {
		v, err = producerOfRow(a, info, shard, index)
	}
	if err != nil {
		return nil, err
	}
	return &info.Validators[v], nil
}

// ForecastChunkProducer returns the likely producer of a shard's chunk at a height above a recorded
// block head (see ChunkForecast). id is the epoch of head's children or an epoch after that. Use
// the result only for routing and forecasts, and do not change it.
func (m *Manager) ForecastChunkProducer(head primitives.Hash, id primitives.EpochID, shard primitives.ShardID,
	h primitives.Height) (*primitives.ValidatorStake, error) {
	f, err := m.ForecastChunks(head, id)
	if err != nil {
		return nil, err
	}
	index, err := f.layout.Index(shard)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	v, err := f.Sample(index, h)
	if err != nil {
		return nil, err
	}
	return &f.info.Validators[v], nil
}

// ChunkForecast draws the likely chunk producers of an epoch, as of some block. For the height
// after that block the result is certain. For greater heights the forecast assumes that no height
// is skipped and that the blacklist does not change.
type ChunkForecast struct {
	info   *EpochInfo
	layout primitives.ShardLayout
	lists  []shardBlacklist
	height primitives.Height // height after the block
	next   []ValidatorID     // chunk producers at height, by shard index; nil: height is in another epoch
}

// ForecastChunks returns the forecast for an epoch as of the recorded block head. ForecastChunks
// uses the blacklist of head, or no blacklist if head is of another epoch.
func (m *Manager) ForecastChunks(head primitives.Hash, id primitives.EpochID) (*ChunkForecast, error) {
	b, err := m.BlockInfo(head)
	if err != nil {
		return nil, err
	}
	f := &ChunkForecast{height: b.Height + 1}
	if f.info, err = m.EpochInfo(id); err != nil {
		return nil, err
	}
	if f.layout, err = m.layoutOf(f.info); err != nil {
		return nil, err
	}
	a, err := findAnchor(head, id, f.info, m.BlockInfo)
	if err != nil {
		return nil, err
	}
	if a != nil {
		if f.lists, err = m.blacklist(a, f.info, f.layout); err != nil {
			return nil, err
		}
	}
	next, err := m.EpochIDFromPrev(head)
	if err != nil {
		return nil, err
	}
	if next == id {
		f.next, err = m.chunkProducersOn(b, id, f.info, f.layout)
	}
	return f, err
}

// Sample returns the likely producer of a shard's chunk for a height. Errors: ErrSharding.
func (f *ChunkForecast) Sample(index primitives.ShardIndex, h primitives.Height) (ValidatorID, error) {
	if h == f.height && index >= 0 && int(index) < len(f.next) {
		return f.next[index], nil
	}
	return f.info.sampleWithout(f.lists, f.layout, index, h)
}

// ChunkProducerBlacklist returns the validators that the rows of a recorded block exclude,
// ascending, by shard index. It returns nil if no validator is excluded in any shard. This is
// always so before protocol version 87 (nearcore get_chunk_producer_blacklist).
func (m *Manager) ChunkProducerBlacklist(anchor primitives.Hash) ([][]ValidatorID, error) {
	a, err := m.BlockInfo(anchor)
	if err != nil {
		return nil, err
	}
	info, err := m.EpochInfo(a.EpochID)
	if err != nil || info.ProtocolVersion < EarlyKickoutVersion {
		return nil, err
	}
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, err
	}
	lists, err := m.blacklist(a, info, layout)
	if err != nil || !slices.ContainsFunc(lists, func(l shardBlacklist) bool { return l.listed != nil }) {
		return nil, err
	}
	out := make([][]ValidatorID, len(lists))
	for i := range lists {
		out[i] = lists[i].listed
	}
	return out, nil
}

// blacklist returns the blacklists of an anchor, by shard index, or nil if no shard has a
// candidate. info and layout belong to the anchor's epoch. The blacklists depend only on the last
// final block, which is the key of the cache Manager.lists.
//
// The height of the last final block alone decides whether that block is in the anchor's epoch. So
// blacklist does not need the BlockInfo of a final block in the epoch before, which may be unknown
// after an epoch sync. Errors: ErrMissingBlock if the last final block is in the anchor's epoch and
// unknown.
func (m *Manager) blacklist(anchor *BlockInfo, info *EpochInfo,
	layout primitives.ShardLayout) ([]shardBlacklist, error) {
	if anchor.LastFinalBlockHash.IsZero() {
		return nil, nil
	}
	first, err := m.BlockInfo(anchor.EpochFirstBlock)
	if err != nil {
		return nil, err
	}
	if anchor.LastFinalizedHeight < first.Height {
		return nil, nil
	}
	final, err := m.BlockInfo(anchor.LastFinalBlockHash)
	if err != nil || m.kickout.InGrace(final.Height, first.Height) {
		return nil, err
	}
	if lists, ok := m.lists.get(anchor.LastFinalBlockHash); ok {
		return lists, nil
	}
	a, err := m.aggregate(anchor.LastFinalBlockHash, false)
	if err != nil {
		return nil, err
	}
	if m.aggregator == nil {
		// After a restart, a forecast may be requested before the next block arrives. Keep these
		// statistics, because counting a long epoch takes seconds. RecordBlockInfo of the next
		// block continues from these statistics.
		m.aggregator = a
	}
	lists, err := m.listShards(a, info, layout)
	if err != nil {
		return nil, err
	}
	m.lists.put(anchor.LastFinalBlockHash, lists)
	return lists, nil
}

// listShards returns the blacklists that follow from the statistics of an epoch, or nil if no shard
// has a candidate.
func (m *Manager) listShards(a *Aggregator, info *EpochInfo, layout primitives.ShardLayout) ([]shardBlacklist, error) {
	out, some := make([]shardBlacklist, layout.NumShards()), false
	for i := range min(len(out), len(info.ChunkProducers), len(a.Chunks)) {
		counters := a.Chunks[i]
		listed, candidates := m.kickout.Blacklist(info.ChunkProducers[i], func(id ValidatorID) earlykickout.Production {
			return earlykickout.Production(counters[id].Production)
		})
		out[i].candidates, some = candidates, some || candidates > 0
		if len(listed) == 0 {
			continue
		}
		stake := func(id ValidatorID) primitives.Balance { return info.Validators[id].Stake }
		sampler, err := earlykickout.NewSampler(info.ChunkProducers[i], stake, listed)
		if err != nil {
			return nil, fmt.Errorf("%w: shard index %d: %w", ErrSharding, i, err)
		}
		out[i].listed, out[i].sampler = listed, sampler
	}
	if !some {
		return nil, nil
	}
	return out, nil
}

// sampleWithout draws the producer of a shard's chunk for a height, excluding listed producers.
// lists is a result of blacklist.
func (e *EpochInfo) sampleWithout(lists []shardBlacklist, layout primitives.ShardLayout, index primitives.ShardIndex,
	h primitives.Height) (ValidatorID, error) {
	if int(index) >= len(lists) || lists[index].sampler == nil {
		return e.SampleChunkProducer(layout, index, h)
	}
	return lists[index].sampler.Sample(e.chunkProducerSeed(h, layout.ShardIDs()[index])), nil
}

// anchorRows returns the ChunkProducers of a block: the producers of the chunks in the block's
// epoch whose anchor is the block, by shard index. anchorRows returns nil before protocol version
// 87. The block's epoch fields must be set, and the block's ancestors must be recorded.
func (m *Manager) anchorRows(b *BlockInfo) ([]ValidatorID, error) {
	info, err := m.EpochInfo(b.EpochID)
	if err != nil || info.ProtocolVersion < EarlyKickoutVersion {
		return nil, err
	}
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, err
	}
	lists, err := m.blacklist(b, info, layout)
	if err != nil {
		return nil, err
	}
	rows, err := info.anchorRows(layout, lists, b.Height)
	if err != nil {
		return nil, err
	}
	return rows, m.countRows(rows, info, layout, lists, b.Height)
}

// EarlyKickoutStats contains nearcore's metrics near_early_kickout_* of one shard.
type EarlyKickoutStats struct {
	Shard      primitives.ShardID
	Reassigned uint64 // number of rows whose producer is not the canonical producer
	// number of rows for which all producers qualified for exclusion, so that the best producer was
	// kept
	Kept       uint64
	Candidates int // number of producers that qualify for exclusion after the last recorded block
}

// EarlyKickoutStats returns the counters since the start of the process, by shard ID.
// EarlyKickoutStats returns nil before protocol version 87.
func (m *Manager) EarlyKickoutStats() []EarlyKickoutStats {
	out := slices.Collect(maps.Values(m.kickouts))
	slices.SortFunc(out, func(a, b EarlyKickoutStats) int { return cmp.Compare(a.Shard, b.Shard) })
	return out
}

// countRows adds the rows of a newly recorded block to the counters.
func (m *Manager) countRows(rows []ValidatorID, info *EpochInfo, layout primitives.ShardLayout, lists []shardBlacklist,
	anchor primitives.Height) error {
	for id, s := range m.kickouts { // also reset shards that no longer exist after a split
		s.Candidates = 0
		m.kickouts[id] = s
	}
	for i, id := range layout.ShardIDs() {
		s := m.kickouts[id]
		s.Shard = id
		if i < len(lists) {
			l := &lists[i]
			if s.Candidates = l.candidates; l.candidates > len(l.listed) {
				s.Kept++
			}
			if l.sampler != nil {
				canonical, err := info.SampleChunkProducer(layout, primitives.ShardIndex(i), anchor+earlykickout.AnchorHeightOffset)
				if err != nil {
					return err
				}
				if canonical != rows[i] {
					s.Reassigned++
				}
			}
		}
		m.kickouts[id] = s
	}
	return nil
}

func (e *EpochInfo) anchorRows(layout primitives.ShardLayout, lists []shardBlacklist,
	anchor primitives.Height) (rows []ValidatorID, err error) {
	rows = make([]ValidatorID, layout.NumShards())
	for i := range rows {
		if rows[i], err = e.sampleWithout(lists, layout, primitives.ShardIndex(i), anchor+earlykickout.AnchorHeightOffset); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// SetFirstChunkProducers sets ChunkProducers of the first block after an epoch sync proof.
// SetFirstChunkProducers assumes an empty blacklist, because the statistics before this block are
// unknown. info is the info of the block's epoch (nearcore chain/epoch-manager/src/lib.rs
// init_after_epoch_sync). Errors: ErrSharding.
func (b *BlockInfo) SetFirstChunkProducers(info *EpochInfo) (err error) {
	if info.ProtocolVersion < EarlyKickoutVersion {
		return nil
	}
	if info.ShardLayout.IsZero() {
		return fmt.Errorf("%w: no shard layout in the epoch of block %v", ErrSharding, b.Hash)
	}
	b.ChunkProducers, err = info.anchorRows(info.ShardLayout, nil, b.Height)
	return err
}

// StoredBlockInfo is the stored form of a BlockInfo: the encoding that is hashed, followed by
// ChunkProducers unless that is empty.
type StoredBlockInfo struct{ *BlockInfo }

// AppendBorsh appends the BlockInfo and its ChunkProducers.
func (s StoredBlockInfo) AppendBorsh(b []byte) []byte {
	b = s.BlockInfo.AppendBorsh(b)
	return AppendChunkProducers(b, s.BlockInfo)
}

// DecodeBorsh reads the stored form, which must extend to the end of the input.
func (s *StoredBlockInfo) DecodeBorsh(r *borsh.Reader) {
	s.BlockInfo = new(BlockInfo)
	s.BlockInfo.DecodeBorsh(r)
	ReadChunkProducers(r, s.BlockInfo)
}

// AppendChunkProducers appends a block's ChunkProducers as a list of u64, or nothing if
// ChunkProducers is empty. The encoding must end there, because an empty list cannot be
// distinguished from the end.
func AppendChunkProducers(b []byte, info *BlockInfo) []byte {
	if len(info.ChunkProducers) == 0 {
		return b
	}
	return borsh.AppendUint64s(b, info.ChunkProducers)
}

// ReadChunkProducers reads what AppendChunkProducers has written, up to the end of the input.
func ReadChunkProducers(r *borsh.Reader, info *BlockInfo) {
	if r.Err() != nil || r.Remaining() == 0 {
		return
	}
	if info.ChunkProducers = r.Uint64s(); r.Err() == nil && len(info.ChunkProducers) == 0 {
		r.Failf("an empty list of chunk producers")
	}
}
