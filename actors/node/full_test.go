package node

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/storage"
)

// TestDiskFills: a node whose disk is full ends with that reason. What it has told is there when it starts again, although it
// makes blocks ahead of the disk; with room again it goes on.
func TestDiskFills(t *testing.T) {
	disk := storage.NewMemDisk()
	left := new(atomic.Int64)
	left.Store(40_000)
	var told []primitives.Hash
	var nonce primitives.Nonce
	for round := range 3 {
		disk.Fault = func(bytes int) error {
			if bytes > 0 && left.Add(-int64(bytes)) < 0 {
				return syscall.ENOSPC
			}
			return nil
		}
		e, store, key, checker := open(t, 2, false, disk)
		for i, tx := range told {
			if out, err := e.TransactionStatus(tx); err != nil || out.Level < view.LevelExecutedOptimistic {
				t.Fatalf("round %d: transaction %d of %d was told and is %v, %v", round, i, len(told), out.Level, err)
			}
		}
		ended := make(chan any, 1)
		n, err := Start(Options{Engine: e, Signatures: checker, Keys: map[primitives.AccountID]primitives.SecretKey{validator: key}, Vote: config.Newest(primitives.NumberingJune),
			Delays: doomslug.Delays{Endorsement: 1e8, Skip: 1e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
			Limits: Limits{Wait: time.Second},
			Exit:   func(_ string, reason any, _ []byte) { ended <- reason }})
		if err != nil {
			t.Fatal(err)
		}
		// What the lost blocks had used is free again: go on from what the head says.
		s := &sandbox{Node: n, e: e, key: key, nonce: nonce}
		before := len(told)
		for len(ended) == 0 && len(told) < before+1000 {
			s.nonce = headNonce(t, s)
			tx := s.tx("near", transfer(1))
			if _, err := n.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic}); err == nil {
				told = append(told, tx.Hash())
			}
		}
		reason, ok := (<-ended).(error)
		if !ok || !errors.Is(reason, storage.ErrFull) || !errors.Is(reason, syscall.ENOSPC) {
			t.Fatalf("round %d: the node ended with %v, want ErrFull", round, reason)
		}
		if len(told) == before {
			t.Errorf("round %d: nothing was told before the disk was full", round)
		}
		nonce = s.nonce
		if err := e.Close(); !errors.Is(err, storage.ErrFull) {
			t.Errorf("round %d: closing: %v, want ErrFull, since blocks are left over", round, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		left.Store(int64(30_000 + 7_777*round))
	}
}

// headNonce is the nonce of the validator's key at the head.
func headNonce(t *testing.T, s *sandbox) primitives.Nonce {
	t.Helper()
	probe := s.sign(primitives.Transaction{SignerID: validator, ReceiverID: "near", BlockHash: s.e.Head().Hash, Actions: []primitives.Action{transfer(1)}})
	nonce, found, err := s.e.KeyNonce(probe)
	if err != nil || !found {
		t.Fatalf("nonce of %s: %v, %v", validator, found, err)
	}
	return nonce
}
