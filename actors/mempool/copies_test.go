package mempool

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// sends submits a transaction as a waiter.
func (w *world) sends(x *primitives.SignedTransaction, waiter messages.WaiterID) {
	w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 1, Waiter: waiter},
		Transactions: []*primitives.SignedTransaction{x}})
}

// TestInvalidCopyOfPooledIsAnsweredPooled: if a copy of a pooled transaction is found invalid, the
// answer is "pooled", since the pooled copy may still run. A bad signature is refused, since it
// concerns the copy alone.
func TestInvalidCopyOfPooledIsAnsweredPooled(t *testing.T) {
	w, x := newWorld(nil), tx("a.near", 1)
	w.add(x)
	w.verdicts[x.Hash()] = Verdict{Invalid: &primitives.InvalidTxError{Tag: primitives.TxNotEnoughBalance}}
	w.sends(x, 1)
	w.verdicts[x.Hash()] = Verdict{Invalid: &primitives.InvalidTxError{Tag: primitives.TxInvalidSignature}}
	w.sends(x, 2)
	if got := w.submitted[1]; len(got) != 1 || !got[0].Pooled || got[0].Err != nil {
		t.Errorf("a copy that can't pay: %+v", got)
	}
	if got := w.submitted[2]; len(got) != 1 || got[0].Pooled || got[0].Err == nil {
		t.Errorf("a copy with a bad signature: %+v", got)
	}
}

// TestTransactionIsCheckedAgainAfterRollback: a transaction is checked again if a reorganisation or
// rollback happens after the state was read.
func TestTransactionIsCheckedAgainAfterRollback(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*world)
	}{
		{"reorganised", func(w *world) { w.block(1, 0, 1, func(m *messages.BlockAccepted) { m.Reorganised = true }) }},
		{"went back", func(w *world) {
			w.Handle(system.NewRequest[messages.RestorePool, messages.PoolRestored](messages.RestorePool{}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, x := newWorld(nil), tx("a.near", 1)
			w.o.Check = func([]*primitives.SignedTransaction) []Verdict {
				if w.looked = append(w.looked, nil); len(w.looked) > 1 {
					return []Verdict{{}}
				}
				tc.do(w) // the reorganisation happens after the state was read
				return []Verdict{{Invalid: &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}}}
			}
			w.sends(x, 1)
			if got := w.submitted[1]; len(w.looked) != 2 || len(got) != 1 || !got[0].Pooled || !w.has(x) {
				t.Errorf("checked %d times, got %+v, in the pool %v", len(w.looked), got, w.has(x))
			}
		})
	}
}

// TestDropNumbersFollowAnswers: the number of a drop is higher than Drops in earlier answers, and
// not higher than Drops in later ones.
func TestDropNumbersFollowAnswers(t *testing.T) {
	w, x := newWorld(nil), tx("a.near", 1)
	for i := range messages.WaiterID(2) {
		w.sends(x, i+1)
		w.Handle(messages.TransactionRefused{Tx: x, Err: ErrShardGone})
	}
	var nth []uint64
	for _, m := range w.drops {
		nth = append(nth, m.List[0].Nth)
	}
	if len(nth) != 2 || w.submitted[1][0].Drops >= nth[0] || w.submitted[2][0].Drops < nth[0] ||
		w.submitted[2][0].Drops >= nth[1] {
		t.Errorf("drops %v, answers %+v and %+v", nth, w.submitted[1], w.submitted[2])
	}
	w.verdicts[x.Hash()] = Verdict{Invalid: tooOld}
	if w.sends(x, 3); w.settled[true] != 2 || w.settled[false] != 1 {
		t.Errorf("the record hears of %v", w.settled)
	}
}

// TestDepartedTransactionFreesCompileSlot: two transactions wait for the same code. If one leaves
// with a block or moves to another shard, its slot does not cause the other one's eviction. If both
// move, both are held in the other shard's pool.
func TestDepartedTransactionFreesCompileSlot(t *testing.T) {
	for _, moves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(func(o *Options) { o.Hold = txpool.QueueLimits{Items: 2} })
			settle := w.runConcurrently()
			busy := make(chan struct{})
			for i := range messages.WaiterID(Compiling) {
				w.holding(tx("zzz.near", primitives.Nonce(i+1)), i+1, busy)
				settle()
			}
			name, first, second := nextName(), tx("a.near", 1), tx("a.near", 2)
			code := compiles(nil).Code
			w.deploying(first, 11, name, code)
			settle()
			w.deploying(second, 12, name, code)
			settle()
			if w.front.Held() != 4 {
				t.Fatalf("%d are held, want 4", w.front.Held())
			}
			if moves {
				w.away["a.near"] = 7
				w.Handle(system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
				m := w.forwarded[7][0].(moved)
				for _, x := range m.txs {
					if x.hold.code == nil {
						t.Error("one goes without its hold")
					}
				}
				if len(m.txs) != 2 || len(w.codes) != 2 {
					t.Errorf("%d move, %d codes stay; want 2, 2", len(m.txs), len(w.codes))
				}
			} else {
				w.block(1, 0, 1, nil, first)
				settle()
				if !w.has(second) || w.held != 3 {
					t.Errorf("in the pool: %v, %d are held", w.has(second), w.held)
				}
			}
			if !slices.Equal(w.dropped, nil) {
				t.Errorf("dropped %v for %v", w.dropped, w.why)
			}
			close(busy)
			settle()
			w.closeEnded()
			settle()
			if w.held != 0 || w.heldBytes != 0 || len(w.codes) != 0 {
				t.Errorf("%d are held in the end with %d bytes, %d codes", w.held, w.heldBytes, len(w.codes))
			}
		})
	}
}

// TestReturnedWithoutRoomIsNotReportedDropped: a transaction of a replaced branch finds no room
// in this pool. It is not reported as dropped if other nodes have it, since their chunks may
// include it.
func TestReturnedWithoutRoomIsNotReportedDropped(t *testing.T) {
	x := tx("a.near", 5)
	w := newWorld(func(o *Options) {
		o.Pool = txpool.New(txpool.Limits{Transactions: 1}, 10, primitives.Hash{1})
		o.Out.Pooled = func(messages.TransactionPooled) {}
	})
	w.add(tx("b.near", 1))
	w.block(1, 0, 1, func(m *messages.BlockAccepted) {
		m.Reorganised, m.Returned = true, []*primitives.SignedTransaction{x}
	})
	if len(w.dropped) != 0 || w.has(x) {
		t.Errorf("dropped %v, in the pool %v", w.dropped, w.has(x))
	}
}
