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
	MaxForwardBytes                   = 64 << 20  // of their parts
	MaxCoded                          = 80 << 20  // bytes of a chunk's body, from the length of one part: no body is that long, since its transactions are in a witness of 64 MiB
	Retry                             = 100       // ms: a chunk is asked for at most so often
	soon                              = 10        // ms after its block, at which parts that nobody passes on are asked for, and one more for each
	soonBytes                         = 64 << 10  // of the body: they may be on their way
	ToOthers                          = 400       // ms after which own parts are asked of others than the producer
	FullFetch                         = 3_000     // ms after which all parts are asked for
	GiveUp                            = 1_000_000 // ms
	maxCoded                          = 8         // stored chunks that were coded again
	maxCodedBytes                     = 32 << 20  // of parts of them, but for the last one's
	peerHorizon     primitives.Height = 5         // a peer that is asked instead is at most so far behind the chunk
)

// Refusals. The message is dropped.
var (
	ErrHorizon   = errors.New("parts: the chunk is too old or too far ahead")
	ErrOther     = errors.New("parts: there is another chunk of that shard and height")
	ErrPart      = errors.New("parts: bad part")
	ErrReceipts  = errors.New("parts: receipts that are not proven")
	ErrHeader    = errors.New("parts: bad header")
	ErrSignature = errors.New("parts: not signed by the chunk's producer")
	ErrUnknown   = errors.New("parts: unknown chunk")
)

// Chain is what must be known of the chain. Its answers are of the moment.
type Chain interface {
	Epoch(prev primitives.Hash) (id primitives.EpochID, known bool) // of the block behind prev
	NextEpoch(prev primitives.Hash) (primitives.EpochID, error)     // the one after that
	Height(prev primitives.Hash) (h primitives.Height, known bool)  // of prev itself
	Layout(primitives.EpochID) (primitives.ShardLayout, error)
	Owner(id primitives.EpochID, part uint64) (primitives.AccountID, error)
	Producer(primitives.EpochID, primitives.ShardID, primitives.Height) (primitives.ValidatorStake, error) // of a chunk
	// Maker is who was to make a shard's chunk on a known block, whichever height that says to be of (nearcore verify_chunk_header_signature_by_hash).
	Maker(prev primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	BlockProducers(primitives.EpochID) ([]primitives.AccountID, error)
	// Cares tells whether a validator makes chunks of a shard in the epoch behind prev, or the next; Holds whether this node holds it, or will then: what
	// can't be told is an error, and not that it doesn't.
	Cares(account primitives.AccountID, prev primitives.Hash, shard primitives.ShardID) bool
	Holds(prev primitives.Hash, shard primitives.ShardID) (bool, error)
	// StoredPartial returns what was kept of a chunk for others (Complete), nil if there is nothing; Stored a chunk with its body, of which parts are made
	// again where nothing was kept.
	StoredPartial(primitives.Hash) *primitives.PartialChunk
	Stored(primitives.Hash) *primitives.Chunk
}

// Event is one of the types below.
type Event interface{ event() }

// Made is a chunk of this validator, with its coded body: what chain.BuildChunk has made. Without Receipts these are proven here.
type Made struct {
	Chunk *primitives.Chunk
	Body  *chain.EncodedBody
}

// Partial, Forward and Response are what others have sent.
type (
	Partial  struct{ *primitives.PartialChunk }
	Forward  struct{ *primitives.ChunkForward }
	Response struct{ *primitives.ChunkResponse }
)

// Request is another's; the answer goes back to From, whatever that is.
type Request struct {
	*primitives.ChunkRequest
	From any
}

// Wanted are the new chunks of a block on Prev. If Prev is not known, Ancestor is a block of the same epoch that is; else it is Prev. One that was complete
// may be forgotten, or was for a node that held other shards: who has it does not want it.
type Wanted struct {
	Headers  []*primitives.ChunkHeader
	Ancestor primitives.Hash
	By       primitives.AccountID // who has made the block; none: that is not known
}

// BlockCame is a block that is known now.
type BlockCame struct{ Hash primitives.Hash }

// Head is the head of the chain, by which the horizon goes, and the epoch of what is on an unknown block. By the highest header that is known goes what is
// old; zero: it is the head's.
type Head struct {
	Hash, Prev         primitives.Hash
	Height             primitives.Height
	Header, HeaderPrev primitives.Hash
}

// Tick comes every chunk_request_retry_period, 400 ms, and when Due says.
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
	Body borsh.Appender // of primitives
}

// Ask is a request: to Account, or, if PreferPeer or there is none, to a peer that tracks the shard and is at least at MinHeight.
type Ask struct {
	Account    primitives.AccountID
	PreferPeer bool
	Shard      primitives.ShardID
	MinHeight  primitives.Height
	Request    *primitives.ChunkRequest
}

// Answer goes back to who has asked.
type Answer struct {
	To   any
	Body *primitives.ChunkResponse
}

// Complete is a chunk of which all is here that this node needs: the body if it holds the shard, else proofs of the receipts to those that it holds.
// Partial is what it is to keep for others.
type Complete struct {
	Chunk   *primitives.Chunk
	Partial *primitives.PartialChunk
}

// Out is what the shell is to do.
type Out struct {
	Send     []Send
	Ask      []Ask
	Answer   []Answer
	Ready    []*primitives.ChunkHeader // this validator has its own parts of them: they may go into a block
	Complete []Complete
	Bad      []*primitives.ChunkHeader // signed by their producers, and no chunks
}
