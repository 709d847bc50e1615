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
	MaxForwardBytes                   = 64 << 20 // bytes of parts, proofs included
	// MaxCoded is the maximum length of an encoded body in bytes, as computed from the length of
	// one part. A valid body is shorter, because its transactions must also fit into a witness of
	// at most 64 MiB.
	MaxCoded = 80 << 20
	Retry    = 100 // ms, minimum time between two requests for a chunk
	// forwardWait is how long after the block, in ms, missing parts are requested if no peer
	// forwards them. The time grows by 1 ms for each forwardWaitBytes of the body, because the
	// parts may still be in transit.
	forwardWait      = 10
	forwardWaitBytes = 64 << 10
	// ToOthers is the time in ms after which own parts are requested from validators other than the
	// producer.
	ToOthers  = 400
	FullFetch = 3_000 // ms after which all parts are requested
	// GiveUp is the time in ms after which a chunk is not requested any more.
	GiveUp           = 1_000_000
	maxEncodedChunks = 8 // maximum number of re-encoded stored chunks in the cache
	// maxEncodedBytes bounds the bytes of the parts and receipts of cached stored chunks
	// (encodedChunk). The most recent one is kept even if it alone exceeds the bound.
	maxEncodedBytes = 32 << 20
	// peerHorizon is how many heights the head of a peer may be below a chunk that is requested
	// from it.
	peerHorizon primitives.Height = 5
)

// earlyHorizon is how many heights a partial chunk may be below the head and still wait for its
// previous block.
const earlyHorizon primitives.Height = 8

// Reasons to drop a message, besides the errors of package anchor.
var (
	ErrHorizon   = errors.New("chunk parts: the chunk is too old or too far ahead")
	ErrOther     = errors.New("chunk parts: there is another chunk of that shard and height")
	ErrPart      = errors.New("chunk parts: invalid part")
	ErrReceipts  = errors.New("chunk parts: receipts without a valid proof")
	ErrHeader    = errors.New("chunk parts: invalid header")
	ErrSignature = errors.New("chunk parts: not signed by the chunk's producer")
	ErrUnknown   = errors.New("chunk parts: unknown chunk")
)

// Chain is what the pool needs to know of the chain. Results may change between calls.
type Chain interface {
	// Epoch returns the epoch of a block whose parent is prev. NextEpoch returns the epoch after
	// that. Height returns the height of prev itself. known is false if prev is unknown.
	Epoch(prev primitives.Hash) (id primitives.EpochID, known bool)
	NextEpoch(prev primitives.Hash) (primitives.EpochID, error)
	Height(prev primitives.Hash) (h primitives.Height, known bool)
	Layout(primitives.EpochID) (primitives.ShardLayout, error)
	Owner(id primitives.EpochID, part uint64) (primitives.AccountID, error)
	// Anchored returns whether a partial chunk of an epoch must have an anchor (protocol feature
	// EarlyKickout), and whether the epoch is known.
	Anchored(primitives.EpochID) (anchored, known bool)
	// Producer returns the canonical producer of a chunk. Before EarlyKickout, the canonical
	// producer is the chunk's producer. From EarlyKickout on, it is so only if no height was
	// skipped and the producer was not replaced.
	Producer(primitives.EpochID, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// ProducerAt calls anchor.Check and returns the producer that the anchor determines. Errors:
	// anchor.ErrWrong; anchor.ErrEarly, in which case it also returns the producer if the anchor is
	// known.
	ProducerAt(primitives.ChunkKey, primitives.ChunkAnchor) (primitives.ValidatorStake, error)
	// Following returns the producer of a shard's chunk at a height, in the given epoch, if the
	// chunk's previous block is a child of the given block that is not known yet.
	Following(primitives.EpochID, primitives.Hash, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// Parent returns the parent of a known block, zero for the genesis.
	Parent(primitives.Hash) (primitives.Hash, error)
	// Maker returns the producer of a shard's chunk on a known block, whatever height the chunk
	// header contains (nearcore verify_chunk_header_signature_by_hash).
	Maker(prev primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	BlockProducers(primitives.EpochID) ([]primitives.AccountID, error)
	// Cares returns whether an account produces chunks of a shard in the epoch of a block on prev,
	// or in the next epoch. Holds returns whether this node tracks the shard in one of these
	// epochs; it returns an error if that is unknown.
	Cares(account primitives.AccountID, prev primitives.Hash, shard primitives.ShardID) bool
	Holds(prev primitives.Hash, shard primitives.ShardID) (bool, error)
	// StoredPartial returns the stored Complete.Partial of a chunk, or nil if there is none. Stored
	// returns a stored chunk with its body, or nil if there is none. The parts of such a chunk are
	// not stored; the pool computes them again.
	StoredPartial(primitives.Hash) *primitives.PartialChunk
	Stored(primitives.Hash) *primitives.Chunk
}

// Event is an input of Pool.Step: one of the types below.
type Event interface{ event() }

// Made is a chunk that this validator produced, with its encoded body, as chain.BuildChunk returns
// them. If Body.Receipts is nil, the receipt proofs are computed here.
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

// Request is a request of a peer. From identifies the peer; the pool only copies it to Answer.To.
type Request struct {
	*primitives.ChunkRequest
	From any
}

// Wanted lists the new chunks of a block whose parent is Prev. Ancestor is Prev if that is known,
// otherwise a known block of the same epoch. The pool requests a listed chunk even if it was
// complete before, because it may have been evicted since, or was completed for other tracked
// shards. So the caller must not list chunks that it has stored.
type Wanted struct {
	Headers  []*primitives.ChunkHeader
	Ancestor primitives.Hash
	By       primitives.AccountID // producer of the block; empty: unknown
}

// BlockArrived reports that the block Hash is known from now on.
type BlockArrived struct{ Hash primitives.Hash }

// Head is the head of the chain. The horizon moves with Height. A chunk on an unknown block is
// assumed to be in the epoch of Hash's children. Header and HeaderPrev are the highest known header
// and its parent. They determine whether a chunk is old. If Header is zero, Hash and Prev are used
// instead.
type Head struct {
	Hash, Prev         primitives.Hash
	Height             primitives.Height
	Header, HeaderPrev primitives.Hash
}

// Tick must be sent every chunk_request_retry_period, 400 ms by default, and at the time Pool.Due.
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

// Ask is a request for parts and receipts to Account. If PreferPeer is set or Account is empty, it
// is sent to a connected peer that tracks Shard and whose head is at MinHeight or above.
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

// Complete is a chunk with all that this node needs: the body if it tracks the shard, otherwise the
// receipts to the shards that it tracks, with proofs. Partial must be stored to answer requests.
type Complete struct {
	Chunk   *primitives.Chunk
	Partial *primitives.PartialChunk
}

// Out lists what the caller has to do after Step.
type Out struct {
	Send   []Send
	Ask    []Ask
	Answer []Answer
	// Ready are chunks of which this validator has all its own parts, so that a block may include
	// them.
	Ready    []*primitives.ChunkHeader
	Complete []Complete
	Bad      []*primitives.ChunkHeader // signed by their producers, but their parts do not decode
}
