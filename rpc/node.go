package rpc

import (
	"context"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Node is the node that the RPC serves. Its methods are safe for concurrent use. The node answers
// reads from snapshots, without sending messages to actors. The caller must not change the results,
// because several requests may share a result.
//
// If something does not exist, the error is a *view.LookupError; for a transaction that is
// rejected, it is a *primitives.InvalidTxError. Any other error becomes an INTERNAL_ERROR. Each
// method lists the kinds of LookupError that it may return. A BlockRef can cause ErrUnknownHeight
// (the current chain has no block at that height), ErrUnknownBlock (the hash is unknown, or the
// height's block was garbage collected; the error then has its hash) or ErrNotSynced.
type Node interface {
	BlockReader
	StateReader
	EpochReader
	TransactionService
	ReceiptReader
	LightClientSource
	IndexerSource
	Explorer
	NodeInfo
	SandboxControl
}

// BlockReader reads the current chain: blocks, chunks and gas prices. A context lets a method wait
// until it may read large data (messages.TakeLarge), and is not used for anything else.
type BlockReader interface {
	// Head returns the head of the current chain.
	Head() view.At
	// Block returns a block with its author.
	Block(context.Context, view.BlockRef) (primitives.AccountID, *primitives.Block, error)
	// Chunk returns a chunk with its author. HeightIncluded is set in the chunk's header. Errors:
	// ErrUnknownChunk, ErrInvalidShard, and the errors of a BlockRef.
	Chunk(context.Context, view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error)
	// CongestionLevel returns the congestion of a chunk's shard when the chunk was made, from 0 to
	// 1. Errors: as for Chunk.
	CongestionLevel(context.Context, view.ChunkRef) (float64, error)
	// GasPrice returns the gas price in the block's header. A nil ref is the head.
	GasPrice(context.Context, *view.BlockRef) (primitives.Balance, error)
}

// StateReader reads the states after blocks, and the changes that blocks made to the state.
type StateReader interface {
	// State returns the state of a shard after a block. It is the shard of the account. If the
	// account is empty, it is any shard (for global contracts). ErrGarbageCollected takes
	// precedence over all other errors. ErrUnavailableShard means that the block is known but its
	// state is not available. The caller must call Release.
	State(view.BlockRef, primitives.AccountID) (State, error)
	// CallFunction calls a method on the state after a block, which must be the block of an earlier
	// call of State. CallFunction does not change the state. The result is nil if the account does
	// not exist. CallFunction waits for a turn of the heavy limit, at most as long as a request may
	// wait. Errors: ErrTooManyRequests, ErrTimeout.
	CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error)
	// Changes returns a block's hash and the requested changes (see view.ChangesRequest).
	Changes(view.BlockRef, *view.ChangesRequest) (primitives.Hash, []view.Change, error)
	// Effects returns a block's hash, and for each account that the block changed the kinds of
	// changes.
	Effects(view.BlockRef) (primitives.Hash, []view.Effect, error)
}

// EpochReader reads validators and configurations of epochs.
type EpochReader interface {
	// Validators describes an epoch. Errors: ErrUnknownEpoch, ErrNoValidatorInfo.
	Validators(view.EpochRef) (*view.Validators, error)
	// ValidatorsOrdered lists the block producers of a block's epoch. A nil ref is the head.
	// Errors: those of a BlockRef.
	ValidatorsOrdered(*view.BlockRef) ([]primitives.ValidatorStake, error)
	// MaintenanceWindows lists the ranges of heights, from the head to the end of the epoch, in
	// which an account produces neither blocks nor chunks.
	MaintenanceWindows(primitives.AccountID) ([]view.Window, error)
	// ProtocolConfig returns the protocol configuration of a block.
	ProtocolConfig(view.BlockRef) (*view.ProtocolConfig, error)
}

// TransactionService takes transactions, waits for them, and runs them without including them.
type TransactionService interface {
	// OpenSession opens the session of a connection whose requests submit or wait. These requests
	// use the context that OpenSession returns. The caller may add the client to that context with
	// messages.WithClient. done must be called once, when the connection is closed. done ends the
	// session's waits. Errors: ErrTooManyRequests.
	OpenSession(context.Context) (ctx context.Context, done func(), err error)
	// SendTxAsync passes a transaction on without validating the transaction. If a session sends
	// faster than transactions are validated, SendTxAsync waits. An error means that the
	// transaction was not accepted: ErrNoRoom, or the error of a node that accepts no transactions.
	SendTxAsync(context.Context, *primitives.SignedTransaction) error
	// SendTx submits a transaction and waits until it has reached the requested level, or the
	// context ends. The result is the status at the first block at which that level is reached.
	// Errors: *primitives.InvalidTxError, ErrNoRoom, ErrShardNotTracked, ErrTimeout,
	// ErrTooManyRequests, ErrBehind.
	SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	// Tx waits until a transaction has reached the requested level, or the context ends. Errors:
	// ErrUnknownTx if there is nothing to wait for, ErrTimeout, ErrTooManyRequests, ErrBehind. The
	// error is a *primitives.InvalidTxError in two cases: the node has dropped the transaction as
	// invalid, or the caller passed a whole transaction that is unknown and can no longer be
	// included.
	Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	// Simulate executes a transaction on a stored state and discards the changes. Errors:
	// *primitives.InvalidTxError, and those of State.
	Simulate(context.Context, *view.Simulate) (*view.Simulation, error)
	// Trace returns as JSON what a transaction on the chain did. For a whole transaction, it
	// returns what it would do. Errors: ErrUnknownTx, and those of Simulate.
	Trace(context.Context, *view.Trace) ([]byte, error)
}

// ReceiptReader reads stored receipts.
type ReceiptReader interface {
	// Receipt returns a stored receipt. The context is used as by a BlockReader. Errors:
	// ErrUnknownReceipt.
	Receipt(context.Context, primitives.Hash) (*primitives.Receipt, error)
	// ReceiptToTx returns the transaction that a receipt comes from. Errors: *view.OriginError.
	// ReceiptToTx may read many outcomes; it stops when the context ends.
	ReceiptToTx(context.Context, *view.OriginQuery) (*view.Origin, error)
}

// LightClientSource returns the blocks and proofs that light clients verify.
type LightClientSource interface {
	// NextLightClientBlock returns the light client block that follows a block; nil if there is
	// none yet. Errors: ErrUnknownBlock, ErrEpochOutOfBounds.
	NextLightClientBlock(primitives.Hash) (*primitives.LightClientBlock, error)
	// LightClientProof returns the proof of an outcome. Errors: ErrUnknownOutcome, ErrNotConfirmed,
	// ErrOutcomeShard, ErrInconsistentState, and with the lowest precedence ErrUnknownBlock: the
	// light client's head is unknown.
	LightClientProof(*view.OutcomeRef) (*view.LightClientProof, error)
	// LightClientBlockProof proves that a block is an ancestor of head. Errors: ErrUnknownBlock.
	LightClientBlockProof(block, head primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error)
}

// IndexerSource returns whole blocks to indexers, as JSON or as notices of a subscription.
type IndexerSource interface {
	// StreamerMessage returns the JSON of a block's message of nearcore's indexer framework.
	StreamerMessage(view.BlockRef) ([]byte, error)
	// IndexerBlock returns the JSON of a block's message of nearcore's indexer framework, with the
	// shards that the node has executed. The keys are ascending. most is the maximum length in
	// bytes. Errors: ErrUnknownBlock, ErrIncompleteData, ErrMessageLarge.
	IndexerBlock(hash primitives.Hash, most int) ([]byte, error)
	// AwaitHeight waits until the optimistic or the final chain has reached a height, and returns
	// the height of that chain. If the context ends first, the error is the context's cause.
	AwaitHeight(ctx context.Context, final bool, height primitives.Height) (primitives.Height, error)
	// BlockDocument returns the JSON of a part of StreamerMessage for a height that the chain has
	// reached, with the transactions that receipts come from. The JSON is null if the height has no
	// block. If the block is no longer stored, the error is one of a BlockRef.
	BlockDocument(ctx context.Context, height primitives.Height, part view.DocumentPart) ([]byte, error)
	// Subscribe admits a subscription. The subscription calls its sink after Subscriber.Start.
	// Errors: those of the block at which the subscription begins, *view.CursorError.
	Subscribe(*view.Subscription, view.Sink) (view.Subscriber, error)
}

// Explorer lists transactions and accounts of the current chain, for block explorers.
type Explorer interface {
	// Transactions lists transactions of the current chain. Transactions returns when the list is
	// full or the context ends. Errors: ErrNotSynced.
	Transactions(context.Context, *view.ListQuery) (*view.TransactionList, error)
	// Accounts lists, in order, at most limit accounts whose ids begin with prefix and come after
	// the id after. more is whether there are further accounts. Errors: ErrNotSynced.
	Accounts(ctx context.Context, prefix, after string, limit int) (ids []primitives.AccountID, more bool, err error)
}

// NodeInfo describes the node: status, peers and configuration.
type NodeInfo interface {
	// Status describes node and chain. Errors: ErrEpochOutOfBounds. The result is immutable. As
	// long as nothing changes, Status returns the same pointer, so callers can cache the encoding.
	Status() (*view.Status, error)
	// Health returns nil if the node keeps up with the chain, else ErrSyncing or ErrNoNewBlocks.
	Health() error
	// NetworkInfo lists peers.
	NetworkInfo() (*view.NetworkInfo, error)
	// ClientConfig returns the JSON of client_config, with ascending keys.
	ClientConfig() ([]byte, error)
	// GenesisConfig returns the JSON of genesis_config: genesis.json without records, with
	// ascending keys.
	GenesisConfig() ([]byte, error)
	// SplitStorage returns the reply of EXPERIMENTAL_split_storage_info about the store.
	SplitStorage() (*view.SplitStorage, error)
	// Debug returns the data of one of neard's debug pages as JSON; nil if no page has that name.
	Debug(*view.Debug) ([]byte, error)
}

// State is what Node.State returns. It is declared in package view so that a Node need not import
// package rpc.
type State = view.State
