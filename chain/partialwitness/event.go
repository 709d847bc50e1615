package partialwitness

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Reasons to drop a message. A message with an anchor may also fail with an error of package
// anchor.
var (
	ErrIrrelevant = errors.New("witness: the chunk is too old, too far ahead, or of an epoch that its height cannot have")
	ErrPart       = errors.New("witness: the part is not accepted")
	ErrSigner     = errors.New("witness: not signed by the expected validator")
	ErrAssigned   = errors.New("witness: the validator is not assigned to the chunk")
	ErrKnown      = errors.New("witness: the message adds nothing to what has arrived")
	ErrUnasked    = errors.New("witness: this node does not wait for the message")
	ErrContracts  = errors.New("witness: wrong list of contracts")
	ErrEarly      = errors.New("witness: the chunk's previous block is unknown")
)

// Chain provides the chain data that a Tracker needs. Results may change between calls.
type Chain interface {
	Assignments
	Producers
	EpochValidators
	// Parent returns the parent of a known block, zero for the genesis.
	Parent(primitives.Hash) (primitives.Hash, error)
}

// Assignments says which chunks can still be included, and which validators endorse them.
type Assignments interface {
	// Relevant returns whether a block can still include a chunk. The chunk's epoch must be
	// possible for its height and must have its shard. The chunk's height must be above the final
	// block and at most MaxAhead above the head.
	Relevant(primitives.ChunkKey) bool
	Validators(primitives.ChunkKey) ([]chain.Assigned, error) // chunk validators, by order of assignment
}

// Producers says which validator produces a chunk.
type Producers interface {
	// Anchored returns whether messages about chunks of an epoch have an anchor (protocol feature
	// EarlyKickout), and whether the epoch is known.
	Anchored(primitives.EpochID) (anchored, known bool)
	// Producer returns the canonical producer of a chunk. If messages about the chunk have no
	// anchor, the canonical producer is the chunk's producer. Otherwise the canonical producer is
	// the chunk's producer only if no height was skipped and EarlyKickout has not excluded that
	// producer.
	Producer(primitives.ChunkKey) (primitives.ValidatorStake, error)
	// ProducerAt calls anchor.Check and returns the producer that the anchor determines. Errors:
	// anchor.ErrWrong, anchor.ErrEarly. Together with anchor.ErrEarly, ProducerAt returns the
	// producer if the anchor is known.
	ProducerAt(primitives.ChunkKey, primitives.ChunkAnchor) (primitives.ValidatorStake, error)
}

// EpochValidators lists the validators of an epoch.
type EpochValidators interface {
	Producers(primitives.EpochID, primitives.ShardID) ([]primitives.AccountID, error)
	AllValidators(primitives.EpochID) ([]primitives.AccountID, error)
	Key(primitives.EpochID, primitives.AccountID) (primitives.PublicKey, error) // a validator's key
	BlockProducer(primitives.EpochID, primitives.Height) (primitives.AccountID, error)
}

// MaxAhead is the maximum number of heights of a chunk above the head (nearcore validate.rs:22).
const MaxAhead = 5

// Event is an input of Tracker.Step: one of the types below.
type Event interface{ event() }

// Made is a chunk that this validator produced: its witness, the contracts that it called, and the
// code that it deployed.
type Made struct {
	Witness    *primitives.ChunkStateWitness
	Transition primitives.TransitionKey
	Accesses   []primitives.Hash
	Deploys    [][]byte
}

// Part is a part of a witness. Forward is set if another validator forwarded the part; otherwise
// the chunk's producer sent the part.
type Part struct {
	Part    *primitives.PartialWitness
	Forward bool
}

// Held reports that this validator, which tracks the shard, has validated a chunk without its
// witness. Prev is the chunk's previous block, which must be known.
type Held struct {
	Key   primitives.ChunkKey
	Chunk primitives.Hash
	Prev  primitives.Hash
}

// Accesses is the list of contracts that a witness calls. Held means that this validator tracks the
// shard and therefore has the code of these contracts.
type Accesses struct {
	Accesses *primitives.ContractAccesses
	Held     bool
}

// CodeAsked is a request for contracts. Codes returns the code that the chunk's main transition
// called. Codes returns ErrContracts if at is not that transition, and ErrEarly if the chunk's
// previous block is unknown. Codes may have to apply the previous chunk again. So the Tracker calls
// Codes only for assigned validators, and once for each validator. After ErrEarly, the Tracker
// calls Codes again after each new block.
type CodeAsked struct {
	Request *primitives.ContractCodeRequest
	Codes   func(key primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error)
}

// Code is a response to a code request.
type Code struct {
	Response *primitives.ContractCodeResponse
}

// Deploys is a part of deployed code, sent by the chunk's producer or forwarded by the owner of the
// part.
type Deploys struct {
	Part *primitives.PartialContractDeploys
}

// WitnessValidated is the result of validating a PendingWitness. Good means that the witness is
// valid. Early means that the chunk's previous block is unknown; Head is then the height of the
// head. Lacks means that some code that the witness calls is missing.
type WitnessValidated struct {
	PendingWitness
	Good, Early, Lacks bool
	Head               primitives.Height
}

// BlockRecorded reports that the epoch manager has recorded a block. The caller need not send a
// BlockRecorded for each block. If the caller sends one, it must do so before the block's
// BlockArrived.
type BlockRecorded struct{ Hash primitives.Hash }

// BlockArrived reports that the block Hash is on disk. (chunkparts.BlockArrived comes earlier, at the
// block's import.) Final is the height of the last final block.
type BlockArrived struct {
	Hash  primitives.Hash
	Final primitives.Height
}

func (Made) event()             {}
func (Part) event()             {}
func (Held) event()             {}
func (Accesses) event()         {}
func (CodeAsked) event()        {}
func (Code) event()             {}
func (Deploys) event()          {}
func (WitnessValidated) event() {}
func (BlockArrived) event()     {}

func (BlockRecorded) event() {}

// Send is a message to validators. If To contains this validator, the caller delivers the message
// to this node without the network.
type Send struct {
	To      []primitives.AccountID
	Body    borsh.Appender // a message type of package primitives
	Forward bool           // Body is a PartialWitness that is forwarded
	// Soon is, for an endorsement, the number of accounts at the start of To that produce the blocks
	// of the next two heights.
	Soon int
}

// PendingWitness is a witness to validate, with the received code that the witness calls.
type PendingWitness struct {
	Key     primitives.ChunkKey
	Witness *primitives.ChunkStateWitness
	Size    int                     // size of the decompressed witness in bytes
	Memory  int                     // approximate size in memory in bytes; 0: unknown
	Codes   [][]byte                // contract code that the witness calls
	again   bool                    // the witness is validated a second time, because code was missing the first time
	at      *primitives.ChunkAnchor // anchor in the witness's parts; nil: none
}

func (j *PendingWitness) id() chunkID { return idOf(j.Key, j.at) }

// Out lists what the caller has to do after Step, in the order of the fields: send the messages,
// run the work, validate the witnesses, precompile the code.
type Out struct {
	Send     []Send
	Work     []*Work
	Validate []PendingWitness
	Compile  [][]byte
	Measured []Measured // for metrics only
}
