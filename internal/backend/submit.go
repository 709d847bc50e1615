package backend

import (
	"context"

	"github.com/troupe-chain/troupe/actors/subscriptions"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Submitter submits transactions, waits for them and serves subscriptions. The node's actors
// implement it. The methods of Submitter are those of rpc.Node.
type Submitter interface {
	OpenSession(context.Context) (context.Context, func(), error)
	SendTxAsync(context.Context, *primitives.SignedTransaction) error
	SendTx(context.Context, *view.SendTx) (*view.FinalOutcome, error)
	Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error)
	Subscribe(*view.Subscription, view.Cursor, subscriptions.Chain, view.Sink) (view.Subscriber, error)
	// Moves returns a channel that is closed when the head changes after the call.
	Moves() <-chan struct{}
}

// OpenSession admits a connection for requests that submit a transaction or wait for one.
func (b *Backend) OpenSession(ctx context.Context) (context.Context, func(), error) {
	return b.Submit.OpenSession(ctx)
}

// SendTxAsync submits a transaction without waiting for its checks. On a fork, SendTxAsync first
// fetches the remote state that the transaction reads.
func (b *Backend) SendTxAsync(ctx context.Context, tx *primitives.SignedTransaction) error {
	if err := b.forerun(ctx, tx); err != nil {
		return err
	}
	b.tags.submitted(tx)
	return b.Submit.SendTxAsync(ctx, tx)
}

// SendTx submits a transaction and waits until the transaction has reached the requested level.
func (b *Backend) SendTx(ctx context.Context, r *view.SendTx) (*view.FinalOutcome, error) {
	if err := b.forerun(ctx, r.Tx); err != nil {
		return nil, err
	}
	b.tags.submitted(r.Tx)
	return b.Submit.SendTx(ctx, r)
}

// Tx waits until a transaction has reached the requested status.
func (b *Backend) Tx(ctx context.Context, r *view.GetTx) (*view.FinalOutcome, error) {
	if b.History != nil && !b.hasOutcome(r.Hash) {
		if out, ok, err := b.olderTx(ctx, r); ok {
			return out, err
		}
	}
	return b.Submit.Tx(ctx, r)
}
