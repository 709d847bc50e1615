package consensus

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Peer identifies a connected peer.
type Peer string

// Message is a message between nodes. Messages between connected peers: *primitives.Block,
// BlockRequest, HeadersRequest, Headers. Messages to a validator: *primitives.Approval,
// PartialChunk, ChunkForward, ChunkRequest, ChunkResponse, PartialWitness, Forwarded,
// WitnessAck, OptimisticBlock, ChunkEndorsement, ContractAccesses, ContractCodeRequest, ContractCodeResponse,
// PartialContractDeploys, SignedTransaction. All receivers of a message get the same value, so they
// must not change it.
type Message any

// BlockRequest requests a block. The response is the block. A peer without the block does not
// respond.
type BlockRequest struct{ Hash primitives.Hash }

// HeadersRequest requests the headers after the first of Hashes that is on the peer's chain.
type HeadersRequest struct{ Hashes []primitives.Hash }

// Headers is the response to a HeadersRequest: headers, parents first.
type Headers struct{ List []*primitives.BlockHeader }

// Forwarded is a witness part that its first receiver forwards to the other validators.
type Forwarded struct{ *primitives.PartialWitness }

// Event is an input of Node.Step: one of the types below.
type Event interface{ event() }

// Received is an event: a message from a peer has arrived.
type Received struct {
	From    Peer
	Message Message
}

// Submitted is an event: a client has submitted a transaction. Only the simulator sends Submitted. A
// node sends Received without From, because its network actor forwards the transaction.
type Submitted struct{ Tx *primitives.SignedTransaction }

// Tick is an event: the time Out.Wake has come. A Tick before Out.Wake, or an additional Tick, is
// harmless.
type Tick struct{}

// Done is an event: a job of Out.Jobs has run.
type Done struct{ Job uint64 }

// Persisted is an event: imported blocks may have reached the disk (Options.OnPersisted).
type Persisted struct{}

// ShardsChanged is an event: the set of shards that the engine holds has changed, so received
// blocks may need chunk bodies that they did not need before.
type ShardsChanged struct{}

// KeyChanged is an event: the account has another signing key. With the zero key the node signs
// nothing. The record of signatures stays valid: the node signs nothing with the new key that
// contradicts a signature by the old key. Wait says when the new key may sign.
type KeyChanged struct {
	Key  primitives.SecretKey
	Wait KeyWait
}

func (KeyChanged) event()    {}
func (Received) event()      {}
func (Submitted) event()     {}
func (Tick) event()          {}
func (Done) event()          {}
func (Persisted) event()     {}
func (ShardsChanged) event() {}

// Send is an outgoing message. If To is set, the receiver is that validator. Otherwise, if Peer is
// set, the receiver is that connected peer. Otherwise, if Receivers is set, the receivers are those
// validators. If all three are empty, the receivers are all connected peers.
type Send struct {
	To      primitives.AccountID
	Peer    Peer
	Message Message
	// Receivers are the receivers of an optimistic block, which is sent only over direct connections.
	// nil for all other messages.
	Receivers []primitives.AccountID
	Again     bool // the broadcast of a block is repeated, because the head has not changed since
	// Ask names further peers that can answer a ChunkRequest. nil: there are none.
	Ask *chunkparts.Ask
}

// Job is work that the shell runs once, on any goroutine. Afterwards it sends Done.
type Job struct {
	ID  uint64
	Run func()
	// Optimistic means that no message or block waits for the job. The shell must not delay other
	// jobs by running the job.
	Optimistic bool
}

// Note is a line for logs and traces.
type Note struct {
	What string
	Err  error
}

// Refusal reports that a block is invalid.
type Refusal struct {
	Block  primitives.Hash
	Height primitives.Height
	From   Peer // peer that sent it; empty: this node
	Err    error
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("block %v of %q: %v", short(r.Block), r.From, r.Err)
}

// Unwrap returns the reason of the refusal.
func (r *Refusal) Unwrap() error { return r.Err }

// ChunkRefusal reports that a chunk or its witness is invalid.
type ChunkRefusal struct {
	Chunk  primitives.Hash
	Shard  primitives.ShardID
	Height primitives.Height
	Err    error
}

func (r *ChunkRefusal) Error() string {
	return fmt.Sprintf("chunk %v of shard %d at %d: %v", short(r.Chunk), r.Shard, r.Height, r.Err)
}

// Unwrap returns the reason of the refusal.
func (r *ChunkRefusal) Unwrap() error { return r.Err }

// Out contains the effects of a step. The shell carries them out in the order of the fields.
type Out struct {
	Save      []byte // encoded Signatures, which must be on disk before Send is sent; nil: unchanged
	Send      []Send
	Jobs      []Job
	Imported  []*engine.Imported // blocks that this step added to the chain; the blocks may not be on disk yet
	Persisted []*engine.Imported // imported blocks that are on disk now
	Wake      int64              // time of the next Tick, in ns since 1970; 0: none
	Notes     []Note
	Refused   []error // invalid blocks and chunks of peers: *Refusal or *ChunkRefusal
	Fatal     error   // error after which this node cannot continue; nil: none
}
