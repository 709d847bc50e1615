package view

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// LookupKind is why a node cannot answer. A kind is itself an error, for errors.Is.
type LookupKind byte

// The kinds, with the fields of LookupError that each of them sets.
const (
	ErrUnknownHeight    LookupKind = iota // field Height: the current chain has no block there
	ErrUnknownBlock                       // field Hash: the block is unknown, or was garbage collected
	ErrNotSynced                          // no full block is known yet
	ErrGarbageCollected                   // fields Height, Hash: the state of a block below the tail was requested
	// ErrUnavailableShard, field ShardID: the shard is not tracked, or its state after the block is
	// not kept.
	ErrUnavailableShard
	ErrUnknownChunk // field Hash of the chunk
	ErrInvalidShard // field ShardID: the shard is not in the block's layout
	ErrUnknownEpoch
	ErrNoValidatorInfo   // the block is not the last of its epoch
	ErrEpochOutOfBounds  // field Hash of the epoch
	ErrUnknownReceipt    // field Hash of the receipt
	ErrInconsistentState // fields Shards, ShardID: the block has no chunk of the outcome's shard
	ErrNotConfirmed      // field Hash: no block covers the outcome yet
	ErrUnknownOutcome    // field Hash of the transaction or receipt
	ErrOutcomeShard      // fields Hash, ShardID: the outcome's shard is not tracked
	ErrUnknownTx         // field Hash; field Reason: why no block has the transaction, if known
	ErrShardNotTracked   // the node does not track the shard in which the transaction is checked
	ErrTimeout           // fields Level, Status, Cause, ShardID: the wait for the transaction timed out
	ErrSyncing           // only of method health: the node is syncing
	ErrNoNewBlocks       // only of method health, field Elapsed: no new block came for this long
	ErrTooManyRequests   // too many requests are waiting
	ErrNoProof           // field Height: the earliest height at which the state can be proven
	// ErrBehind: the node has more requests than it can serve, so that new ones would wait too long.
	ErrBehind
	ErrRouted               // field Hash: the node cannot check the transaction and has forwarded it
	ErrContractsUnsupported // the call would run a contract, which this node cannot do
	ErrNoRoom               // field Reason: the limit of the node that the transaction exceeds
	ErrIncompleteData       // field Reason: which data of a block the node lacks
	ErrMessageLarge         // the message with a block's data exceeds the size limit
)

var lookupTexts = [...]string{
	"no block at the height", "unknown block", "no block is synced yet", "garbage collected", "shard unavailable", "unknown chunk",
	"no such shard", "unknown epoch", "validator info unavailable", "epoch out of bounds", "unknown receipt",
	"inconsistent state", "not confirmed", "unknown transaction or receipt", "outcome's shard unavailable",
	"unknown transaction", "shard not tracked", "timeout", "syncing", "no new blocks", "too many waiting requests",
	"no proof at the height", "requests that wait take too long to begin", "the transaction was passed on",
	"contract execution is not part of this version", "there is no room for the transaction",
	"the data of the block is incomplete", "the block's message is too large",
}

// Error returns a short text.
func (k LookupKind) Error() string {
	if int(k) < len(lookupTexts) {
		return lookupTexts[k]
	}
	return fmt.Sprintf("LookupKind(%d)", byte(k))
}

// StoppedError is the error of work that took longer than a request may and was stopped.
type StoppedError struct {
	Where string // text that follows "it was stopped, "
	Err   error
}

// Error returns both texts.
func (e *StoppedError) Error() string { return e.Err.Error() + " " + e.Where }

// Unwrap returns why it was stopped.
func (e *StoppedError) Unwrap() error { return e.Err }

// TimeoutCause is why a wait ended although the transaction had not reached any level
// (near-jsonrpc-primitives 0.38.0 src/types/transactions.rs, TimeoutErrorCause).
type TimeoutCause byte

// The causes.
const (
	TimeoutUnknown     TimeoutCause = iota // the node has not searched the chain for the transaction
	TimeoutNotObserved                     // no block has the transaction
	TimeoutUntracked                       // the node does not track ShardID, and no other node has answered
)

// LookupError describes what a node does not have. The RPC makes each method's reply from its
// fields.
type LookupError struct {
	Kind    LookupKind
	Height  primitives.Height
	Hash    primitives.Hash
	ShardID primitives.ShardID
	Shards  uint64         // number of shards
	Level   ExecutionLevel // for ErrTimeout: the level that the transaction has reached
	Status  *FinalOutcome  // for ErrTimeout: status of the transaction at that level; nil: not known
	Cause   TimeoutCause   // for ErrTimeout with LevelNone: why the transaction has reached no level
	Elapsed uint64         // for ErrNoNewBlocks: ns since the last new block
	Reason  string         // text that ErrNoRoom, ErrUnknownTx and ErrIncompleteData set
}

// Error returns the kind's text and what was looked for.
func (e *LookupError) Error() string {
	switch e.Kind {
	case ErrUnknownHeight:
		return fmt.Sprintf("%v: %d", e.Kind, e.Height)
	case ErrUnavailableShard, ErrInvalidShard:
		return fmt.Sprintf("%v: %d", e.Kind, e.ShardID)
	case ErrNoRoom, ErrIncompleteData:
		return e.Kind.Error() + ": " + e.Reason
	case ErrUnknownBlock, ErrUnknownChunk, ErrEpochOutOfBounds, ErrUnknownReceipt, ErrNotConfirmed, ErrUnknownOutcome, ErrUnknownTx:
		return fmt.Sprintf("%v: %v", e.Kind, e.Hash)
	}
	return e.Kind.Error()
}

// Is returns whether target is e's kind.
func (e *LookupError) Is(target error) bool { return target == e.Kind }

// UnknownTx returns the error for a transaction that is in no block because the node has refused or
// dropped it for the reason why. For an invalid transaction the error says so; for any other reason
// the error says that the transaction is unknown.
func UnknownTx(h primitives.Hash, why error) error {
	var invalid *primitives.InvalidTxError
	if errors.As(why, &invalid) {
		return invalid
	}
	return &LookupError{Kind: ErrUnknownTx, Hash: h, Reason: why.Error()}
}

// UnknownBlock is the error of a hash that names no block here.
func UnknownBlock(h primitives.Hash) error { return &LookupError{Kind: ErrUnknownBlock, Hash: h} }

// UnknownHeight is the error of a height without a block.
func UnknownHeight(h primitives.Height) error { return &LookupError{Kind: ErrUnknownHeight, Height: h} }
