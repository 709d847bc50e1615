package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SendTx submits a transaction and waits until it has reached the level r.WaitUntil or ctx ends.
// The status is that of the first block that satisfies the wait. With NONE, SendTx returns as soon
// as the submission is posted to the mempool (the RPC server calls SendTxAsync itself for NONE).
//
// Errors: *primitives.InvalidTxError; view.ErrNoRoom; view.ErrTimeout, after which a block may
// still include the transaction; view.ErrTooManyRequests; view.ErrBehind; *HaltedError; ErrStopped.
//
// # A wait and its ends
//
// Problem: thousands of requests wait for transactions at once. Each must end exactly once, with a
// status that a later read does not contradict, and must return its permits whatever fails.
//
// Outline:
//
//	wait: takes permits (session, Limits.Parked, admission); counts waits that need finality
//	ask: sends a session.Request to the session, or to the actor rpc (session.Supervisor) if
//	        the session's actor is not started; the session spawns a waiter; waits for one of the ends below
//	statusInTurn: reads the status at the reply's position; all requests for it share the
//	        read (statusGroup)
//	waitFor: if a reorganisation has removed the transaction meanwhile, waits again. If readers
//	        saw a later position when the request arrived, the status is that of the later one
//	        (seen)
//
// The first of these events ends ask:
//   - The waiter answers: the level is reached, or the transaction was rejected or dropped, or
//     the chain was rolled back, or the wait timed out.
//   - ctx ends: the client has disconnected, or its deadline has passed (ErrTimeout with the
//     last known status, see timedOut). If no session has handled the request by then, the
//     transaction is never submitted (GiveUp).
//   - The session's actor has failed: ErrFailed, or the next actor gets the request.
//   - lostAfter has passed since the timeout: the waiter does not answer, which is a bug of
//     this node.
//   - The node halts or the disk is full: *HaltedError.
//   - The node stops: ErrStopped.
//
// waiter.Actor documents the levels of wait_until. As in neard, the answer for INCLUDED has no
// outcomes.
//
// Rejected: answering with the status at the time of the reply. Blocks may be a millisecond apart
// here. So a client that waits for EXECUTED_OPTIMISTIC would see FINAL. With neard's slower blocks
// such a client does not see FINAL.
func (n *Node) SendTx(ctx context.Context, r *view.SendTx) (*view.FinalOutcome, error) {
	if err := n.refuseRequests(); err != nil {
		return nil, err
	}
	if r.WaitUntil == view.LevelNone {
		if err := n.SendTxAsync(ctx, r.Tx); err != nil {
			return nil, err
		}
		return &view.FinalOutcome{Level: view.LevelNone}, nil
	}
	s := n.see()
	m := messages.AwaitTransaction{Hash: r.Tx.Hash(), Tx: r.Tx, Submit: true, Until: r.WaitUntil, Seen: s.at}
	return n.waitFor(ctx, m, s, false)
}

// signerOf returns the signer of the transaction that a request names. The signer determines the
// shard, whose nodes know the transaction's status.
func signerOf(r *view.GetTx) primitives.AccountID {
	if r.Tx != nil {
		return r.Tx.Transaction.SignerID
	}
	return r.Sender
}

// Tx waits until a transaction has reached r.WaitUntil or ctx ends.
//
// Errors: view.ErrUnknownTx if there is nothing to wait for; view.ErrTimeout;
// *primitives.InvalidTxError if r.Tx is set, unknown, and can no longer be included. If this node
// has dropped the transaction, the error is the reason: *primitives.InvalidTxError, or
// view.ErrUnknownTx with the reason.
func (n *Node) Tx(ctx context.Context, r *view.GetTx) (*view.FinalOutcome, error) {
	// read the drop first, because a block may soon include a copy that is submitted after this
	// read
	why := n.drops.of(r.Hash)
	seen := n.see()
	out, err := n.status(ctx, r.Hash, seen.at, r.Receipts)
	seen.included = err == nil
	switch {
	case err == nil && txstatus.Meets(out.Level, r.WaitUntil):
		return out, nil
	case n.statuses != nil && n.statuses.Foreign(signerOf(r)):
		return n.waitRemote(ctx, r, signerOf(r))
	case err != nil && !errors.Is(err, engine.ErrUnknown):
		return nil, err
	case err != nil && why.err != nil && seen.at.Head >= why.tip:
		return nil, view.UnknownTx(r.Hash, why.err)
	case r.WaitUntil != view.LevelNone: // the waiter also checks the transaction
		return n.waitFor(ctx, messages.AwaitTransaction{Hash: r.Hash, Tx: r.Tx, Until: r.WaitUntil, Dropped: why.err,
			DroppedAt: why.tip}, seen, r.Receipts)
	case r.Tx == nil:
		return nil, &view.LookupError{Kind: view.ErrUnknownTx, Hash: r.Hash}
	}
	invalid, err := n.engine.Check(r.Tx, n.signatures.CheckNew)
	if err != nil {
		return nil, err
	}
	// A block may have included the transaction since the first read.
	if out, err = n.status(ctx, r.Hash, n.visiblePosition(), r.Receipts); !errors.Is(err, engine.ErrUnknown) {
		return out, err
	}
	if invalid != nil {
		return nil, invalid
	}
	return nil, &view.LookupError{Kind: view.ErrUnknownTx, Hash: r.Hash}
}

// status returns the status of a transaction as of a position, with its receipts if receipts is
// set.
func (n *Node) status(ctx context.Context, hash primitives.Hash, at messages.Position,
	receipts bool) (*view.FinalOutcome, error) {
	x := n.statusGroup.join(statusKey{hash, at, receipts})
	defer n.statusGroup.leave(x)
	return n.readStatus(ctx, x)
}

// seen is the position that readers saw when a request arrived.
//
// Problem: readers see a block before txtracker gets it. A wait that begins between these two
// moments ends at a position before that block. The answer of the wait would contradict what the
// client has read before.
//
// Invariant: readers saw the position of an answer at some time between the arrival of the request
// and the answer. So an answer is never behind an answer that any client got before the request.
//
// Rejected: waiting until txtracker has the block. That delays the answer. Rejected: sending blocks
// to txtracker before readers see these blocks. A read after the answer could then return an older
// position than the answer.
type seen struct {
	at        messages.Position
	included  bool   // a block is known to have included the transaction
	rollbacks uint64 // value of rollbackState.count before at was read
}

// see returns the position that readers see now.
func (n *Node) see() seen {
	count := n.rollbacks.count.Load()
	return seen{at: n.visiblePosition(), rollbacks: count}
}

// notBefore returns, for the head and for the final block, the higher height of two positions: s.at
// and the position at, where a wait ended. After a rollback s.at is void, and notBefore returns at.
func (n *Node) notBefore(s *seen, at messages.Position) messages.Position {
	if s.rollbacks != n.rollbacks.count.Load() {
		return at
	}
	return messages.Position{Head: max(at.Head, s.at.Head), Final: max(at.Final, s.at.Final)}
}

// waitFor waits for a transaction and then reads its status. waitFor reads the status at the
// position at which the wait ended. If that position is behind s.at, waitFor reads at s.at.
func (n *Node) waitFor(ctx context.Context, m messages.AwaitTransaction, s seen, receipts bool) (*view.FinalOutcome, error) {
	for ; ; m.Again++ {
		messages.LeaveTurn(ctx) // a waiting request must hold neither memory nor a turn in the queue
		a, err := n.wait(ctx, m)
		at := n.notBefore(&s, a.At)
		if err != nil {
			return n.timedOut(ctx, m, &s, at.Head != a.At.Head, receipts, err)
		}
		if a.Level == view.LevelIncluded && at == a.At {
			messages.TakeTurn(ctx)
			// When a block includes a transaction, neard has no outcome yet, so neard answers with
			// the level only. Clients such as near-kit cannot parse the status "Started".
			return &view.FinalOutcome{Level: view.LevelIncluded}, nil
		}
		out, err := n.statusInTurn(ctx, statusKey{m.Hash, at, receipts})
		switch {
		case err != nil && !errors.Is(err, engine.ErrUnknown):
			return nil, err
		case err == nil && (txstatus.Meets(out.Level, m.Until) || m.Again == maxForked):
			if out.Level == view.LevelIncluded { // as above, because neard has no outcome yet
				return &view.FinalOutcome{Level: view.LevelIncluded}, nil
			}
			return out, nil
		case m.Again == maxForked:
			return nil, &view.LookupError{Kind: view.ErrTimeout, Cause: view.TimeoutNotObserved}
		}
		// Since the wait ended, a reorganisation has removed the transaction or moved it to another
		// block. As in neard, the wait continues.
	}
}

// timedOut adds the transaction's status to the error of a wait that timed out. If the status now
// satisfies the wait, timedOut returns the status instead of the error. If no block includes the
// transaction or the client has disconnected, timedOut reads nothing: such reads could be most of
// the node's work if many waits time out. behind is true if the wait ended at an older head than
// s.at.Head. Such a wait may have missed the transaction, so timedOut then reads the status.
func (n *Node) timedOut(ctx context.Context, m messages.AwaitTransaction, s *seen, behind, receipts bool,
	err error) (*view.FinalOutcome, error) {
	var e *view.LookupError
	if !errors.As(err, &e) || e.Kind != view.ErrTimeout {
		return nil, err
	}
	over := *e
	known := over.Level != view.LevelNone || s.included
	if m.Submit {
		known = known || behind && over.Cause == view.TimeoutNotObserved
	} else { // Tx has searched for the transaction before the wait
		over.Cause = view.TimeoutNotObserved
	}
	if !known || errors.Is(ctx.Err(), context.Canceled) {
		return nil, &over
	}
	out, err := n.statusInTurn(ctx, statusKey{m.Hash, n.visiblePosition(), receipts})
	switch {
	case errors.Is(err, engine.ErrUnknown): // a reorganisation has removed the transaction
		over.Level, over.Cause = view.LevelNone, view.TimeoutNotObserved
	case err != nil: // return only the level, because there is no memory for the status
	case txstatus.Meets(out.Level, m.Until):
		return out, nil
	default:
		over.Level, over.Status = out.Level, out
	}
	return nil, &over
}

// statusInTurn waits for the request's turn and reads a status. Requests for the same status that
// wait for their turn share the result of the request that had its turn first.
func (n *Node) statusInTurn(ctx context.Context, k statusKey) (*view.FinalOutcome, error) {
	x := n.statusGroup.join(k)
	defer n.statusGroup.leave(x)
	messages.TakeTurn(ctx)
	return n.readStatus(ctx, x)
}

// maxForked is the maximum number of repeated waits because a reorganisation came between the
// waiter's answer and the reply.
const maxForked = 8

// wait blocks until the waiter answers or ask ends for another reason. It takes the permits, counts
// the wait, and returns the permits at the end.
func (n *Node) wait(ctx context.Context, m messages.AwaitTransaction) (a messages.Awaited, err error) {
	h := n.sessionHandles.of(messages.SessionOf(ctx))
	if h == nil {
		if ctx.Err() != nil { // the client has disconnected
			return a, &view.LookupError{Kind: view.ErrTimeout}
		}
		return a, session.ErrNoSession
	}
	if n.admission.isSlow(n.o.Limits.BeginWait) {
		n.admission.refused.Add(1)
		return a, &view.LookupError{Kind: view.ErrBehind}
	}
	if n.parked.Add(1) > int64(n.o.Limits.Parked) {
		n.parked.Add(-1)
		return a, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	defer n.parked.Add(-1)
	select {
	case <-n.ended:
		return a, ErrStopped
	default:
	}
	if m.Until > view.LevelExecutedOptimistic {
		if n.finalityWaits.add() {
			n.tell(n.producer, messages.FinalityWanted{})
		}
		defer n.finalityWaits.done()
	}
	m.Client = messages.ClientOf(ctx)
	if m.Submit {
		n.tracer.begin(m.Tx, true)
		defer func() { n.tracer.end(m.Hash, err) }()
	}
	until, spare := time.Now().Add(n.o.Limits.Wait), time.Duration(0)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until, spare = d, lostAfter
	}
	for again := range maxUnhandled {
		if a, err = n.ask(ctx, h, m, until, spare); !errors.Is(err, session.ErrUnhandled) {
			return a, err
		}
		// The session has failed, and the rpc actor has not noticed the failure yet.
		time.Sleep(time.Duration(again) * time.Millisecond)
	}
	return a, err
}

// maxUnhandled is the maximum number of times a request is sent again because the actor of its
// session had failed on another request.
const maxUnhandled = 16

// lostAfter is how long after its timeout a waiter may answer. A waiter that has not answered by
// then counts as lost.
const lostAfter = 2 * time.Second

// ask sends a request once and waits for one of the ends listed at SendTx.
func (n *Node) ask(ctx context.Context, h *sessionHandle, m messages.AwaitTransaction, until time.Time,
	spare time.Duration) (a messages.Awaited, err error) {
	m.Waiter = messages.Address{Session: h.id, Waiter: messages.WaiterID(n.ids.Add(1))}
	r := session.NewRequest(m, until, spare)
	failed := *h.failed.Load()
	n.admission.add()
	defer n.admission.end(r)
	n.toSession(h, r)
	forget := func() {
		if !r.GiveUp() { // the session has already handled the request, so this message cannot overtake the request
			n.toSession(h, messages.ForgetTransaction{Waiter: m.Waiter})
		}
	}
	// The waiter has its own timer. This timer is for a waiter that does not answer.
	lost := time.NewTimer(time.Until(until) + lostAfter)
	defer lost.Stop()
	stands := n.haltedCh()
	for {
		select {
		case a = <-r.Answer():
			if ctx.Err() != nil && (errors.Is(a.Err, session.ErrNoSession) || errors.Is(a.Err, session.ErrFailed)) {
				return timeout(r) // no failure: the waiter ended because its client has disconnected
			}
			return a, a.Err
		case <-ctx.Done():
			forget()
			return timeout(r)
		case <-failed:
			// The request goes to the next actor of the session. Wait for a failure of that actor
			// too.
			failed = *h.failed.Load()
			if r.Ended() { // more than one actor failed before this goroutine ran
				return a, session.ErrFailed
			}
		case <-lost.C:
			forget()
			if ctx.Err() != nil { // ctx and the wait ended before this goroutine ran
				return timeout(r)
			}
			return a, fmt.Errorf("node: the waiter of transaction %v does not answer", m.Hash)
		case <-stands:
			forget()
			return a, n.haltedErr()
		case <-n.ended:
			return a, ErrStopped
		}
	}
}

// timeout returns the timeout error with the level that the waiter recorded last, and the height of
// the head at that time.
func timeout(r session.Request) (a messages.Awaited, err error) {
	level, head, looked := r.Level()
	e := &view.LookupError{Kind: view.ErrTimeout, Level: level}
	if looked {
		e.Cause = view.TimeoutNotObserved
	}
	a.At.Head = head
	return a, e
}

// session returns the Props of a session's actor.
func (n *Node) session(id messages.SessionID) *actor.Props {
	return n.spawner.props("session", func() actor.Actor {
		o := session.SessionOptions{Waiter: n.waiter}
		if h := n.sessionHandles.of(id); h != nil {
			o.Ended = *h.failed.Load()
		}
		return session.NewSession(o)
	})
}

// waiter returns the Props of a waiter.
func (n *Node) waiter(r session.Request) *actor.Props {
	return n.spawner.props("waiter", func() actor.Actor {
		return waiter.New(waiter.Options{
			Wait: r.AwaitTransaction, Timeout: r.Patience(), Ledger: outcomeLedger{n.engine}, Records: n.records,
			Chain: waiterChain{n}, Out: &waitSender{n, r},
			Dropped: func(hash primitives.Hash) bool { return n.drops.of(hash).err != nil },
			Events:  waiter.Events{Begun: func() { n.admission.began(r) }, Reached: r.Reached},
		})
	})
}

// waiterChain implements waiter.Chain.
type waiterChain struct{ n *Node }

// Check implements waiter.Chain.
func (c waiterChain) Check(tx *primitives.SignedTransaction) (*primitives.InvalidTxError, error) {
	return c.n.engine.Check(tx, c.n.signatures.CheckNew)
}

// IsUnused implements waiter.Chain.
func (c waiterChain) IsUnused(tx *primitives.SignedTransaction, persisted bool) bool {
	if persisted {
		return c.n.engine.UnusedAtHead(tx)
	}
	return c.n.engine.Unused(tx)
}

// IsIncluded implements waiter.Chain.
func (c waiterChain) IsIncluded(tx primitives.Hash) (bool, error) {
	_, _, err := c.n.engine.Transactions().Transaction(tx)
	if errors.Is(err, engine.ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// Use implements waiter.Chain.
func (c waiterChain) Use(tx *primitives.SignedTransaction) messages.Use {
	n := c.n
	u := messages.Use{Key: string(n.engine.NonceKey(tx)), Nonce: tx.Nonce.Nonce}
	if base, ok := n.baseHeight(tx.BlockHash); ok {
		u.Expires = base + n.engine.Chain().ValidityPeriod + 1
	}
	return u
}

// toSession sends a message to a session: to its actor, or to the rpc actor if the session's actor
// is not started. If the actor ends before it has handled a Request, the sender of that Request
// gets session.ErrUnhandled.
func (n *Node) toSession(h *sessionHandle, m any) {
	pid := h.actor.Load()
	if pid == nil {
		pid = n.rpc
	}
	n.tell(pid, m)
}

// toWaiter sends a message to a waiter.
func (n *Node) toWaiter(to messages.Address, m any) {
	n.tell(actor.NewPID(n.rpc.GetAddress(), session.ID(to)), m)
}
