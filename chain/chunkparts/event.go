package chunkparts

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Bounds and times of nearcore (chunk_cache.rs:30, shards_manager_actor.rs:141), unless noted.
const (
	HeightHorizon   primitives.Height = 128
	MaxAhead        primitives.Height = 5
	MaxForwards                       = 1000
	MaxForwardBytes                   = 64 << 20 // bytes of forwarded parts with their proofs
	// MaxCoded is the maximum length of an encoded body in bytes, as computed from the length of
	// one part. A valid body is shorter, because its transactions must also fit into a witness of
	// at most 64 MiB.
	MaxCoded = 80 << 20
	Retry    = 100 // minimum time in ms between two requests for a chunk
	// If no peer forwards parts, missing parts are requested forwardWait ms after the block has
	// arrived, plus 1 ms for each forwardWaitBytes of the body. The parts of a large body may still
	// be in transit.
	forwardWait      = 10
	forwardWaitBytes = 64 << 10
	// ToOthers is the time in ms after which this validator's parts are requested from validators
	// other than the producer.
	ToOthers  = 400
	FullFetch = 3_000 // time in ms after which all parts are requested
	// GiveUp is the time in ms after which a chunk is not requested any more.
	GiveUp           = 1_000_000
	maxEncodedChunks = 8 // maximum number of re-encoded stored chunks in the cache
	// maxEncodedBytes bounds the bytes of the parts and receipts of cached stored chunks
	// (encodedChunk). The most recent encodedChunk is kept even if it alone exceeds the bound.
	maxEncodedBytes = 32 << 20
	// peerHorizon is the maximum number of heights by which the head of a peer may be below a chunk
	// for the chunk to be requested from that peer.
	peerHorizon primitives.Height = 5
)

// earlyHorizon is the maximum number of heights by which a partial chunk may be below the head for
// it to be queued until its previous block arrives.
const earlyHorizon primitives.Height = 8

// Reasons to drop a message, besides the errors of package anchor.
var (
	ErrHorizon   = errors.New("chunk parts: the chunk is too old or too far ahead")
	ErrOther     = errors.New("chunk parts: this node has a different chunk of the same shard and height")
	ErrPart      = errors.New("chunk parts: invalid part")
	ErrReceipts  = errors.New("chunk parts: receipts without a valid proof")
	ErrHeader    = errors.New("chunk parts: invalid header")
	ErrSignature = errors.New("chunk parts: not signed by the chunk's producer")
	ErrUnknown   = errors.New("chunk parts: unknown chunk")
)

// Chain provides the chain data that the pool needs. Results may change between calls.
type Chain interface {
	Blocks
	Epochs
	Producers
	Tracking
	StoredChunks
}

// Blocks places blocks in the chain.
type Blocks interface {
	// Epoch returns the epoch of a block whose parent is prev. NextEpoch returns the epoch after
	// that epoch. Height returns the height of prev. known is false if prev is unknown.
	Epoch(prev primitives.Hash) (id primitives.EpochID, known bool)
	NextEpoch(prev primitives.Hash) (primitives.EpochID, error)
	Height(prev primitives.Hash) (h primitives.Height, known bool)
	// Parent returns the parent of a known block, zero for the genesis.
	Parent(primitives.Hash) (primitives.Hash, error)
}

// Epochs describes epochs. The pool caches its results.
type Epochs interface {
	Layout(primitives.EpochID) (primitives.ShardLayout, error)
	Owner(id primitives.EpochID, part uint64) (primitives.AccountID, error)
	BlockProducers(primitives.EpochID) ([]primitives.AccountID, error)
	// Anchored returns whether a partial chunk of an epoch must have an anchor (protocol feature
	// EarlyKickout), and whether the epoch is known.
	Anchored(primitives.EpochID) (anchored, known bool)
}

// Producers says which validator produces a chunk.
type Producers interface {
	// Producer returns the canonical producer of a chunk: the producer by stake and height alone.
	// Before EarlyKickout, the canonical producer is the chunk's producer. From EarlyKickout on,
	// the canonical producer is the chunk's producer only if no height was skipped and EarlyKickout
	// has not excluded that producer.
	Producer(primitives.EpochID, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// ProducerAt calls anchor.Check and returns the producer that the anchor determines. Errors:
	// anchor.ErrWrong, anchor.ErrEarly. Together with anchor.ErrEarly, ProducerAt returns the
	// producer if the anchor is known.
	ProducerAt(primitives.ChunkKey, primitives.ChunkAnchor) (primitives.ValidatorStake, error)
	// Following returns the producer of a shard's chunk at a height in the given epoch. It assumes
	// that the chunk's previous block is an unknown child of the given block.
	Following(primitives.EpochID, primitives.Hash, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// Maker returns the producer of a shard's chunk on a known block. It ignores the height in the
	// chunk header (nearcore verify_chunk_header_signature_by_hash).
	Maker(prev primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
}

// Tracking says which nodes track a shard.
type Tracking interface {
	// Trackers returns the accounts that produce chunks of a shard in the epoch of prev's children
	// or in the next epoch. The result depends only on these two epochs. An account may occur
	// repeatedly. Holds returns whether this node tracks the shard in one of these two epochs.
	// Trackers and Holds return an error if prev is unknown.
	Trackers(prev primitives.Hash, shard primitives.ShardID) ([]primitives.AccountID, error)
	Holds(prev primitives.Hash, shard primitives.ShardID) (bool, error)
}

// StoredChunks finds chunks on disk.
type StoredChunks interface {
	// StoredPartial returns the stored Complete.Partial of a chunk. Stored returns a stored chunk
	// with its body. Both return nil if nothing is stored. The parts of such a chunk are not
	// stored; the pool computes them again.
	StoredPartial(primitives.Hash) *primitives.PartialChunk
	Stored(primitives.Hash) *primitives.Chunk
}

// Event is an input of Pool.Step: one of the types below.
type Event interface{ event() }

// Made is a chunk that this validator produced, with its encoded body, as returned by
// chain.BuildChunk. If Body.Receipts is nil, the pool computes the receipt proofs.
type Made struct {
	Chunk *primitives.Chunk
	Body  *chain.EncodedBody
}

// Partial, Forward and Response are messages from the network.
type (
	Partial  struct{ *primitives.PartialChunk }
	Forward  struct{ *primitives.ChunkForward }
	Response struct{ *primitives.ChunkResponse }
)

// Request is a peer's request. From identifies the peer. The pool only copies From to Answer.To.
type Request struct {
	*primitives.ChunkRequest
	From any
}

// Wanted lists the new chunks of a block whose parent is Prev. Ancestor is Prev if Prev is known,
// otherwise a known block of the same epoch. The pool requests a listed chunk even if the pool has
// completed the chunk before. The chunk may have been evicted since, or completed for other tracked
// shards. So the caller must not list chunks that it has stored.
type Wanted struct {
	Headers  []*primitives.ChunkHeader
	Ancestor primitives.Hash
	By       primitives.AccountID // producer of the block; empty: unknown
}

// BlockArrived reports that the block Hash is imported. The block may not be on disk yet.
type BlockArrived struct{ Hash primitives.Hash }

// Head is the head of the chain. The horizon moves with Height. The pool assumes that a chunk on an
// unknown block is in the epoch of Hash's children. Header and HeaderPrev are the highest known
// header and its parent. Header and HeaderPrev determine whether a chunk is old. If Header is zero,
// the pool uses Hash and Prev instead.
type Head struct {
	Hash, Prev         primitives.Hash
	Height             primitives.Height
	Header, HeaderPrev primitives.Hash
}

// Tick is sent every chunk_request_retry_period (400 ms by default) and at the time that Pool.Due
// returns.
type Tick struct{}

func (Made) event()         {}
func (Partial) event()      {}
func (Forward) event()      {}
func (Response) event()     {}
func (Request) event()      {}
func (Wanted) event()       {}
func (BlockArrived) event() {}
func (Head) event()         {}
func (Tick) event()         {}

// Send is a message to a validator.
type Send struct {
	To   primitives.AccountID
	Body borsh.Appender // a message type of package primitives
}

// Ask is a request to Account for parts and receipts. If PreferPeer is set or Account is empty, the
// caller sends the request to a connected peer that tracks Shard and whose head is at least at
// MinHeight.
type Ask struct {
	Account    primitives.AccountID
	PreferPeer bool
	Shard      primitives.ShardID
	MinHeight  primitives.Height
	Request    *primitives.ChunkRequest
}

// Answer is the response to a Request. To is Request.From.
type Answer struct {
	To   any
	Body *primitives.ChunkResponse
}

// Complete is a chunk with all data that this node needs. If this node tracks the shard, the needed
// data is the body. Otherwise the needed data is the receipts to tracked shards, with proofs. The
// caller must store Partial in order to answer requests.
type Complete struct {
	Chunk   *primitives.Chunk
	Partial *primitives.PartialChunk
}

// Out lists what the caller has to do after Step.
type Out struct {
	Send   []Send
	Ask    []Ask
	Answer []Answer
	// Ready are chunks for which this validator has all parts that it owns. A block may include
	// them.
	Ready    []*primitives.ChunkHeader
	Complete []Complete
	Bad      []*primitives.ChunkHeader // headers that the producer signed, although the parts do not decode
	Timed    []Timed
}

// Timing is a state of a chunk whose time is measured.
type Timing uint8

// States of a chunk: all parts that this validator owns are present; all receipts that it needs are
// present; there are enough parts to restore the chunk. Received is a chunk that a block needed and
// that is now complete.
const (
	OwnParts Timing = iota
	Receipts
	Decodable
	Received
	Timings = 4 // number of states
)

// Timed is the time in ms from the arrival of a chunk's header until the chunk reached a state. Of
// Received it is the time from the first Wanted with the chunk.
type Timed struct {
	Timing Timing
	Shard  primitives.ShardID
	Ms     int64
}
