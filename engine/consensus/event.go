package consensus

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Peer names a neighbour, as the network does.
type Peer string

// Message is what nodes say to each other. Between neighbours: *primitives.Block, BlockRequest, HeadersRequest, Headers; to validators:
// *primitives.Approval, PartialChunk, ChunkForward, ChunkRequest, ChunkResponse, PartialWitness and Forwarded, WitnessAck,
// ChunkEndorsement, ContractAccesses, ContractCodeRequest, ContractCodeResponse, PartialContractDeploys, SignedTransaction. They are
// shared by their receivers, so read only.
type Message any

// BlockRequest asks for a block; it is answered with the block, or not at all.
type BlockRequest struct{ Hash primitives.Hash }

// HeadersRequest asks for the headers behind the first of these blocks that is on the other's chain.
type HeadersRequest struct{ Hashes []primitives.Hash }

// Headers answers it, parents first.
type Headers struct{ List []*primitives.BlockHeader }

// Forwarded is a part of a witness that a validator passes on.
type Forwarded struct{ *primitives.PartialWitness }

// Event is one of the types below.
type Event interface{ event() }

// Received is a message of another node.
type Received struct {
	From    Peer
	Message Message
}

// Submitted is a client's transaction.
type Submitted struct{ Tx *primitives.SignedTransaction }

// Tick comes when the time is there that Out.Wake named; more of them do no harm.
type Tick struct{}

// Done says that a job has run.
type Done struct{ Job uint64 }

// OnPersisted says that adopted blocks may have come to the disk (Options.Written).
type Persisted struct{}

// ShardsChanged says that the engine holds other shards than before: other things are needed of chunks.
type ShardsChanged struct{}

// KeyChanged says that the account signs with another key from here on; none: it signs nothing. What it has signed with the one before counts as before.
type KeyChanged struct{ Key primitives.SecretKey }

func (KeyChanged) event()    {}
func (Received) event()      {}
func (Submitted) event()     {}
func (Tick) event()          {}
func (Done) event()          {}
func (Persisted) event()     {}
func (ShardsChanged) event() {}

// Send is a message on its way out: to a validator, else to a neighbour, else to all of them.
type Send struct {
	To      primitives.AccountID
	Peer    Peer
	Message Message
	Again   bool // a block that all neighbours were told of before, and nothing has come of it
	// Ask says of a ChunkRequest who else may be asked; nil: nobody.
	Ask *chunkparts.Ask
}

// Job is work that may run on any goroutine, once; then Done is to be said.
type Job struct {
	ID  uint64
	Run func()
}

// Note is something that happened, for logs and traces.
type Note struct {
	What string
	Err  error
}

// Refusal is why a block is bad.
type Refusal struct {
	Block  primitives.Hash
	Height primitives.Height
	From   Peer // who has sent it; none: this node has it from itself
	Err    error
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("block %v of %q: %v", short(r.Block), r.From, r.Err)
}

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Err }

// ChunkRefusal is why a chunk, or its witness, is bad.
type ChunkRefusal struct {
	Chunk  primitives.Hash
	Shard  primitives.ShardID
	Height primitives.Height
	Err    error
}

func (r *ChunkRefusal) Error() string {
	return fmt.Sprintf("chunk %v of shard %d at %d: %v", short(r.Chunk), r.Shard, r.Height, r.Err)
}

// Unwrap returns the reason.
func (r *ChunkRefusal) Unwrap() error { return r.Err }

// Out is what is to be done, in this order.
type Out struct {
	Save      []byte             // Signatures; on disk before anything of Send leaves. nil: as they were
	Send      []Send             //
	Jobs      []Job              //
	Imported  []*engine.Accepted // blocks that are part of the chain now; they may not be on disk
	Persisted []*engine.Accepted // blocks that are on disk now
	Wake      int64              // when a Tick is due; 0: not by time
	Notes     []Note             //
	Refused   []error            // why what others have made is bad, whoever judges it: a *Refusal or *ChunkRefusal
	Fatal     error              // why this node cannot go on
}
