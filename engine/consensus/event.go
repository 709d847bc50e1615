package consensus

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Peer names a neighbour in the network.
type Peer string

// Message is a message between nodes. Between neighbours: *primitives.Block, BlockRequest,
// HeadersRequest, Headers. To validators: *primitives.Approval, PartialChunk, ChunkForward,
// ChunkRequest, ChunkResponse, PartialWitness and Forwarded, WitnessAck, ChunkEndorsement,
// ContractAccesses, ContractCodeRequest, ContractCodeResponse, PartialContractDeploys,
// SignedTransaction. Receivers share a message, so it is read-only.
type Message any

// BlockRequest requests a block. The answer is the block, or none.
type BlockRequest struct{ Hash primitives.Hash }

// HeadersRequest requests the headers after the first of these blocks that is on the peer's chain.
type HeadersRequest struct{ Hashes []primitives.Hash }

// Headers answers a HeadersRequest, parents first.
type Headers struct{ List []*primitives.BlockHeader }

// Forwarded is a witness part forwarded by a validator.
type Forwarded struct{ *primitives.PartialWitness }

// Event is an input of Node.Step: one of the types below.
type Event interface{ event() }

// Received is a message of a peer.
type Received struct {
	From    Peer
	Message Message
}

// Submitted is a client's transaction.
type Submitted struct{ Tx *primitives.SignedTransaction }

// Tick reports that the time Out.Wake has come. An early or additional Tick is harmless.
type Tick struct{}

// Done reports that a job has run.
type Done struct{ Job uint64 }

// Persisted reports that imported blocks may have reached the disk (Options.OnPersisted).
type Persisted struct{}

// ShardsChanged reports that the engine holds other shards than before, so waiting blocks need
// other chunk bodies.
type ShardsChanged struct{}

// KeyChanged changes the key with which the account signs; the zero key: it signs nothing. What was
// signed with the previous key still counts.
type KeyChanged struct{ Key primitives.SecretKey }

func (KeyChanged) event()    {}
func (Received) event()      {}
func (Submitted) event()     {}
func (Tick) event()          {}
func (Done) event()          {}
func (Persisted) event()     {}
func (ShardsChanged) event() {}

// Send is an outgoing message: to the validator To, else to the neighbour Peer, else to all
// neighbours.
type Send struct {
	To      primitives.AccountID
	Peer    Peer
	Message Message
	Again   bool // a block that was broadcast before without effect
	// Ask names further peers that can answer a ChunkRequest; nil: none.
	Ask *chunkparts.Ask
}

// Job is work to run once, on any goroutine. Then the shell sends Done.
type Job struct {
	ID  uint64
	Run func()
}

// Note describes an event for logs and traces.
type Note struct {
	What string
	Err  error
}

// Refusal reports an invalid block.
type Refusal struct {
	Block  primitives.Hash
	Height primitives.Height
	From   Peer // the sender; empty: this node
	Err    error
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("block %v of %q: %v", short(r.Block), r.From, r.Err)
}

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Err }

// ChunkRefusal reports an invalid chunk or witness.
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

// Out is the effects of a step, to be carried out in this order.
type Out struct {
	Save      []byte             // encoded Signatures, to be on disk before any of Send leaves; nil: unchanged
	Send      []Send             //
	Jobs      []Job              //
	Imported  []*engine.Accepted // blocks added to the chain; they may not be on disk
	Persisted []*engine.Accepted // blocks that are on disk now
	Wake      int64              // when a Tick is due, ns since 1970; 0: at no time
	Notes     []Note             //
	Refused   []error            // invalid blocks and chunks of peers: *Refusal or *ChunkRefusal
	Fatal     error              // why this node cannot continue
}
