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
	// Chunk returns a chunk with its author. HeightIncluded is set in its header. Errors:
	// ErrUnknownChunk, ErrInvalidShard, and the errors of a BlockRef.
	Chunk(view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error)
	// CongestionLevel returns how congested a chunk's shard was when the chunk was made, from 0 to
	// 1. It returns the errors of Chunk.
	CongestionLevel(view.ChunkRef) (float64, error)
	// GasPrice returns the price in the block's header. Here a nil ref is the head.
	GasPrice(*view.BlockRef) (primitives.Balance, error)

	// State returns the state of a shard after the chunks of a block were applied: of the shard
	// that holds an account or, without an account, of any shard (for global contracts).
	// ErrGarbageCollected takes precedence over all other errors. ErrUnavailableShard means that
	// the block is known but its state is not available. The caller must call Release.
	State(view.BlockRef, primitives.AccountID) (State, error)

	// CallFunction runs a method on the state after a block that State has found before. It changes
	// nothing. The result is nil if the account does not exist. It waits for a turn, at most as
	// long as a request may. Errors: ErrTooManyRequests, ErrTimeout.
	CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error)

	// Changes returns a block's hash and the changes that are asked for (see view.ChangesRequest).
	Changes(view.BlockRef, *view.ChangesRequest) (primitives.Hash, []view.Change, error)
	// Effects returns a block's hash and which parts of which accounts it wrote.
	Effects(view.BlockRef) (primitives.Hash, []view.Effect, error)

	// StreamerMessage returns the JSON of a block's message of nearcore's indexer framework.
	StreamerMessage(view.BlockRef) ([]byte, error)
	// IndexerBlock returns the JSON of a block's message of nearcore's indexer framework, with the
	// shards that the node has executed. Members are ascending. Errors: ErrUnknownBlock,
	// ErrIncompleteData, and ErrMessageLarge if the message would have more than most bytes.
	IndexerBlock(hash primitives.Hash, most int) ([]byte, error)
	// AwaitHeight waits until the optimistic or the final chain has reached a height, and returns
	// the height of that chain. If the context ends first, the error is its cause.
	AwaitHeight(ctx context.Context, final bool, height primitives.Height) (primitives.Height, error)
	// BlockDocument returns the JSON of a part of StreamerMessage for the block at a height that
	// the chain has reached, with the transactions that receipts come from. The JSON is null if the
	// height has no block. If the block is no longer stored, it returns an error of a BlockRef.
	BlockDocument(ctx context.Context, height primitives.Height, part view.DocumentPart) ([]byte, error)

	// Transactions lists transactions of the current chain, until the list is full or the context
	// ends. Errors: ErrNotSynced.
	Transactions(context.Context, *view.ListQuery) (*view.TransactionList, error)

	// Accounts lists, in order, at most limit accounts whose names begin with prefix and come after
	// after. more is true if there are further ones. Errors: ErrNotSynced.
	Accounts(ctx context.Context, prefix, after string, limit int) (ids []primitives.AccountID, more bool, err error)

	// Validators describes an epoch. Errors: ErrUnknownEpoch, ErrNoValidatorInfo.
	Validators(view.EpochRef) (*view.Validators, error)
	// ValidatorsOrdered lists the block producers of a block's epoch. nil: the head's epoch. It
	// returns the errors of a BlockRef.
	ValidatorsOrdered(*view.BlockRef) ([]primitives.ValidatorStake, error)
	// MaintenanceWindows lists the ranges of heights, from the head to the end of the epoch, in
	// which an account produces neither blocks nor chunks.
	MaintenanceWindows(primitives.AccountID) ([]view.Window, error)
	// ClientConfig returns the JSON of client_config, keys ascending.
	ClientConfig() ([]byte, error)
	// SplitStorage returns the progress of the store.
	SplitStorage() (*view.SplitStorage, error)
	// Status describes node and chain. Errors: ErrEpochOutOfBounds. The result is immutable. As
	// long as nothing changes, the same pointer is returned, so that its encoding can be cached.
	Status() (*view.Status, error)
	// Health returns nil if the node keeps up with the chain, else ErrSyncing or ErrNoNewBlocks.
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
	// ErrOutcomeShard, ErrInconsistentState. If none of these applies, ErrUnknownBlock means that
	// the light client's head is unknown.
	LightClientProof(*view.OutcomeRef) (*view.LightClientProof, error)
	// LightClientBlockProof proves that a block is in the chain of head. Errors: ErrUnknownBlock.
	LightClientBlockProof(block, head primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error)

	// OpenSession opens the session of a connection whose requests submit or wait. Submissions and
	// waits use the context that it returns. The caller may add the client to that context with
	// messages.WithClient. done must be called once, when the connection is closed, and ends the
	// session's waits. Errors: ErrTooManyRequests.
	OpenSession(context.Context) (ctx context.Context, done func(), err error)
	// SendTxAsync passes a transaction on without validating it. If a session sends faster than
	// transactions are validated, SendTxAsync waits. An error means that the transaction was not
	// taken: ErrNoRoom, or an error of a node that takes no transactions.
	SendTxAsync(context.Context, *primitives.SignedTransaction) error
	// SendTx submits a transaction and waits until it has reached the requested level, or the
	// context ends. The answer is the state at the first block that satisfies the wait. Errors:
	// *primitives.InvalidTxError, ErrNoRoom, ErrShardNotTracked, ErrTimeout, ErrTooManyRequests,
	// ErrBehind.
	SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	// Tx waits until a transaction has reached the requested level, or the context ends. Errors:
	// ErrUnknownTx if there is nothing to wait for, ErrTimeout, ErrTooManyRequests, ErrBehind.
	// *primitives.InvalidTxError is returned for a transaction that the node has dropped as
	// invalid, and for an unknown transaction that was given whole and can no longer be included.
	Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	// Simulate runs a transaction on a stored state, and discards the changes. Errors:
	// *primitives.InvalidTxError, and the errors of State.
	Simulate(context.Context, *view.Simulate) (*view.Simulation, error)
	// Trace returns as JSON what a transaction did or, if it was given whole, would do. Errors:
	// ErrUnknownTx, and the errors of Simulate.
	Trace(context.Context, *view.Trace) ([]byte, error)

	// Subscribe admits a subscription. Its sink is called from Subscriber.Start on. Errors: those
	// of the block where the subscription begins, *view.CursorError.
	Subscribe(*view.Subscription, view.Sink) (view.Subscriber, error)

	// Debug returns the data of one of neard's debug pages as JSON, nil if there is no page of that
	// name.
	Debug(*view.Debug) ([]byte, error)

	SandboxControl
}

// State is what Node.State returns. It is declared in package view so that a Node need not import
// package rpc.
type State = view.State
