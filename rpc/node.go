package rpc

import (
	"context"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Node is the node that the RPC serves. Its methods are safe for concurrent use. Reads are answered
// from snapshots, without a mailbox. What they return is shared and must not be changed.
//
// Errors are *view.LookupError if something does not exist, *primitives.InvalidTxError for refused
// transactions; any other error is answered with INTERNAL_ERROR. Each read lists the kinds it may
// return. A BlockRef can give ErrUnknownHeight (the current chain has no block at that height),
// ErrUnknownBlock (no such hash, or the height's block has been collected: then its hash) or
// ErrNotSynced.
type Node interface {
	// Head is the head of the current chain.
	Head() view.At

	// Block returns a block with its author.
	Block(view.BlockRef) (primitives.AccountID, *primitives.Block, error)
	// Chunk returns a chunk with its author. HeightIncluded of its header is set. Errors:
	// ErrUnknownChunk, ErrInvalidShard, and those of the block.
	Chunk(view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error)
	// CongestionLevel returns how congested a chunk's shard was when the chunk was made, from 0 to
	// 1. Errors: those of Chunk.
	CongestionLevel(view.ChunkRef) (float64, error)
	// GasPrice returns the price in the block's header. Here a nil ref is the head.
	GasPrice(*view.BlockRef) (primitives.Balance, error)

	// State returns the state, after the chunks of a block were applied, of the shard that holds an
	// account; without an account, of any shard (for global contracts). Errors: ErrGarbageCollected
	// comes before all others; ErrUnavailableShard if the block is known and its state is not. The
	// caller must call Release.
	State(view.BlockRef, primitives.AccountID) (State, error)

	// CallFunction runs a method on the state after a block, which State has found, and changes
	// nothing. The result is nil if the account does not exist. It waits for a turn, at most as
	// long as a request may. Errors: ErrTooManyRequests, ErrTimeout.
	CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error)

	// Changes returns a block's hash and the changes that are asked for (see view.ChangesRequest).
	Changes(view.BlockRef, *view.ChangesRequest) (primitives.Hash, []view.Change, error)
	// Effects returns a block's hash and which parts of which accounts it wrote.
	Effects(view.BlockRef) (primitives.Hash, []view.Effect, error)

	// StreamerMessage returns the JSON of a block's message of nearcore's indexer framework.
	StreamerMessage(view.BlockRef) ([]byte, error)
	// IndexerBlock returns the JSON of a block's message of nearcore's indexer framework with the
	// shards that the node has executed, members ascending. Errors: ErrUnknownBlock,
	// ErrIncompleteData, ErrMessageLarge: it would have more than most bytes.
	IndexerBlock(hash primitives.Hash, most int) ([]byte, error)
	// AwaitHeight waits until the optimistic or the final chain has reached a height, and returns
	// the height it is at. If the context ends first, the error is its cause.
	AwaitHeight(ctx context.Context, final bool, height primitives.Height) (primitives.Height, error)
	// BlockDocument returns the JSON of a part of StreamerMessage for the block at a height that
	// the chain has reached, with the transactions that receipts come from. It is null if there is
	// no such block. Errors: those of the block, if it is no longer stored.
	BlockDocument(ctx context.Context, height primitives.Height, part view.DocumentPart) ([]byte, error)

	// Transactions lists transactions of the current chain, until the list is full or the context
	// ends. Errors: ErrNotSynced.
	Transactions(context.Context, *view.ListQuery) (*view.TransactionList, error)

	// Accounts lists at most limit accounts whose names begin with a prefix and come after one, in
	// order. more: there are further ones. Errors: ErrNotSynced.
	Accounts(ctx context.Context, prefix, after string, limit int) (ids []primitives.AccountID, more bool, err error)

	// Validators describes an epoch. Errors: ErrUnknownEpoch, ErrNoValidatorInfo.
	Validators(view.EpochRef) (*view.Validators, error)
	// ValidatorsOrdered lists the block producers of a block's epoch, nil: the head's. Errors:
	// those of the block.
	ValidatorsOrdered(*view.BlockRef) ([]primitives.ValidatorStake, error)
	// MaintenanceWindows lists the ranges of heights, from the head to the end of the epoch, in
	// which an account produces neither blocks nor chunks.
	MaintenanceWindows(primitives.AccountID) ([]view.Window, error)
	// ClientConfig returns the JSON of client_config, keys ascending.
	ClientConfig() ([]byte, error)
	// SplitStorage returns the progress of the store.
	SplitStorage() (*view.SplitStorage, error)
	// Status describes node and chain. Errors: ErrEpochOutOfBounds. The result is immutable. While
	// nothing changes the same pointer is returned, so that its encoding can be cached.
	Status() (*view.Status, error)
	// Health is nil for a node that keeps up, else ErrSyncing or ErrNoNewBlocks.
	Health() error
	// NetworkInfo lists peers.
	NetworkInfo() (*view.NetworkInfo, error)
	// GenesisConfig returns the JSON of genesis_config: genesis.json without records, keys
	// ascending.
	GenesisConfig() ([]byte, error)
	// ProtocolConfig returns the configuration in force at a block.
	ProtocolConfig(view.BlockRef) (*view.ProtocolConfig, error)

	// Receipt returns a stored receipt. Errors: ErrUnknownReceipt.
	Receipt(primitives.Hash) (*primitives.Receipt, error)
	// ReceiptToTx returns the transaction that a receipt comes from. Errors: *view.OriginError. It
	// may read many outcomes, until the context ends.
	ReceiptToTx(context.Context, *view.OriginQuery) (*view.Origin, error)
	// NextLightClientBlock returns what a light client needs after a block, nil if there is nothing
	// yet. Errors: ErrUnknownBlock, ErrEpochOutOfBounds.
	NextLightClientBlock(primitives.Hash) (*primitives.LightClientBlock, error)
	// LightClientProof proves an outcome. Errors: ErrUnknownOutcome, ErrNotConfirmed,
	// ErrOutcomeShard, ErrInconsistentState, and after those ErrUnknownBlock for the light client's
	// head.
	LightClientProof(*view.OutcomeRef) (*view.LightClientProof, error)
	// LightClientBlockProof proves that a block is in the chain of head. Errors: ErrUnknownBlock.
	LightClientBlockProof(block, head primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error)

	// OpenSession opens the session of a connection whose requests submit or wait. Submissions and
	// waits use the context it returns, which may name their client by messages.WithClient. done
	// must be called once, when the connection is closed, and ends the session's waits. Errors:
	// ErrTooManyRequests.
	OpenSession(context.Context) (ctx context.Context, done func(), err error)
	// SendTxAsync passes a transaction on without validating it. If a session sends faster than
	// transactions are validated, it waits. An error means that the transaction was not taken:
	// ErrNoRoom, or the node takes none at all.
	SendTxAsync(context.Context, *primitives.SignedTransaction) error
	// SendTx submits a transaction and waits until it has reached the requested level, or the
	// context ends. The answer is the state at the first block that satisfies the wait. Errors:
	// *primitives.InvalidTxError, ErrNoRoom, ErrShardNotTracked, ErrTimeout, ErrTooManyRequests,
	// ErrBehind.
	SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	// Tx waits until a transaction has reached the requested level, or the context ends. Errors:
	// ErrUnknownTx if there is nothing to wait for, ErrTimeout, ErrTooManyRequests, ErrBehind.
	// *primitives.InvalidTxError for a transaction that was given whole, is unknown and can no
	// longer be included, and for one that the node has dropped as invalid.
	Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	// Simulate runs a transaction on a stored state and keeps nothing. Errors:
	// *primitives.InvalidTxError, and those of State.
	Simulate(context.Context, *view.Simulate) (*view.Simulation, error)
	// Trace returns as JSON what a transaction did or, if it was given whole, would do. Errors:
	// ErrUnknownTx, and those of Simulate.
	Trace(context.Context, *view.Trace) ([]byte, error)

	// Subscribe admits a subscription, whose sink is called from Start on. Errors: those of the
	// block where it begins, *view.CursorError.
	Subscribe(*view.Subscription, view.Sink) (view.Subscriber, error)

	// Debug returns the data of one of neard's debug pages as JSON, nil if there is no page of that
	// name.
	Debug(*view.Debug) ([]byte, error)

	SandboxControl
}

// State is what Node.State returns. It is declared in package view so that a Node need not import
// package rpc.
type State = view.State
