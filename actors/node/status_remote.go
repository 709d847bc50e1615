package node

import (
	"context"
	"time"

	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// remoteRetry is the time after which this node asks other nodes again (nearcore: a second).
const remoteRetry = time.Second

// waitRemote waits until a transaction has reached the level r.WaitUntil. This node does not track
// the transaction's shard, so it relies on the answers of other nodes. As with neard, a transaction
// that no node knows counts as NONE, and the wait continues.
func (n *Node) waitRemote(ctx context.Context, r *view.GetTx, sender primitives.AccountID) (*view.FinalOutcome, error) {
	if n.parked.Add(1) > int64(n.o.Limits.Parked) {
		n.parked.Add(-1)
		return nil, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	defer n.parked.Add(-1)
	patience := time.NewTimer(n.o.Limits.Wait)
	defer patience.Stop()
	again := time.NewTicker(remoteRetry)
	defer again.Stop()
	var last *view.FinalOutcome
	for {
		out, news := n.statuses.Ask(messages.ClientOf(ctx), r.Hash, sender)
		if out != nil {
			if last = withTransaction(out, r); txstatus.Meets(out.Level, r.WaitUntil) {
				return last, nil
			}
		} else if r.WaitUntil == view.LevelNone {
			return &view.FinalOutcome{Level: view.LevelNone}, nil
		}
		if !n.statuses.Foreign(sender) { // in the meantime, this node tracks the shard
			return n.Tx(ctx, r)
		}
		select {
		case <-news:
		case <-again.C:
		case <-ctx.Done():
			return nil, n.remoteTimeout(last, sender)
		case <-patience.C:
			return nil, n.remoteTimeout(last, sender)
		case <-n.haltedForGood:
			return nil, n.refuseRequests()
		case <-n.ended:
			return nil, ErrStopped
		}
	}
}

// remoteTimeout is the error of a wait that timed out. last is the most recent answer of another
// node, or nil.
func (n *Node) remoteTimeout(last *view.FinalOutcome, sender primitives.AccountID) error {
	e := &view.LookupError{Kind: view.ErrTimeout, Status: last}
	if last != nil {
		e.Level = last.Level
	}
	if e.Level == view.LevelNone {
		e.Status, e.Cause, e.ShardID = nil, view.TimeoutUntracked, n.engine.Head().Layout.ShardOf(sender)
	}
	return e
}

// withTransaction returns the status of another node with the transaction from the client's
// request, if the request contains one. The client's transaction replaces the transaction in the
// other node's status, which is not fully proven.
func withTransaction(remote *view.FinalOutcome, r *view.GetTx) *view.FinalOutcome {
	if r.Tx == nil {
		return remote
	}
	o, t := *remote, *remote.Remote
	t.JSON = view.AppendSignedTransaction(nil, r.Tx)
	o.Remote = &t
	return &o
}
