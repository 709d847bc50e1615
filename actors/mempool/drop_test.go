package mempool

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestEveryDropIsReportedWithReason: a transaction that leaves the pool without being included is
// reported once, with the reason.
func TestEveryDropIsReportedWithReason(t *testing.T) {
	x := tx("a.near", 5)
	invalid := func(tag primitives.InvalidTxTag) func(error) bool {
		return func(err error) bool {
			var e *primitives.InvalidTxError
			return errors.As(err, &e) && e.Tag == tag
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	poor := &primitives.InvalidTxError{Tag: primitives.TxNotEnoughBalance}
	reorganised := func(m *messages.BlockAccepted) {
		m.Reorganised, m.Returned = true, []*primitives.SignedTransaction{x}
	}
	for _, tc := range []struct {
		name string
		do   func(w *world)
		want func(error) bool
	}{
		{"expires", func(w *world) { w.add(x); w.block(1, 0, 50, nil) }, invalid(primitives.TxExpired)},
		{"its nonce is used by another in a block", func(w *world) {
			w.add(x)
			w.nonces = map[primitives.AccountID]primitives.Nonce{"a.near": 9}
			w.block(1, 0, 1, nil, tx("a.near", 9))
		}, invalid(primitives.TxInvalidNonce)},
		{"a chunk finds it invalid", func(w *world) {
			w.add(x)
			w.Handle(messages.ChunkChosen{Dropped: []messages.DroppedTransaction{{Hash: x.Hash(), Err: poor}}})
		}, is(poor)},
		{"a block that lost had it, and the pool is full", func(w *world) {
			w.add(tx("b.near", 1), tx("c.near", 1), tx("d.near", 1))
			w.block(1, 0, 1, reorganised)
		}, is(view.ErrNoRoom)},
		{"a block that lost had it, and its nonce is taken", func(w *world) {
			w.add(primitives.NewSignedTransaction(primitives.Transaction{SignerID: x.SignerID, PublicKey: x.PublicKey,
				ReceiverID: "other.near", Nonce: x.Nonce}, x.Signature))
			w.block(1, 0, 1, reorganised)
		}, invalid(primitives.TxInvalidNonce)},
		{"a block that lost had it, and its base is gone", func(w *world) {
			w.unknownBase = true
			w.block(1, 0, 1, reorganised)
		}, invalid(primitives.TxExpired)},
		{"the chain goes back", func(w *world) {
			w.add(x)
			w.Handle(system.NewRequest[messages.RestorePool, messages.PoolRestored](messages.RestorePool{}))
		}, is(ErrRolledBack)},
		{"the shard that it moves to is full", func(w *world) {
			w.add(tx("b.near", 1), tx("c.near", 1), tx("d.near", 1))
			w.Handle(moved{[]based{{tx: x}}})
		}, is(view.ErrNoRoom)},
		{"the shard that it moves to has no pool", func(w *world) {
			w.add(x)
			w.homeless, w.away["a.near"] = true, 7
			w.Handle(system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
		}, is(ErrShardGone)},
		{"it moves once more to a shard that has no pool", func(w *world) {
			w.homeless, w.away["a.near"] = true, 7
			w.Handle(moved{[]based{{tx: x}}})
		}, is(ErrShardGone)},
		{"the node that it was passed on to refuses it", func(w *world) {
			w.add(x)
			w.Handle(messages.TransactionRefused{Tx: x, Err: poor})
		}, is(poor)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(func(o *Options) { o.Pool = txpool.New(txpool.Limits{Transactions: 3}, 10, primitives.Hash{1}) })
			tc.do(w)
			if !slices.Equal(w.dropped, []primitives.Hash{x.Hash()}) || !tc.want(w.why[x.Hash()]) || w.has(x) {
				t.Errorf("dropped %v for %v, in the pool %v", w.dropped, w.why[x.Hash()], w.has(x))
			}
		})
	}
}

// TestUnansweredSubmissionIsReportedAsDropped: a session gets no answer to a single submission. If
// it does not enter the pool, it is reported as dropped, unless it is a bad copy of a good
// transaction.
func TestUnansweredSubmissionIsReportedAsDropped(t *testing.T) {
	async := func(w *world, txs ...*primitives.SignedTransaction) {
		w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 3}, Transactions: txs})
	}
	w := newWorld(func(o *Options) {
		o.Pool = txpool.New(txpool.Limits{Transactions: 2, Bytes: 1 << 20, KeyTransactions: 1}, 10, primitives.Hash{1})
	})
	old, forged, one, second, two, full := tx("old.near", 1), tx("forged.near", 1), tx("a.near", 1), tx("a.near",
		2), tx("b.near", 1), tx("c.near", 1)
	w.verdicts[old.Hash()] = Verdict{Invalid: tooOld}
	w.verdicts[forged.Hash()] = Verdict{Invalid: &primitives.InvalidTxError{Tag: primitives.TxInvalidSignature}}
	async(w, old, forged, one, second, two, full)
	if w.done[3] != 6 || !slices.Equal(w.dropped, []primitives.Hash{old.Hash(), second.Hash(), full.Hash()}) {
		t.Fatalf("%d are done with, dropped %v", w.done[3], w.dropped)
	}
	for hash, limit := range map[primitives.Hash]string{second.Hash(): "troupe.mempool.max_per_key",
		full.Hash(): "troupe.mempool.max_transactions"} {
		if err := w.why[hash]; !errors.Is(err, view.ErrNoRoom) || !strings.HasSuffix(err.Error(), ": "+limit) {
			t.Errorf("dropped for %v, want %s", err, limit)
		}
	}
	w.verdicts[one.Hash()] = Verdict{Invalid: tooOld} // as for a copy that arrives too late
	if async(w, one); len(w.dropped) != 3 || !w.has(one) {
		t.Errorf("a bad copy of one in the pool: dropped %v", w.dropped[3:])
	}

	w = newWorld(func(o *Options) { o.Pool = txpool.New(txpool.Limits{Bytes: 10}, 10, primitives.Hash{1}) })
	if async(w, one); w.why[one.Hash()] == nil || !strings.HasSuffix(w.why[one.Hash()].Error(),
		": transaction_pool_size_limit") {
		t.Errorf("more bytes than the pool takes: %v", w.why[one.Hash()])
	}

	w = newWorld(func(o *Options) { o.Queue = txpool.QueueLimits{Items: 1} })
	if async(w, one, two, full); len(w.dropped) != 2 || !errors.Is(w.why[w.dropped[0]], view.ErrNoRoom) {
		t.Errorf("more than the queue takes: dropped %v", w.dropped)
	}
}

// TestBatchGetsDropReasonOfHeldTransaction: if a held transaction of a batch is dropped, the batch
// gets the reason of the drop, not "pooled".
func TestBatchGetsDropReasonOfHeldTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		settle := w.runConcurrently()
		x := tx("a.near", 1)
		w.verdicts[x.Hash()] = compiles(nil)
		r := NewRequest("", []*primitives.SignedTransaction{x})
		w.Handle(r)
		settle()
		w.block(1, 0, 50, nil)
		settle()
		select {
		case <-r.Done():
			if got := r.Answers()[0]; got.Pooled || !errors.Is(got.Err, primitives.TxExpired) {
				t.Errorf("got %+v, want TxExpired", got)
			}
		case <-time.After(time.Minute):
			t.Error("got no answer within a minute")
		}
		w.closeEnded()
		settle()
	})
}

// TestFailedMempoolRecordsPoolAsLost: a failed mempool records its pool as lost. Waiters get no
// message, because they submit again.
func TestFailedMempoolRecordsPoolAsLost(t *testing.T) {
	w := newWorld(nil)
	x := tx("a.near", 1)
	w.add(x)
	w.closeEnded()
	w.abandon()
	if !slices.Equal(w.lostAll, []primitives.Hash{x.Hash()}) || len(w.dropped) != 0 {
		t.Errorf("recorded %v, dropped %v", w.lostAll, w.dropped)
	}
}

// TestSubmissionOfShardWithoutPoolFails: a submission whose signer belongs to a shard without a
// pool gets ErrShardGone.
func TestSubmissionOfShardWithoutPoolFails(t *testing.T) {
	w := newWorld(nil)
	w.homeless, w.away["a.near"] = true, 7
	if got := w.add(tx("a.near", 1)); len(got) != 1 || got[0].Pooled || got[0].Err != ErrShardGone {
		t.Errorf("answers %+v", got)
	}
	w.hold = true
	r := NewRequest("", []*primitives.SignedTransaction{tx("a.near", 2)})
	w.Handle(r)
	w.handOver()
	select {
	case <-r.Done():
		if got := r.Answers()[0]; got.Err != ErrShardGone {
			t.Errorf("got %+v, want ErrShardGone", got)
		}
	default:
		t.Error("an unchecked submission has no answer when its shard ends")
	}
}
