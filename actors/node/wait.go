package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SendTx submits a transaction and waits until it has come as far as asked, or the context ends (rpc.md 5.2).
// Refused: *primitives.InvalidTxError; view.ErrTimeout; view.ErrTooManyRequests.
func (n *Node) SendTx(ctx context.Context, r *view.SendTx) (*view.FinalOutcome, error) {
	if err := n.refusal(); err != nil {
		return nil, err
	}
	if r.WaitUntil == view.LevelNone {
		n.SendTxAsync(r.Tx)
		return &view.FinalOutcome{Level: view.LevelNone}, nil
	}
	pooled, err := n.Submit(r.Tx)
	if err != nil {
		var invalid *primitives.InvalidTxError
		if !errors.As(err, &invalid) || invalid.Tag != primitives.TxInvalidNonce {
			return nil, err
		}
		// The nonce may be used by this very transaction: one that is sent again waits as the first did.
		if _, _, lookup := n.engine.Transaction(r.Tx.Hash()); lookup != nil {
			if errors.Is(lookup, engine.ErrUnknown) {
				return nil, err
			}
			return nil, lookup
		}
	}
	return n.waitFor(ctx, messages.AwaitTransaction{Hash: r.Tx.Hash(), Tx: r.Tx, Pooled: pooled, Until: r.WaitUntil})
}

// Tx waits until a transaction has come as far as asked, or the context ends: view.ErrUnknownTx if nothing is to be waited
// for, view.ErrTimeout, *primitives.InvalidTxError for one that was given whole, is unknown and can't come any more.
func (n *Node) Tx(ctx context.Context, r *view.GetTx) (*view.FinalOutcome, error) {
	out, err := n.engine.TransactionStatus(r.Hash)
	switch {
	case err == nil && txstatus.Meets(out.Level, r.WaitUntil):
		return &out, nil
	case err != nil && !errors.Is(err, engine.ErrUnknown):
		return nil, err
	case err != nil && r.Tx != nil:
		invalid, checkErr := n.engine.Check(r.Tx, n.signatures.Check)
		if checkErr != nil {
			return nil, checkErr
		}
		if invalid != nil {
			return n.unlessIncluded(r, invalid)
		}
	}
	if r.WaitUntil == view.LevelNone {
		return nil, &view.LookupError{Kind: view.ErrUnknownTx, Hash: r.Hash}
	}
	return n.waitFor(ctx, messages.AwaitTransaction{Hash: r.Hash, Tx: r.Tx, Pooled: n.pooled(r.Hash), Until: r.WaitUntil})
}

// unlessIncluded answers with the refusal of a transaction, unless a block has included it since it was looked for.
func (n *Node) unlessIncluded(r *view.GetTx, invalid *primitives.InvalidTxError) (*view.FinalOutcome, error) {
	out, err := n.engine.TransactionStatus(r.Hash)
	switch {
	case errors.Is(err, engine.ErrUnknown):
		return nil, invalid
	case err != nil:
		return nil, err
	case txstatus.Meets(out.Level, r.WaitUntil):
		return &out, nil
	}
	return nil, &view.LookupError{Kind: view.ErrTimeout, Level: out.Level}
}

// pooled tells whether a transaction waits in a pool.
func (n *Node) pooled(hash primitives.Hash) bool {
	for _, t := range n.shards.set.Load().list {
		if t.pool.Find(hash) != nil {
			return true
		}
	}
	return false
}

// waitFor waits and then reads what is stored.
func (n *Node) waitFor(ctx context.Context, m messages.AwaitTransaction) (*view.FinalOutcome, error) {
	level, err := n.wait(ctx, m)
	if err != nil {
		return nil, err
	}
	out, err := n.engine.TransactionStatus(m.Hash)
	if errors.Is(err, engine.ErrUnknown) { // a reorganisation has just taken it away
		return nil, &view.LookupError{Kind: view.ErrTimeout, Level: view.LevelNone}
	}
	if err != nil {
		return nil, err
	}
	out.Level = max(out.Level, level)
	if out.Level == view.LevelIncluded {
		// At the moment of inclusion neard has no outcome yet and answers with the level alone (data/neard/wire2.jsonl.gz
		// line 3); near-kit has no form for the status "Started".
		return &view.FinalOutcome{Level: view.LevelIncluded}, nil
	}
	return &out, nil
}

// wait parks the caller until its waiter answers.
func (n *Node) wait(ctx context.Context, m messages.AwaitTransaction) (view.ExecutionLevel, error) {
	if n.parked.Add(1) > int64(n.o.Limits.Parked) {
		n.parked.Add(-1)
		return 0, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	defer n.parked.Add(-1)
	m.Session, m.Waiter = messages.SessionOf(ctx), messages.WaiterID(n.ids.Add(1))
	answer := make(chan messages.Awaited, 1)
	m.Reply = func(a messages.Awaited) {
		select {
		case answer <- a:
		default: // it has one
		}
	}
	n.tell(n.rpc, m)
	// The waiter has its own timer; this one is for a waiter that is lost.
	lost := time.NewTimer(n.o.Limits.Wait + 2*time.Second)
	defer lost.Stop()
	select {
	case a := <-answer:
		return a.Level, a.Err
	case <-ctx.Done():
		n.tell(n.rpc, messages.ForgetTransaction{Session: m.Session, Waiter: m.Waiter})
		return 0, n.timeout(m.Hash)
	case <-lost.C:
		n.tell(n.rpc, messages.ForgetTransaction{Session: m.Session, Waiter: m.Waiter})
		return 0, fmt.Errorf("node: the waiter of transaction %v does not answer", m.Hash)
	case <-n.still:
		n.tell(n.rpc, messages.ForgetTransaction{Session: m.Session, Waiter: m.Waiter})
		return 0, n.refusal()
	case <-n.ended:
		return 0, ErrStopped
	}
}

// timeout says how far a transaction has come when patience ends.
func (n *Node) timeout(hash primitives.Hash) error {
	out, err := n.engine.TransactionStatus(hash)
	if err != nil {
		out.Level = view.LevelNone
	}
	return &view.LookupError{Kind: view.ErrTimeout, Level: out.Level}
}

// waiter returns the properties of the actor of a wait.
func (n *Node) waiter(m messages.AwaitTransaction) *actor.Props {
	return n.kit.props("waiter", func() actor.Actor {
		return waiter.New(waiter.Options{
			Wait: m, Timeout: n.o.Limits.Wait, Ledger: ledger{n.engine}, Pooled: n.pooled, FinalHeight: n.finalHeight,
			Check: func(tx *primitives.SignedTransaction) *primitives.InvalidTxError {
				invalid, err := n.engine.Check(tx, n.signatures.Check)
				if err != nil {
					return nil // the next head tells
				}
				return invalid
			},
			Watch:   func(w messages.Watch) { n.tell(n.milestones, w) },
			Unwatch: func(w messages.Unwatch) { n.tell(n.milestones, w) },
		})
	})
}

// OpenSession admits a client. Waits under the context that it returns end at the latest with done, which is called once,
// when the client is gone. view.ErrTooManyRequests: there are too many.
func (n *Node) OpenSession(ctx context.Context) (session context.Context, done func(), err error) {
	if n.sessions.Add(1) > int64(n.o.Limits.Sessions) {
		n.sessions.Add(-1)
		return nil, nil, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	id := messages.SessionID(n.ids.Add(1))
	n.tell(n.rpc, messages.OpenSession{Session: id})
	session, cancel := context.WithCancel(messages.WithSession(ctx, id))
	return session, func() {
		cancel()
		n.sessions.Add(-1)
		n.tell(n.rpc, messages.CloseSession{Session: id})
	}, nil
}
