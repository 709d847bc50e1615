package partialwitness

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Reasons why a message is dropped.
var (
	ErrIrrelevant = errors.New("witness: the chunk is too old, too far ahead or of another epoch")
	ErrPart       = errors.New("witness: invalid part")
	ErrSigner     = errors.New("witness: the signature is not by the expected validator")
	ErrAssigned   = errors.New("witness: the validator is not assigned to the chunk")
	ErrKnown      = errors.New("witness: already known")
	ErrUnasked    = errors.New("witness: not requested")
	ErrContracts  = errors.New("witness: not the contracts that were requested or called")
	ErrEarly      = errors.New("witness: the chunk's previous block is unknown")
)

// Messages that name their anchor also fail with the errors of package anchor.

// Chain is what a Tracker needs to know of the chain. Each answer is the present one and may
// change.
type Chain interface {
	// Relevant returns whether a chunk can still be included: the epoch is possible for the height
	// and has the shard, and the height is above the final block and at most MaxAhead above the
	// head.
	Relevant(primitives.ChunkKey) bool
	// Anchored returns whether the messages about chunks of an epoch name the chunk's anchor
	// (protocol feature EarlyKickout), and whether the epoch is known.
	Anchored(primitives.EpochID) (anchored, known bool)
	// Producer returns the producer of a chunk whose messages name no anchor.
	Producer(primitives.ChunkKey) (primitives.ValidatorStake, error)
	// ProducerAt returns the producer of a chunk whose messages name an anchor, after anchor.Check.
	// Errors: anchor.ErrWrong; anchor.ErrEarly, with the producer if the anchor is known.
	ProducerAt(primitives.ChunkKey, primitives.ChunkAnchor) (primitives.ValidatorStake, error)
	// Parent returns the parent of a known block, zero for the genesis.
	Parent(primitives.Hash) (primitives.Hash, error)
	Validators(primitives.ChunkKey) ([]chain.Assigned, error) // of a chunk, in order of assignment
	Producers(primitives.EpochID, primitives.ShardID) ([]primitives.AccountID, error)
	AllValidators(primitives.EpochID) ([]primitives.AccountID, error)
	Key(primitives.EpochID, primitives.AccountID) (primitives.PublicKey, error) // of a validator
	BlockProducer(primitives.EpochID, primitives.Height) (primitives.AccountID, error)
}

// MaxAhead is how far above the head a chunk may be, in blocks (nearcore validate.rs:22).
const MaxAhead = 5

// Event is an input of Tracker.Step: one of the types below.
type Event interface{ event() }

// Made is a chunk that this validator produced, with its witness, the contracts that it called, and
// the code that it deployed.
type Made struct {
	Witness    *primitives.ChunkStateWitness
	Transition primitives.TransitionKey
	Accesses   []primitives.Hash
	Deploys    [][]byte
}

// Part is a part of a witness. Forward: it was forwarded by another validator; otherwise it comes
// from the chunk's producer.
type Part struct {
	Part    *primitives.PartialWitness
	Forward bool
}

// Held reports that this validator, which tracks the shard, found a chunk valid without its witness.
// Prev is the chunk's previous block, which is known.
type Held struct {
	Key   primitives.ChunkKey
	Chunk primitives.Hash
	Prev  primitives.Hash
}

// Accesses is the list of contracts that a witness calls. Held: this validator tracks the shard,
// and so has their code.
type Accesses struct {
	Accesses *primitives.ContractAccesses
	Held     bool
}

// CodeAsked is a request for contracts. Codes returns the code that the main transition of the
// chunk called. It returns ErrContracts if that transition is not at, ErrEarly if the chunk's
// previous block is unknown. It may apply the previous chunk again, so it is called only for
// assigned validators, once for each, and again with each block while it returns ErrEarly.
type CodeAsked struct {
	Request *primitives.ContractCodeRequest
	Codes   func(key primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error)
}

// Code is a response to a code request.
type Code struct {
	Response *primitives.ContractCodeResponse
}

// Deploys is a part of deployed code, from the chunk's producer or forwarded by the owner of the
// part.
type Deploys struct {
	Part *primitives.PartialContractDeploys
}

// Judged is the result of a Judgement. Early: the chunk's previous block was unknown, and the head
// was at Head. Lacks: code that the witness calls was missing.
type Judged struct {
	Judgement
	Good, Early, Lacks bool
	Head               primitives.Height
}

// BlockRecorded reports that the epoch manager knows a block. It comes before BlockCame, if at all.
type BlockRecorded struct{ Hash primitives.Hash }

// BlockCame reports that a block is known now, and the last final height.
type BlockCame struct {
	Hash  primitives.Hash
	Final primitives.Height
}

func (Made) event()      {}
func (Part) event()      {}
func (Held) event()      {}
func (Accesses) event()  {}
func (CodeAsked) event() {}
func (Code) event()      {}
func (Deploys) event()   {}
func (Judged) event()    {}
func (BlockCame) event() {}

func (BlockRecorded) event() {}

// Send is a message to validators. A message to this validator is delivered by the caller without
// the network.
type Send struct {
	To      []primitives.AccountID
	Body    borsh.Appender // a message type of package primitives
	Forward bool           // a PartialWitness that is forwarded
	Soon    int            // of an endorsement: the first Soon accounts of To produce the next two heights
}

// Judgement is a witness to validate, with the code that arrived for it.
type Judgement struct {
	Key     primitives.ChunkKey
	Witness *primitives.ChunkStateWitness
	Size    int // decompressed bytes
	Memory  int // approximate bytes in memory; 0: unknown
	Codes   [][]byte
	again   bool                    // it was validated before and lacked code
	at      *primitives.ChunkAnchor // where its parts place the chunk; nil: they name no anchor
}

func (j *Judgement) id() chunkID { return idOf(j.Key, j.at) }

// Out is what the caller has to do after a Step: send in this order, run the work, validate,
// precompile.
type Out struct {
	Send    []Send
	Work    []*Work
	Judge   []Judgement
	Compile [][]byte
}
