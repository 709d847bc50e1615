package mempool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// holding submits a transaction as a waiter. Its code is compiled when done is closed.
func (w *world) holding(x *primitives.SignedTransaction, waiter messages.WaiterID, done chan struct{}) {
	w.verdicts[x.Hash()] = compiles(done)
	w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 1, Waiter: waiter}, Client: "c",
		Transactions: []*primitives.SignedTransaction{x}})
}

// TestFullCompileQueueEvictsLargestSigner: if the compile queue is full, the signer with most
// entries loses its newest transaction, and only that transaction's sender gets the error.
func TestFullCompileQueueEvictsLargestSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(func(o *Options) { o.Hold = txpool.QueueLimits{Items: 5} })
		settle := w.runConcurrently()
		for i := range 20 {
			w.holding(tx("many.near", primitives.Nonce(i+1)), messages.WaiterID(i+1), nil)
			settle()
		}
		// Two are being compiled and five wait in the queue.
		if w.front.Held() != 7 || w.front.Compiling() != Compiling || w.front.Len() != 7 || len(w.holds) != 7 {
			t.Errorf("%d are held, %d with the compiler, %d in the pool, %d known; want 7, %d, 7, 7", w.front.Held(),
				w.front.Compiling(), w.front.Len(), len(w.holds), Compiling)
		}
		for i := range messages.WaiterID(20) {
			if got := w.submitted[i+1]; len(got) != 1 || got[0].Pooled != (i < 7) ||
				errors.Is(got[0].Err, view.ErrNoRoom) == got[0].Pooled {
				t.Errorf("submission %d got %+v", i+1, got)
			}
		}
		one, last := tx("one.near", 1), tx("many.near", 7)
		w.holding(one, 21, nil)
		settle()
		if got := w.submitted[21]; len(got) != 1 || !got[0].Pooled || !w.has(one) || w.has(last) || w.front.Held() != 7 {
			t.Errorf("one submission after many: got %+v, in the pool %v, the last of many %v, %d are held", got, w.has(one),
				w.has(last), w.front.Held())
		}
		if !slices.Equal(w.dropped, []primitives.Hash{last.Hash()}) || !errors.Is(w.why[last.Hash()], view.ErrNoRoom) ||
			w.tally.HoldsDropped.Load() != 14 {
			t.Errorf("dropped %v, counted %d; want the last of many, 14", w.dropped, w.tally.HoldsDropped.Load())
		}
		w.closeEnded()
		settle()
	})
}

// TestWaitingForCompilationFillsHalfThePool: transactions that follow one that waits for
// compilation may fill half of the pool. Other transactions may use the rest.
func TestWaitingForCompilationFillsHalfThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(func(o *Options) { o.Pool = txpool.New(txpool.Limits{Transactions: 20}, 10, primitives.Hash{1}) })
		settle := w.runConcurrently()
		w.holding(tx("many.near", 10), 1, nil)
		settle()
		for i := range primitives.Nonce(30) {
			w.add(tx("many.near", 11+i))
			settle()
		}
		if w.front.Len() != 10 || w.tally.HoldsDropped.Load() != 21 {
			t.Errorf("%d are in the pool, %d were dropped; want 10, 21", w.front.Len(), w.tally.HoldsDropped.Load())
		}
		again, before := tx("many.near", 11), tx("many.near", 1)
		// One that is pooled already, and one with a nonce before the held transaction's.
		for _, x := range []*primitives.SignedTransaction{again, before} {
			if got := w.add(x); got != nil {
				t.Fatal("answered before it was looked at")
			}
			settle()
			if !w.has(x) {
				t.Errorf("nonce %d is not in the pool", x.Nonce.Nonce)
			}
		}
		for i := range 9 {
			w.add(tx(primitives.AccountID(fmt.Sprintf("other%d.near", i)), 1))
			settle()
		}
		if w.front.Len() != 20 {
			t.Errorf("other transactions have %d slots, want 9", w.front.Len()-11)
		}
		w.closeEnded()
		settle()
	})
}

// TestCompilationsOfFailedMempoolAreIgnored: results of a failed actor's compilations are ignored
// by its successor, which starts with no compilations.
func TestCompilationsOfFailedMempoolAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		settle := w.runConcurrently()
		done := make(chan struct{})
		code := compiles(done).Code
		x := tx("a.near", 1)
		w.verdicts[x.Hash()] = Verdict{Code: func(end <-chan struct{}) {
			code(end)
			time.Sleep(time.Second) // the compilation notices the cancellation late
		}}
		r := NewRequest("", []*primitives.SignedTransaction{x})
		w.Handle(r)
		settle()
		if w.compiling != 1 {
			t.Fatalf("%d are with the compiler", w.compiling)
		}
		w.closeEnded() // what Receive does at *actor.Restarting
		w.abandon()
		select {
		case <-r.Done():
			if got := r.Answers()[0]; got.Err != ErrRestarted {
				t.Errorf("got %+v, want ErrRestarted", got)
			}
		default:
			t.Error("the batch of the failed actor got no answer")
		}
		w.o.Pool = txpool.New(txpool.Limits{}, 10, primitives.Hash{1})
		w.Actor = New(w.o) // both actors share one mailbox, so results of the old one reach the new one
		settle2 := w.runConcurrently()
		w.holding(x, 1, make(chan struct{}))
		settle2()
		time.Sleep(2 * time.Second)
		settle()
		settle2()
		if w.compiling != 1 || w.front.Compiling() != 1 || w.front.Held() != 1 || len(w.holds) != 1 {
			t.Errorf("%d and %d are with the compiler, %d held, %d known; want 1 each", w.compiling, w.front.Compiling(),
				w.front.Held(), len(w.holds))
		}
		w.closeEnded()
		settle2()
	})
}

// TestHeldTransactionWaitsForCodeAndNonce: a transaction that waits for its code and for smaller
// nonces is offered only after both, in either order.
func TestHeldTransactionWaitsForCodeAndNonce(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			settle := w.runConcurrently()
			w.ahead = func(x *primitives.SignedTransaction) bool { return x.Nonce.Nonce > 4 }
			done := make(chan struct{})
			x := tx("a.near", 5)
			v := compiles(done)
			v.Ahead = true
			w.verdicts[x.Hash()] = v
			w.add(x)
			settle()
			chosen := func() int { return len(w.choose(99, nil).Transactions) }
			if slow {
				time.Sleep(2 * EarlyWait)
				settle()
				if chosen() != 0 {
					t.Error("it does not wait for its code")
				}
				close(done)
				settle()
			} else {
				time.Sleep(EarlyWait / 2)
				close(done)
				settle()
				if chosen() != 0 {
					t.Error("the transaction is offered before the smaller nonce")
				}
				time.Sleep(EarlyWait)
				settle()
			}
			if !w.fresh.HasOffers() || chosen() != 1 || len(w.holds) != 0 {
				t.Errorf("slow %v: it is held still", slow)
			}
		})
	}
}

// TestHeldTransactionKeepsWaitingAfterMove: a transaction that waits for its code keeps waiting in
// the pool that it moves to. Its sender is answered when the wait ends.
func TestHeldTransactionKeepsWaitingAfterMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newWorld(nil), newWorld(func(o *Options) { o.Shard = 5 })
		settleFrom, settleTo := from.runConcurrently(), to.runConcurrently()
		to.away["b.near"], to.away["c.near"] = 5, 5
		done := make(chan struct{})
		list := []*primitives.SignedTransaction{tx("b.near", 1), tx("c.near", 1), tx("b.near", 9)}
		for _, x := range list {
			from.verdicts[x.Hash()] = compiles(done)
		}
		r := NewRequest("", list)
		from.Handle(r)
		settleFrom()
		from.away["b.near"], from.away["c.near"] = 5, 5
		from.Handle(system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
		for _, m := range from.forwarded[5] {
			to.Handle(m)
		}
		settleTo()
		if got := to.choose(99, nil).Transactions; len(got) != 0 || to.front.Held() != 3 || from.front.Held() != 0 {
			t.Errorf("%d go into a chunk, %d are held there and %d here; want 0, 3, 0", len(got), to.front.Held(),
				from.front.Held())
		}
		select {
		case <-r.Done():
			t.Error("the batch got an answer before the transactions are ready")
		default:
		}
		close(done)
		settleFrom()
		settleTo()
		select {
		case <-r.Done():
		default:
			t.Error("the batch got no answer")
		}
		if got := to.choose(99, nil).Transactions; len(got) != 3 || from.compiling != 0 || to.compiling != 0 {
			t.Errorf("%d go into a chunk; %d and %d are with the compiler", len(got), from.compiling, to.compiling)
		}
	})
}

// deploying submits, as a waiter, a transaction that consists almost entirely of code with this
// name.
func (w *world) deploying(x *primitives.SignedTransaction, waiter messages.WaiterID, name primitives.Hash,
	code func(<-chan struct{})) {
	w.verdicts[x.Hash()] = Verdict{Code: code, CodeName: name, CodeBytes: x.Size() - 1}
	w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 1, Waiter: waiter}, Client: "c",
		Transactions: []*primitives.SignedTransaction{x}})
}

// TestSharedCodeIsCompiledAndCountedOnce: transactions of many signers contain the same code. Its
// bytes count once, it is compiled once, at the first turn of any signer, and then all transactions
// are offered. If the payer leaves, another transaction pays.
func TestSharedCodeIsCompiledAndCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := tx("a00.near", 1).Size()
		w := newWorld(func(o *Options) { o.Hold = txpool.QueueLimits{Bytes: 3 * size} })
		settle := w.runConcurrently()
		busy := make(chan struct{})
		for i := range messages.WaiterID(Compiling) { // occupies the compiler
			w.holding(tx("zzz.near", primitives.Nonce(i+1)), i+1, busy)
			settle()
		}
		name, runs := nextName(), 0
		done := make(chan struct{})
		code := func(end <-chan struct{}) {
			runs++
			select {
			case <-done:
			case <-end:
			}
		}
		var shared []*primitives.SignedTransaction
		for i := range 30 {
			x := tx(primitives.AccountID(fmt.Sprintf("a%02d.near", i)), 1)
			shared = append(shared, x)
			w.deploying(x, messages.WaiterID(100+i), name, code)
			settle()
		}
		others := 0
		for _, got := range w.submitted {
			if len(got) != 1 || !got[0].Pooled {
				t.Fatalf("got %+v, want pooled", got)
			}
			others++
		}
		if want := 2*size + size + 29; others != 32 || w.front.Held() != 32 || int(w.front.HeldBytes()) != want {
			t.Fatalf("%d got an answer, %d are held with %d bytes; want 32, 32, %d", others, w.front.Held(), w.front.HeldBytes(),
				want)
		}
		w.block(1, 0, 1, nil, shared[0], shared[1]) // a block of another node includes two of them
		settle()
		if want := 2*size + size + 27; w.front.Held() != 30 || int(w.front.HeldBytes()) != want {
			t.Errorf("%d are held with %d bytes after two have left; want 30, %d", w.front.Held(), w.front.HeldBytes(), want)
		}
		close(busy)
		settle()
		if len(w.dropped) != 0 || runs != 1 || w.front.Held() != 28 {
			t.Errorf("%d are dropped, the code is compiled %d times, %d are held", len(w.dropped), runs, w.front.Held())
		}
		late := tx("late.near", 1)
		w.deploying(late, 200, name, code)
		settle()
		close(done)
		settle()
		if got := w.choose(100, nil).Transactions; runs != 1 || len(got) != 28+1+Compiling || w.front.Held() != 0 ||
			w.front.HeldBytes() != 0 || len(w.codes) != 0 {
			t.Errorf("compiled %d times, %d of %d go, %d are held with %d bytes, %d codes", runs, len(got), 28+1+Compiling,
				w.front.Held(), w.front.HeldBytes(), len(w.codes))
		}
	})
}

// TestSharedCodeStaysCountedAfterEviction: the bytes of a shared code stay counted whichever
// transaction is evicted, and the sender of an evicted one gets the reason.
func TestSharedCodeStaysCountedAfterEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := tx("a00.near", 1).Size()
		w := newWorld(func(o *Options) { o.Hold = txpool.QueueLimits{Bytes: 4 * size} })
		settle := w.runConcurrently()
		for i := range messages.WaiterID(Compiling) {
			w.holding(tx("zzz.near", primitives.Nonce(i+1)), i+1, nil)
			settle()
		}
		n := messages.WaiterID(10)
		for range 6 { // more code than the queue has room for; three transactions share each code
			name := nextName()
			for i := range 3 {
				w.deploying(tx(primitives.AccountID(fmt.Sprintf("a%02d.near", i)), primitives.Nonce(n)), n, name,
					compiles(nil).Code)
				settle()
				n++
			}
		}
		told, kept := 0, 0
		for id, got := range w.submitted {
			if id < 10 {
				continue
			}
			told += len(got)
			if got[0].Pooled {
				kept++
			} else if !errors.Is(got[0].Err, view.ErrNoRoom) {
				t.Errorf("got %+v, want ErrNoRoom", got)
			}
		}
		for _, hash := range w.dropped {
			if !errors.Is(w.why[hash], view.ErrNoRoom) {
				t.Errorf("dropped for %v", w.why[hash])
			}
		}
		bytes := 0
		for _, s := range w.codes {
			if s.compiling {
				continue
			}
			if s.payer.IsZero() {
				t.Error("no transaction pays for the shared code")
			}
			for hash := range s.all {
				h := w.holds[hash]
				bytes += h.counted()
				if h.pays != (hash == s.payer) {
					t.Errorf("pays %v", h.pays)
				}
			}
		}
		if told != 18 || kept-len(w.dropped) != w.front.Len()-Compiling || bytes > 4*size || w.front.Len()-Compiling < 4 {
			t.Errorf("%d got an error, %d kept and %d dropped, %d in the pool with %d bytes, limit %d", told, kept,
				len(w.dropped), w.front.Len(), bytes, 4*size)
		}
		w.closeEnded()
		settle()
	})
}
