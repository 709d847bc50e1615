package node

import (
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
)

// TestBatchIsCheckedConcurrently: the transactions of a batch are checked concurrently, each gets
// its own verdict, and a panic reaches the caller.
func TestBatchIsCheckedConcurrently(t *testing.T) {
	s := start(t, 1, nil)
	const many = 4*checksPerGoroutine - 3
	var txs []*primitives.SignedTransaction
	for i := range many {
		tx := s.tx("near", transfer(uint64(i)))
		if i%5 == 3 {
			tx = s.sign(primitives.Transaction{SignerID: validator, ReceiverID: "near", Nonce: tx.Nonce,
				BlockHash: primitives.HashBytes([]byte{byte(i)})})
		}
		txs = append(txs, tx)
	}
	var mu sync.Mutex
	waiting, met := 0, make(chan struct{})
	verdicts := s.checkAll(txs, func(tx *primitives.SignedTransaction) bool {
		mu.Lock()
		if waiting++; waiting == 4 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
		case <-time.After(time.Minute):
			t.Error("waits for those before it")
		}
		return tx.Nonce.Nonce%2 == 0
	})
	for i, v := range verdicts {
		switch bad := i%5 == 3; {
		case v.Err != nil || bad != (v.Invalid != nil):
			t.Errorf("transaction %d: %+v", i, v)
		case !bad && v.Ahead != (txs[i].Nonce.Nonce%2 == 0):
			t.Errorf("transaction %d has another's verdict", i)
		}
	}
	defer func() {
		if got := parallel.Recovered(recover()); got == nil || got.Reason != "of the seventh" {
			t.Errorf("failed with %v", got)
		}
	}()
	s.checkAll(txs, func(tx *primitives.SignedTransaction) bool {
		if tx == txs[7] {
			panic("of the seventh")
		}
		return false
	})
	t.Error("the panic of a check did not reach the caller")
}
