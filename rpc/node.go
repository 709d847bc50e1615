package rpc

import (
	"context"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Node is what stands behind the RPC. Reads are answered from snapshots: at once, without a
// mailbox, from any goroutine. What they return is shared and only read.
//
// Errors are *view.LookupError where something isn't there, *primitives.InvalidTxError for refused
// transactions; any other error goes out as INTERNAL_ERROR. Which kinds a read may return is said
// with it; a BlockRef can give ErrUnknownHeight (no block of the current chain at that height),
// ErrUnknownBlock (no such hash, or the height's block has been collected: then its hash) or
// ErrNotSynced.
type Node interface {
	// Head is the head of the current chain.
	Head() view.At

	// Block returns a block with its author.
	Block(view.BlockRef) (primitives.AccountID, *primitives.Block, error)
	// Chunk returns a chunk with its author. HeightIncluded of its header is the true one.
	// ErrUnknownChunk, ErrInvalidShard; errors of the block.
	Chunk(view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error)
	// CongestionLevel returns how congested a chunk's shard was when the chunk was made, from 0 to
	// 1: errors of Chunk.
	CongestionLevel(view.ChunkRef) (float64, error)
	// GasPrice returns the price in the block's header. Here a nil ref is the head.
	GasPrice(*view.BlockRef) (primitives.Balance, error)

	// State returns the state after the chunks of a block were applied, of the shard that holds an
	// account; without an account, of any shard (for global contracts). ErrGarbageCollected comes
	// before all else; ErrUnavailableShard for a block that is known and whose state is not. The
	// caller calls Release when done.
	State(view.BlockRef, primitives.AccountID) (State, error)

	// CallFunction runs a method on the state after a block, which State found, and changes
	// nothing; nil: the account does not exist. It waits for a turn, at most as long as a request
	// may: ErrTooManyRequests, ErrTimeout.
	CallFunction(block primitives.Hash, c *view.Call) (*view.CallResult, error)

	// Changes returns a block's hash and those of its changes that are asked for (see
	// view.ChangesRequest).
	Changes(view.BlockRef, *view.ChangesRequest) (primitives.Hash, []view.Change, error)
	// Effects returns a block's hash and what of which accounts it wrote.
	Effects(view.BlockRef) (primitives.Hash, []view.Effect, error)

	// StreamerMessage returns the JSON of what nearcore's indexer framework says of a block.
	StreamerMessage(view.BlockRef) ([]byte, error)
	// AwaitHeight waits until the optimistic or the final chain has come to a height, and returns
	// sessionsIn it is; the context's cause if that ends.
	AwaitHeight(ctx context.Context, final bool, height primitives.Height) (primitives.Height, error)
	// BlockDocument returns the JSON of a part of what StreamerMessage says of the block at a
	// height that the chain has come to, with the transactions that receipts come from: null where
	// there is none. Errors of the block if it is not kept any more.
	BlockDocument(ctx context.Context, height primitives.Height, part view.DocumentPart) ([]byte, error)

	// Validators describes an epoch: ErrUnknownEpoch, ErrNoValidatorInfo.
	Validators(view.EpochRef) (*view.Validators, error)
	// ValidatorsOrdered lists the block producers of a block's epoch, nil: the head's. Errors of
	// the block.
	ValidatorsOrdered(*view.BlockRef) ([]primitives.ValidatorStake, error)
	// MaintenanceWindows lists the heights of the epoch from the head on at which an account makes
	// neither block nor chunk.
	MaintenanceWindows(primitives.AccountID) ([]view.Window, error)
	// ClientConfig returns the JSON of client_config, keys ascending.
	ClientConfig() ([]byte, error)
	// SplitStorage says how far the store is.
	SplitStorage() (*view.SplitStorage, error)
	// Status describes node and chain: ErrEpochOutOfBounds. What it returns never changes; as long
	// as there is nothing new to say it returns the same value, so that its encoding can be kept.
	Status() (*view.Status, error)
	// Health is nil for a node that keeps up: else ErrSyncing, ErrNoNewBlocks.
	Health() error
	// NetworkInfo lists peers.
	NetworkInfo() (*view.NetworkInfo, error)
	// GenesisConfig returns the JSON of genesis_config: genesis.json without records, keys
	// ascending.
	GenesisConfig() ([]byte, error)
	// ProtocolConfig returns the configuration in force at a block.
	ProtocolConfig(view.BlockRef) (*view.ProtocolConfig, error)

	// Receipt returns a receipt that is stored: ErrUnknownReceipt.
	Receipt(primitives.Hash) (*primitives.Receipt, error)
	// ReceiptToTx names the transaction that a receipt comes from: *view.OriginError. It looks at
	// what may be many outcomes, until the context ends.
	ReceiptToTx(context.Context, *view.OriginQuery) (*view.Origin, error)
	// NextLightClientBlock returns what follows a block for a light client, nil if nothing does
	// yet: ErrUnknownBlock, ErrEpochOutOfBounds.
	NextLightClientBlock(primitives.Hash) (*primitives.LightClientBlock, error)
	// LightClientProof proves an outcome: ErrUnknownOutcome, ErrNotConfirmed, ErrOutcomeShard,
	// ErrInconsistentState, and after those ErrUnknownBlock for the light client's head.
	LightClientProof(*view.OutcomeRef) (*view.LightClientProof, error)
	// LightClientBlockProof proves that a block is in the chain of head: ErrUnknownBlock.
	LightClientBlockProof(block, head primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error)

	// OpenSession admits a connection that has a request which submits or waits. What is asked for
	// under the context that it returns may say with messages.WithClient whose it is. Waits under
	// the context that it returns end at the latest with done, which is called once, when the
	// connection is closed: ErrTooManyRequests.
	OpenSession(context.Context) (ctx context.Context, done func(), err error)
	// SendTxAsync passes a transaction on without looking at it. A session that has sent more than
	// is looked at waits here. An error says that it was not taken: ErrNoRoom, or the node takes
	// none at all.
	SendTxAsync(context.Context, *primitives.SignedTransaction) error
	// SendTx submits a transaction and waits until it has come as far as asked, or the context ends
	// (rpc.md 5.2). The answer says how things were with the first block that satisfies the wait.
	// Refused: *primitives.InvalidTxError; ErrNoRoom; ErrShardNotTracked; ErrTimeout;
	// ErrTooManyRequests; ErrBehind.
	SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	// Tx waits until a transaction has come as far as asked, or the context ends: ErrUnknownTx if
	// nothing is to be waited for, ErrTimeout, ErrTooManyRequests, ErrBehind,
	// *primitives.InvalidTxError for one that was given whole, is unknown and can't come any more,
	// and for one that the node has dropped for that.
	Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	// Simulate runs a transaction on a stored state and keeps nothing. Refused:
	// *primitives.InvalidTxError; errors of State.
	Simulate(context.Context, *view.Simulate) (*view.Simulation, error)
	// Trace says what a transaction did or, if it was given whole, would do, as JSON: ErrUnknownTx;
	// errors of Simulate.
	Trace(context.Context, *view.Trace) ([]byte, error)

	// Subscribe admits a subscription, whose sink is told from Start on: errors of the block where
	// it begins, *view.CursorError.
	Subscribe(*view.Subscription, view.Sink) (view.Subscriber, error)

	// Debug returns the data of one of neard's debug pages as JSON; nil: there is none of that
	// name.
	Debug(*view.Debug) ([]byte, error)

	Steerer
}

// State is what Node.State returns. It is declared in package view so that a Node need not know
// package rpc.
type State = view.State
