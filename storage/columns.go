package storage

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// The columns of the index. Each is described as key -> value. Sections of log records have kinds
// instead: see record_format.go. IDs from 0x01 are used by the store itself, IDs from 0x40 by the
// engine. 0xff is never used, because a scan of a column ends before the next ID.
var (
	// meta: name -> a single value of the store itself, such as its format version (meta.go).
	meta = column[string, Raw](0x01, "Meta", Replace, appendText)
	// entries: (height, hash) -> position of the block's record, and its head. As in all columns
	// here, only canonical blocks up to the flat head have rows.
	entries = column[BlockRef, entry](0x02, "Entry", Insert, appendRef)
	// hashHeights: first 8 bytes of the block hash, height -> nothing. The reader checks the whole
	// hash.
	hashHeights = column[shortRef, Nothing](0x03, "HashHeight", Insert, appendShortRef)
	// blockHeight: height -> hash of the canonical block.
	blockHeight = column[primitives.Height, primitives.Hash](0x04, "BlockHeight", Replace, appendHeight)
	// blockOrdinal: ordinal -> height of the canonical block.
	blockOrdinal = column[uint64, Uint64](0x05, "BlockOrdinal", Replace, binary.BigEndian.AppendUint64)
	// chunkPlaces: first 8 bytes of the chunk hash, height of a block that includes the chunk as
	// new, shard -> nothing.
	chunkPlaces = column[pointer, Nothing](0x06, "ChunkPlace", Insert, appendPointer)
	// places: history bucket, first 8 bytes of an outcome ID (transaction hash or receipt ID),
	// height, shard, index -> nothing. Blocks above the flat head are found in memory.
	places = column[placeKey, Nothing](0x07, "OutcomePlace", Insert, appendPlaceKey)
	// receiptPlaces: as places, for receipts, with the shard that created the receipt. txPlaces: as
	// places, for transactions without an outcome.
	receiptPlaces = column[placeKey, Nothing](0x08, "ReceiptPlace", Insert, appendPlaceKey)
	txPlaces      = column[placeKey, Nothing](0x09, "TransactionPlace", Insert, appendPlaceKey)
	// flat: trie key -> value at the flat head. In columns that belong to a shard, the shard
	// follows the first byte of the trie key.
	flat = column[string, packed](0x0a, "Flat", Replace, appendText)
	// undo: history bucket, escaped flat key, height of a block that changed the key -> location of
	// that change in the block's record. The change contains the key's previous value.
	undo = column[undoKey, undoValue](0x0b, "Undo", Insert, appendUndoKey)
	// frontier: shard, level, path -> hash and memory usage of the subtree there, at the flat head.
	frontier = column[frontierKey, frontierValue](0x0c, "Frontier", Replace, appendFrontierKey)
	// segments: number of a log segment -> the greatest height in it.
	segments = column[uint32, segmentInfo](0x0d, "Segment", Replace, binary.BigEndian.AppendUint32)
	// epochFirst: height of an epoch's first canonical block up to the flat head -> epoch ID.
	epochFirst = column[primitives.Height, primitives.Hash](0x0e, "EpochFirst", Insert, appendHeight)
	// collected: height of a collected canonical block -> its hash, so that a reply can say that
	// the block existed. These rows are kept for ever, as in nearcore's DBCol::BlockHeight
	// (core/store/src/columns.rs:723), and take 41 bytes a block.
	collected = column[primitives.Height, primitives.Hash](0x0f, "Collected", Insert, appendHeight)
	// splitParents: height of the first canonical block with a new shard layout, ID of a shard that
	// was split and is not in the new layout -> nothing.
	splitParents = column[splitKey, Nothing](0x10, "SplitParent", Insert, appendSplitKey)

	// steps: number of a synced write of the store to the index -> nothing. See index_sequence.go.
	steps = column[uint64, Nothing](0x11, "Step", Insert, binary.BigEndian.AppendUint64)

	// staged: shard that is being imported -> the block whose state is imported. stagedParts:
	// shard, number of a part that is stored -> nothing.
	staged      = column[primitives.ShardID, stagedCell](0x12, "Staged", Replace, appendShard)
	stagedParts = column[partKey, Nothing](0x13, "StagedPart", Insert, appendPartKey)
	// shardCells: shard whose state is, or once was, at another block than the flat head -> the
	// block of its state.
	shardCells = column[primitives.ShardID, shardCell](0x14, "Shard", Replace, appendShard)
	// catchupRecords: block, shard that was caught up after the block was committed -> position of
	// the record with the block's results in that shard.
	catchupRecords = column[catchupKey, entry](0x15, "CatchupRecord", Insert, appendCatchupKey)
	// historyBuckets: first height of a history bucket -> nothing. See history_bucket.go.
	historyBuckets = column[primitives.Height, Nothing](0x16, "HistoryBucket", Insert, appendHeight)
	// stateSnapshots: height of a block, shard -> the state snapshot (state_snapshot.go).
	// snapshotNodes: height of a block, shard, level, path -> frontier node, encoded as in column
	// frontier.
	stateSnapshots = column[snapshotKey, snapshotCell](0x17, "StateSnapshot", Replace, appendSnapshotKey)
	snapshotNodes  = column[snapshotNodeKey, frontierValue](0x18, "SnapshotNode", Replace, appendSnapshotNodeKey)

	// EpochInfo: epoch ID -> borsh EpochInfo.
	EpochInfo = column[primitives.EpochID, Raw](0x40, "EpochInfo", Insert, appendHash)
	// EpochStart: epoch ID -> height of its first block.
	EpochStart = column[primitives.EpochID, Uint64](0x41, "EpochStart", Replace, appendHash)
	// EpochLightClientBlock: epoch ID -> the light client's view of its last final block.
	EpochLightClientBlock = column[primitives.EpochID, Raw](0x42, "EpochLightClientBlock", Replace, appendHash)
	// EpochSummary: epoch ID -> validators, kickouts and proposals of an epoch that ended, for RPC
	// validators.
	EpochSummary = column[primitives.EpochID, Raw](0x43, "EpochSummary", Replace, appendHash)
	// Misc: name -> bytes: single values without a column of their own, for example "known_peers".
	Misc = column[string, Raw](0x45, "Misc", Replace, appendText)

	// HeaderRow: block hash -> data of a header that is ahead of the blocks (block_headers.go).
	// HeaderHeight: height, hash -> further data of that header. HeaderEpochInfo, HeaderEpochStart,
	// HeaderEpochSummary: epoch data known from headers alone. HeaderCell: name -> bytes.
	HeaderRow          = column[primitives.Hash, Raw](0x46, "HeaderRow", Replace, appendHash)
	HeaderHeight       = column[BlockRef, Raw](0x47, "HeaderHeight", Replace, appendRef)
	HeaderEpochInfo    = column[primitives.EpochID, Raw](0x48, "HeaderEpochInfo", Replace, appendHash)
	HeaderEpochStart   = column[primitives.EpochID, Uint64](0x49, "HeaderEpochStart", Replace, appendHash)
	HeaderEpochSummary = column[primitives.EpochID, Raw](0x4a, "HeaderEpochSummary", Replace, appendHash)
	HeaderCell         = column[string, Raw](0x4b, "HeaderCell", Replace, appendText)
)

// Raw is an opaque value.
type Raw []byte

// AppendBorsh appends the bytes unchanged.
func (v Raw) AppendBorsh(b []byte) []byte { return append(b, v...) }

// DecodeBorsh takes all remaining bytes.
func (v *Raw) DecodeBorsh(r *borsh.Reader) { *v = append(Raw{}, r.Take(r.Remaining())...) }

// Uint64 is a little-endian integer.
type Uint64 uint64

// AppendBorsh appends 8 bytes.
func (v Uint64) AppendBorsh(b []byte) []byte { return borsh.AppendUint64(b, uint64(v)) }

// DecodeBorsh reads 8 bytes.
func (v *Uint64) DecodeBorsh(r *borsh.Reader) { *v = Uint64(r.Uint64()) }

// Nothing is the value of rows that consist of a key alone.
type Nothing struct{}

// AppendBorsh appends nothing.
func (Nothing) AppendBorsh(b []byte) []byte { return b }

// DecodeBorsh reads nothing.
func (*Nothing) DecodeBorsh(*borsh.Reader) {}

func appendText(b []byte, s string) []byte          { return append(b, s...) }
func appendHash(b []byte, h primitives.Hash) []byte { return append(b, h[:]...) }
func appendHeight(b []byte, h primitives.Height) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(h))
}
