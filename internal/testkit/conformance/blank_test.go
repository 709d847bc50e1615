package conformance

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
)

// blank is a node with an empty state: no accounts, no transactions, and no block but a head at
// some height. It answers the lines that need no chain.
type blank struct {
	head               view.At
	rpc.SandboxControl // nil: nothing was recorded of methods of our own
}

// errNeedsChain is the error by which a line shows that it is not an offline one.
var errNeedsChain = errors.New("this needs a chain")

// unknownHeights are heights without a block that the recorder asked for.
var unknownHeights = map[primitives.Height]bool{99999999: true, 1594: true, 777: true}

func (n *blank) find(ref view.BlockRef) error {
	switch {
	case ref.Kind == view.RefHash && ref.Hash.IsZero():
		return view.UnknownBlock(ref.Hash)
	case ref.Kind == view.RefHeight && unknownHeights[ref.Height]:
		return view.UnknownHeight(ref.Height)
	}
	return nil
}

// lacks is find for what a blank node does not have, even of its head.
func (n *blank) lacks(ref view.BlockRef) error {
	if err := n.find(ref); err != nil {
		return err
	}
	return errNeedsChain
}

func (n *blank) Head() view.At { return n.head }

func (n *blank) Block(_ context.Context, ref view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	return "", nil, n.lacks(ref)
}

func (n *blank) Chunk(_ context.Context, ref view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	if ref.ByHash && ref.Hash.IsZero() {
		return "", nil, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: ref.Hash}
	}
	if ref.ShardID == 77 {
		return "", nil, &view.LookupError{Kind: view.ErrInvalidShard, ShardID: 77}
	}
	return "", nil, n.lacks(ref.Block)
}

func (n *blank) StreamerMessage(ref view.BlockRef) ([]byte, error) { return nil, n.lacks(ref) }

func (n *blank) IndexerBlock(hash primitives.Hash, _ int) ([]byte, error) {
	return nil, n.lacks(view.BlockRef{Kind: view.RefHash, Hash: hash})
}

func (n *blank) AwaitHeight(context.Context, bool, primitives.Height) (primitives.Height, error) {
	return 0, errNeedsChain
}

func (n *blank) BlockDocument(context.Context, primitives.Height, view.DocumentPart) ([]byte, error) {
	return nil, errNeedsChain
}

func (n *blank) Transactions(context.Context, *view.ListQuery) (*view.TransactionList, error) {
	return nil, errNeedsChain
}

func (n *blank) Accounts(context.Context, string, string, int) ([]primitives.AccountID, bool, error) {
	return nil, false, errNeedsChain
}

func (n *blank) GasPrice(_ context.Context, ref *view.BlockRef) (primitives.Balance, error) {
	if ref == nil {
		return primitives.Balance{}, errNeedsChain
	}
	return primitives.Balance{}, n.lacks(*ref)
}

func (n *blank) State(ref view.BlockRef, _ primitives.AccountID) (rpc.State, error) {
	if err := n.find(ref); err != nil {
		return nil, err
	}
	return blankState{n.head}, nil
}

func (n *blank) Changes(ref view.BlockRef, _ *view.ChangesRequest) (primitives.Hash, []view.Change, error) {
	return primitives.Hash{}, nil, n.lacks(ref)
}

func (n *blank) Effects(ref view.BlockRef) (primitives.Hash, []view.Effect, error) {
	return n.head.Hash, []view.Effect{{Kind: view.AccountChange, AccountID: "test.near"}}, n.find(ref)
}

func (n *blank) Validators(ref view.EpochRef) (*view.Validators, error) {
	return nil, n.lacks(ref.Block)
}

func (n *blank) Status() (*view.Status, error) {
	key := primitives.MustParsePublicKey("ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr")
	h := n.head.Hash
	return &view.Status{ChainID: "test-chain", ProtocolVersion: 86, LatestProtocolVersion: 86, RPCAddr: "0.0.0.0:3030",
		Validators: []primitives.AccountID{"test.near"}, ValidatorAccountID: "test.near", ValidatorPublicKey: key, NodePublicKey: key,
		GenesisHash: h, Sync: view.SyncInfo{LatestBlockHash: h, LatestStateRoot: h, EarliestBlockHash: h, EpochID: h}}, nil
}

func (n *blank) Health() error { return nil }

func (n *blank) NetworkInfo() (*view.NetworkInfo, error) {
	return &view.NetworkInfo{PeerMaxCount: 40}, nil
}

func (n *blank) GenesisConfig() ([]byte, error) { return nil, errNeedsChain }

func (n *blank) ProtocolConfig(ref view.BlockRef) (*view.ProtocolConfig, error) {
	return nil, n.lacks(ref)
}

func (n *blank) Receipt(_ context.Context, id primitives.Hash) (*primitives.Receipt, error) {
	return nil, &view.LookupError{Kind: view.ErrUnknownReceipt, Hash: id}
}

func (n *blank) NextLightClientBlock(h primitives.Hash) (*primitives.LightClientBlock, error) {
	return nil, n.lacks(view.BlockRef{Kind: view.RefHash, Hash: h})
}

func (n *blank) LightClientProof(ref *view.OutcomeRef) (*view.LightClientProof, error) {
	return nil, &view.LookupError{Kind: view.ErrUnknownOutcome, Hash: ref.ID}
}

func (n *blank) LightClientBlockProof(block, _ primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error) {
	return nil, nil, n.lacks(view.BlockRef{Kind: view.RefHash, Hash: block})
}

// CongestionLevel returns ErrUnknownChunk or the block's error: the blank node has no chunks.
func (n *blank) CongestionLevel(ctx context.Context, ref view.ChunkRef) (float64, error) {
	_, _, err := n.Chunk(ctx, ref)
	return 0, err
}

func (n *blank) ValidatorsOrdered(ref *view.BlockRef) ([]primitives.ValidatorStake, error) {
	if ref == nil {
		return nil, errNeedsChain
	}
	return nil, n.lacks(*ref)
}

func (n *blank) MaintenanceWindows(primitives.AccountID) ([]view.Window, error) {
	return nil, errNeedsChain
}

func (n *blank) ClientConfig() ([]byte, error) { return nil, errNeedsChain }

func (n *blank) SplitStorage() (*view.SplitStorage, error) { return nil, errNeedsChain }

func (n *blank) ReceiptToTx(_ context.Context, q *view.OriginQuery) (*view.Origin, error) {
	if q.Window != nil {
		return nil, errNeedsChain
	}
	return nil, &view.OriginError{Kind: view.OriginUnknown, Receipt: q.Receipt}
}

func (n *blank) OpenSession(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, nil
}
func (n *blank) SendTxAsync(context.Context, *primitives.SignedTransaction) error { return nil }

func (n *blank) CallFunction(primitives.Hash, *view.Call) (*view.CallResult, error) {
	return nil, nil // it has no accounts
}

func (n *blank) Simulate(context.Context, *view.Simulate) (*view.Simulation, error) {
	return nil, errNeedsChain
}

func (n *blank) Trace(context.Context, *view.Trace) ([]byte, error) { return nil, errNeedsChain }

func (n *blank) Subscribe(*view.Subscription, view.Sink) (view.Subscriber, error) {
	return nil, errNeedsChain
}

func (n *blank) Mine(context.Context, *view.Mine) (view.At, error)  { return view.At{}, errNeedsChain }
func (n *blank) PatchState(context.Context, []genesis.Record) error { return errNeedsChain }
func (n *blank) Debug(*view.Debug) ([]byte, error)                  { return nil, nil }
func (n *blank) FastForward(context.Context, uint64) error          { return errNeedsChain }

func (n *blank) SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error) {
	return nil, errNeedsChain
}

// Tx knows no transaction: a wait ends by its timeout.
func (n *blank) Tx(ctx context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
	if q.WaitUntil == view.LevelNone {
		return nil, &view.LookupError{Kind: view.ErrUnknownTx, Hash: q.Hash}
	}
	<-ctx.Done()
	return nil, &view.LookupError{Kind: view.ErrTimeout, Cause: view.TimeoutNotObserved}
}

// blankState is a state without an account.
type blankState struct{ at view.At }

func (s blankState) At() view.At { return s.at }
func (s blankState) Account(primitives.AccountID, *primitives.Account) (bool, error) {
	return false, nil
}
func (s blankState) AccessKey(primitives.AccountID, primitives.PublicKeyHandle, *primitives.AccessKey) (bool, error) {
	return false, nil
}
func (s blankState) AccessKeys(primitives.AccountID, primitives.PublicKeyHandle, int) ([]view.KeyInfo, bool, error) {
	return nil, false, nil
}
func (s blankState) GasKeyNonce(primitives.AccountID, primitives.PublicKeyHandle, uint16) (primitives.Nonce, bool, error) {
	return 0, false, nil
}
func (s blankState) Code(primitives.AccountID) ([]byte, error)               { return nil, nil }
func (s blankState) GlobalCode(*primitives.GlobalContractID) ([]byte, error) { return nil, nil }
func (s blankState) Data(primitives.AccountID, []byte, []byte, func(k, v []byte) bool) error {
	return nil
}
func (s blankState) DataProof(primitives.AccountID, []byte) ([][]byte, error) { return nil, nil }
func (s blankState) KeyProof([]byte) ([][]byte, error)                        { return nil, nil }
func (s blankState) Release()                                                 {}
