package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestWaitIsAnsweredAtFirstSatisfyingBlock: a wait is answered with the status at the first block
// that satisfies it, however fast blocks are made. The test makes fifteen waits for each level of a
// transfer to another account. A transfer is executed before its block is final, so INCLUDED_FINAL
// is skipped, as in neard.
func TestWaitIsAnsweredAtFirstSatisfyingBlock(t *testing.T) {
	want := map[view.ExecutionLevel]view.ExecutionLevel{
		view.LevelIncluded: view.LevelIncluded, view.LevelExecutedOptimistic: view.LevelExecutedOptimistic,
		view.LevelIncludedFinal: view.LevelExecuted, view.LevelExecuted: view.LevelExecuted, view.LevelFinal: view.LevelFinal,
	}
	for _, shards := range []int{1, 4} {
		for level, want := range want {
			t.Run(fmt.Sprintf("shards=%d/%v", shards, level), func(t *testing.T) {
				// With a linger time of an hour, only waits for finality make final blocks come.
				s := start(t, shards, func(o *Options) { o.Mode, o.Linger = production.Instant, time.Hour })
				for i := range 15 {
					tx := s.tx("near", transfer(1))
					out, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: level})
					if err != nil || out.Level != want {
						t.Fatalf("transfer %d: %+v, %v, want %v", i, out, err, want)
					}
					if level == view.LevelIncluded {
						continue
					}
					if out.Status.Kind != view.FinalSuccessValue || len(out.Outcomes) == 0 {
						t.Errorf("transfer %d: status %v with %d receipts", i, out.Status.Kind, len(out.Outcomes))
					}
					// A read at this moment returns at least that status. An executed transaction
					// is not final immediately.
					now, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelNone})
					if err != nil || now.Level < out.Level || len(now.Outcomes) < len(out.Outcomes) {
						t.Errorf("transfer %d: %v after an answer with %v: %v", i, now.Level, out.Level, err)
					}
					if level == view.LevelExecutedOptimistic && now.Level != level {
						t.Errorf("transfer %d: %v at the next look, want %v still", i, now.Level, level)
					}
				}
			})
		}
	}
}

// TestRequestDuringInclusionGetsStatus: a request for another client's transaction, made while a
// block includes it, gets its status, and neither an invalid nonce nor a timeout.
func TestRequestDuringInclusionGetsStatus(t *testing.T) {
	s := start(t, 1, nil)
	for i := range 100 {
		tx := s.tx("near", transfer(1))
		if err := s.SendTxAsync(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		out, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), Tx: tx, WaitUntil: view.LevelFinal})
		if err != nil || out.Level != view.LevelFinal || time.Since(begin) > 20*time.Second {
			t.Fatalf("transfer %d: %+v, %v after %v, want FINAL", i, out, err, time.Since(begin))
		}
	}
}

// TestWaitEndsWhenNonceIsUsedElsewhere: the wait for a transaction that is never submitted ends
// when another transaction uses its nonce or its key is deleted, and not before.
func TestWaitEndsWhenNonceIsUsedElsewhere(t *testing.T) {
	s := start(t, 1, nil)
	other := s.tx("near", transfer(2)) // never sent
	s.mu.Lock()
	s.nonce--
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Tx(t.Context(), &view.GetTx{Hash: other.Hash(), Tx: other, WaitUntil: view.LevelIncluded})
		ended <- err
	}()
	until(t, func() bool { return s.Stats().Parked == 1 })
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)),
		WaitUntil: view.LevelFinal}); err != nil {
		t.Fatal(err)
	}
	var invalid *primitives.InvalidTxError
	if err := <-ended; !errors.As(err, &invalid) || invalid.Tag != primitives.TxInvalidNonce {
		t.Errorf("%v, want InvalidNonce", err)
	}
}

// TestAsyncFloodDelaysNoOtherClient: a client that submits far more than can be checked waits for
// room. It delays no other client.
func TestAsyncFloodDelaysNoOtherClient(t *testing.T) {
	s := start(t, 1, nil)
	flood, done, err := s.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, stop := context.WithCancel(flood)
	ended := make(chan struct{})
	var flooded atomic.Int64
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ { // each has another hash and fails the check
			x := s.sign(primitives.Transaction{SignerID: "nobody.near", ReceiverID: "near", BlockHash: s.e.Head().Hash,
				Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(n + 1)}})
			// A submission that waits for room when its client disconnects is not taken.
			if err := s.SendTxAsync(ctx, x); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			flooded.Add(1)
		}
	}()
	for range 20 {
		begin := time.Now()
		tx := s.tx("near", transfer(1))
		if err := s.SendTxAsync(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelIncluded}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 20*time.Second { // without fairness it would take far longer
			t.Errorf("a transfer took %v beside the flood", took)
		}
		if queued := s.shards.set.Load().list[0].pool.Queued(); queued > sessionQueue {
			t.Errorf("%d of the flood are queued, want at most %d", queued, sessionQueue)
		}
	}
	until(t, func() bool { return flooded.Load() >= 100 })
	stop()
	<-ended
}

// TestWholeInvalidTransactionGetsReasonAtOnce: a request with a full transaction that was never
// submitted gets the reason why it is invalid, without waiting for a block.
func TestWholeInvalidTransactionGetsReasonAtOnce(t *testing.T) {
	s := start(t, 1, nil)
	tx := s.tx("near", &primitives.Transfer{Deposit: primitives.Balance{Hi: 1 << 62}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := s.Tx(ctx, &view.GetTx{Hash: tx.Hash(), Tx: tx, Sender: tx.SignerID, WaitUntil: view.LevelFinal})
	var invalid *primitives.InvalidTxError
	if !errors.As(err, &invalid) || invalid.Tag != primitives.TxNotEnoughBalance {
		t.Errorf("%v, want NotEnoughBalance", err)
	}
}
