package partialwitness

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Refusals of messages. They are dropped; nothing is remembered of them.
var (
	ErrIrrelevant = errors.New("witness: the chunk is too old, too far ahead or of another epoch")
	ErrPart       = errors.New("witness: bad part")
	ErrSigner     = errors.New("witness: not signed by who should have")
	ErrAssigned   = errors.New("witness: not assigned to the chunk")
	ErrKnown      = errors.New("witness: known already")
	ErrUnasked    = errors.New("witness: nobody has asked for that")
	ErrContracts  = errors.New("witness: not the contracts that were asked for")
	ErrEarly      = errors.New("witness: the block on which the chunk is is not here yet")
)

// Chain is what must be known of the chain. Its answers are of the moment.
type Chain interface {
	// Relevant tells whether a chunk may still come to be: its shard exists in the epoch, the epoch is possible for the height, which is above the final
	// block and at most MaxAhead above the head.
	Relevant(primitives.ChunkKey) bool
	Producer(primitives.ChunkKey) (primitives.ValidatorStake, error)
	Validators(primitives.ChunkKey) ([]chain.Assigned, error) // of a chunk, in the order of assignment
	Producers(primitives.EpochID, primitives.ShardID) ([]primitives.AccountID, error)
	AllValidators(primitives.EpochID) ([]primitives.AccountID, error)
	Key(primitives.EpochID, primitives.AccountID) (primitives.PublicKey, error) // of a validator
	BlockProducer(primitives.EpochID, primitives.Height) (primitives.AccountID, error)
}

// MaxAhead is how far a chunk may lie above the head (nearcore validate.rs:22).
const MaxAhead = 5

// Event is one of the types below.
type Event interface{ event() }

// Made is a chunk of this validator with its witness.
type Made struct {
	Witness    *primitives.ChunkStateWitness
	Transition primitives.TransitionKey
	Accesses   []primitives.Hash
	Deploys    [][]byte
}

// Part came from the chunk's producer, or from another validator.
type Part struct {
	Part    *primitives.PartialWitness
	Forward bool
}

// Held is a chunk of another that this validator has found good without a witness, by the state that it holds.
type Held struct {
	Key   primitives.ChunkKey
	Chunk primitives.Hash
}

// Accesses came from the chunk's producer. Held: this validator has the shard's state, and with it the code that stands there.
type Accesses struct {
	Accesses *primitives.ContractAccesses
	Held     bool
}

// CodeAsked came from a validator of a chunk, as it says. Codes gives the code of what the main transition of the chunk has called, ErrContracts if that is
// not at, ErrEarly if the block on which the chunk is is not here yet: it may cost an application of the chunk before, and is asked of this node only for
// who may have it, once, and again with each block while that is early.
type CodeAsked struct {
	Request *primitives.ContractCodeRequest
	Codes   func(key primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error)
}

// Code came from who was asked.
type Code struct {
	Response *primitives.ContractCodeResponse
}

// Deploys came from a chunk's producer, or from the owner of the part.
type Deploys struct {
	Part *primitives.PartialContractDeploys
}

// Judged is what became of a Judgement. Early: the block on which the chunk is was not known, and the head was at Head. Lacks: code that it calls was not
// given with it.
type Judged struct {
	Judgement
	Good, Early, Lacks bool
	Head               primitives.Height
}

// BlockCame is a block that is known now, with the last final height.
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

// Send is a message to validators. One to this validator itself is handled here, without the network.
type Send struct {
	To      []primitives.AccountID
	Body    borsh.Appender // of primitives
	Forward bool           // a PartialWitness that is passed on
	Soon    int            // of an endorsement: so many of To, the first ones, make the next two heights
}

// Judgement is a witness to be judged, with code that came for it.
type Judgement struct {
	Key     primitives.ChunkKey
	Witness *primitives.ChunkStateWitness
	Size    int // bytes, not compressed
	Memory  int // bytes that it takes in memory, about; 0: not known
	Codes   [][]byte
	again   bool // it has lacked code before
}

// Out is what the shell is to do: send in this order, work, judge, compile ahead.
type Out struct {
	Send    []Send
	Work    []*Work
	Judge   []Judgement
	Compile [][]byte
}
