package chunkparts

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Bounds and times of nearcore: chunk_cache.rs:30, shards_manager_actor.rs:141.
const (
	HeightHorizon   primitives.Height = 128
	MaxAhead        primitives.Height = 5
	MaxForwards                       = 1000
	MaxForwardBytes                   = 64 << 20 // bytes of parts, proofs included
	// MaxCoded bounds the encoded body, in bytes, as derived from the length of one part. No body
	// is that long: its transactions are in a witness of at most 64 MiB.
	MaxCoded = 80 << 20
	Retry    = 100 // ms, the least time between two requests for a chunk
	// forwardWait is how long after its block, in ms, parts are requested that no peer forwards,
	// plus 1 ms for each forwardWaitBytes of the body: they may still be in transit.
	forwardWait      = 10
	forwardWaitBytes = 64 << 10
	// ms after which own parts are requested from other validators than the producer
	ToOthers  = 400
	FullFetch = 3_000 // ms after which all parts are requested
	// ms after which a chunk is not requested any more
	GiveUp           = 1_000_000
	maxEncodedChunks = 8 // re-encoded stored chunks
	// of their parts; the most recent one may exceed it
	maxEncodedBytes = 32 << 20
	// how far, in blocks, the head of a peer may be below the chunk to be asked for it
	peerHorizon primitives.Height = 5
)

// earlyHorizon is how many heights a partial chunk may be below the head and still wait for its
// previous block.
const earlyHorizon primitives.Height = 8

// Reasons why a message is dropped, besides the errors of package anchor.
var (
	ErrHorizon   = errors.New("chunk parts: the chunk is too old or too far ahead")
	ErrOther     = errors.New("chunk parts: there is another chunk of that shard and height")
	ErrPart      = errors.New("chunk parts: invalid part")
	ErrReceipts  = errors.New("chunk parts: receipts without a valid proof")
	ErrHeader    = errors.New("chunk parts: invalid header")
	ErrSignature = errors.New("chunk parts: not signed by the chunk's producer")
	ErrUnknown   = errors.New("chunk parts: unknown chunk")
)

// Chain is what the pool needs to know of the chain. Each answer is the present one and may change.
type Chain interface {
	Epoch(prev primitives.Hash) (id primitives.EpochID, known bool) // of a block on prev
	NextEpoch(prev primitives.Hash) (primitives.EpochID, error)     // the one after that
	Height(prev primitives.Hash) (h primitives.Height, known bool)  // of prev itself
	Layout(primitives.EpochID) (primitives.ShardLayout, error)
	Owner(id primitives.EpochID, part uint64) (primitives.AccountID, error)
	// Anchored returns whether a partial chunk of an epoch names the chunk's anchor (protocol feature
	// EarlyKickout), and whether the epoch is known.
	Anchored(primitives.EpochID) (anchored, known bool)
	// Producer returns the canonical producer of a chunk: the right one before EarlyKickout, and from
	// it on unless heights were skipped or a producer was replaced.
	Producer(primitives.EpochID, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// ProducerAt returns the producer of a chunk by its anchor, after anchor.Check. Errors:
	// anchor.ErrWrong; anchor.ErrEarly, with the producer if the anchor is known.
	ProducerAt(primitives.ChunkKey, primitives.ChunkAnchor) (primitives.ValidatorStake, error)
	// Following returns the producer of a shard's chunk of a height on an unknown child of a block, in
	// the given epoch.
	Following(primitives.EpochID, primitives.Hash, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error)
	// Parent returns the parent of a known block, zero for the genesis.
	Parent(primitives.Hash) (primitives.Hash, error)
	// Maker returns the producer of a shard's chunk on a known block, regardless of the height that
	// the chunk names (nearcore verify_chunk_header_signature_by_hash).
	Maker(prev primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	BlockProducers(primitives.EpochID) ([]primitives.AccountID, error)
	// Cares returns whether an account produces chunks of a shard in the epoch of a block on prev,
	// or in the next epoch. Holds returns whether this node tracks the shard then; an error means
	// that this is unknown.
	Cares(account primitives.AccountID, prev primitives.Hash, shard primitives.ShardID) bool
	Holds(prev primitives.Hash, shard primitives.ShardID) (bool, error)
	// StoredPartial returns what was stored from Complete.Partial, nil if nothing was. Stored
	// returns a stored chunk with its body, nil if there is none; its parts are computed again.
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

// Request is a request of a peer. The answer names From, which is opaque here.
type Request struct {
	*primitives.ChunkRequest
	From any
}

// Wanted lists the new chunks of a block on Prev. Ancestor is Prev if that is known, otherwise a
// known block of the same epoch. A chunk that was complete is requested again: it may have been
// evicted, or completed for other tracked shards. So the caller must not list chunks that it has.
type Wanted struct {
	Headers  []*primitives.ChunkHeader
	Ancestor primitives.Hash
	By       primitives.AccountID // producer of the block; empty: unknown
}

// BlockCame reports that a block is now known.
type BlockCame struct{ Hash primitives.Hash }

// Head is the head of the chain. It moves the horizon, and chunks on unknown blocks are taken to be
// of its epoch. Header and HeaderPrev are the highest known header and its parent, which decide
// whether a chunk is old; zero: those of Hash.
type Head struct {
	Hash, Prev         primitives.Hash
	Height             primitives.Height
	Header, HeaderPrev primitives.Hash
}

// Tick is sent every chunk_request_retry_period, 400 ms by default, and at Due.
type Tick struct{}

func (Made) event()      {}
func (Partial) event()   {}
func (Forward) event()   {}
func (Response) event()  {}
func (Request) event()   {}
func (Wanted) event()    {}
func (BlockCame) event() {}
func (Head) event()      {}
func (Tick) event()      {}

// Send is a message to a validator.
type Send struct {
	To   primitives.AccountID
	Body borsh.Appender // a message type of package primitives
}

// Ask is a request to Account. If PreferPeer is set or Account is empty, it goes to a peer that
// tracks Shard and has at least MinHeight.
type Ask struct {
	Account    primitives.AccountID
	PreferPeer bool
	Shard      primitives.ShardID
	MinHeight  primitives.Height
	Request    *primitives.ChunkRequest
}

// Answer is the response to a Request.
type Answer struct {
	To   any
	Body *primitives.ChunkResponse
}

// Complete is a chunk with all that this node needs: the body if it tracks the shard, otherwise
// proofs of the receipts to the shards that it tracks. Partial is what to store to answer requests.
type Complete struct {
	Chunk   *primitives.Chunk
	Partial *primitives.PartialChunk
}

// Out is what the caller has to do after a Step.
type Out struct {
	Send   []Send
	Ask    []Ask
	Answer []Answer
	// this validator's own parts are present: a block may include these chunks
	Ready    []*primitives.ChunkHeader
	Complete []Complete
	Bad      []*primitives.ChunkHeader // signed by their producers, but not decodable
}
