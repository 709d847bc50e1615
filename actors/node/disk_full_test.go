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
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// TestFullDiskRejectsWritesAndServesReads: on a full disk, a node takes no transactions and makes
// no blocks, answers requests with the reason at once, and serves reads. Once there is room, it
// continues. If it is stopped while the disk is full, all blocks that it reported as accepted are
// there after the restart.
func TestFullDiskRejectsWritesAndServesReads(t *testing.T) {
	disk := storage.NewMemDisk()
	left := new(atomic.Int64)
	left.Store(40_000)
	var told []primitives.Hash
	var nonce primitives.Nonce
	for round := range 4 {
		disk.Fault = func(bytes int) error {
			if bytes > 0 && left.Add(-int64(bytes)) < 0 {
				return syscall.ENOSPC
			}
			return nil
		}
		e, store, key, checker := open(t, 2, disk, nil)
		check := func() {
			t.Helper()
			for i, tx := range told {
				if out, err := e.Transactions().FullStatus(tx); err != nil || out.Level < view.LevelExecutedOptimistic {
					t.Fatalf("round %d: transaction %d of %d was accepted, and is %v, %v", round, i, len(told), out.Level, err)
				}
			}
		}
		check()
		free := make(chan struct{}, 1)
		n, err := Start(Options{Engine: e, Signatures: checker,
			Keys: map[primitives.AccountID]primitives.SecretKey{validator: key}, Vote: parameters.Newest(primitives.NumberingRelease),
			Delays: doomslug.Delays{Endorsement: 1e8, Skip: 1e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
			Limits: Limits{Wait: 30 * time.Second}, Room: func(f *storage.Full) {
				if f == nil {
					free <- struct{}{}
				}
			},
			Exit: func(who string, reason any, _ []byte) { t.Errorf("round %d: %s ends the node: %v", round, who, reason) }})
		if err != nil {
			t.Fatal(err)
		}
		// Transactions in lost blocks have used no nonces, so continue with the nonce at the head.
		s := &sandbox{Node: n, e: e, key: key, nonce: nonce}
		fill := func() {
			t.Helper()
			before := len(told)
			for {
				s.nonce = headNonce(t, s)
				tx := s.tx("near", transfer(1))
				_, err := n.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
				if err == nil {
					told = append(told, tx.Hash())
					continue
				}
				var full *HaltedError
				if !errors.As(err, &full) || !full.Full || full.Actor != "" {
					t.Fatalf("round %d: a transaction on a full disk: %v", round, err)
				}
				break
			}
			if len(told) == before {
				t.Errorf("round %d: no transaction was accepted before the disk was full", round)
			}
			if _, _, err := n.Mine(t.Context(), 1); !errors.As(err, new(*HaltedError)) {
				t.Errorf("round %d: blocks of a full disk: %v", round, err)
			}
			if v := n.HaltedView(); v == nil || v.Reason == "" {
				t.Errorf("round %d: status is %v, want halted with a reason", round, v)
			}
			if _, halted := n.Halted(); halted {
				t.Errorf("round %d: halted for good", round)
			}
			check()
		}
		fill()
		if round%2 == 1 { // room becomes free while the node runs
			left.Store(250_000) // the check for room takes half of it
			<-free
			if _, _, err := n.Mine(t.Context(), 1); err != nil {
				t.Errorf("round %d: blocks with room again: %v", round, err)
			}
			fill()
		}
		nonce = s.nonce
		n.EndWaits()
		if err := n.Stop(t.Context()); err != nil {
			t.Errorf("round %d: stop: %v", round, err)
		}
		if err := e.Close(); err != nil && !errors.Is(err, storage.ErrFull) {
			t.Errorf("round %d: closing: %v", round, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		left.Store(int64(30_000 + 7_777*round))
	}
}

// headNonce returns the nonce of the validator's key in the state of the head.
func headNonce(t *testing.T, s *sandbox) primitives.Nonce {
	t.Helper()
	probe := s.sign(primitives.Transaction{SignerID: validator, ReceiverID: "near", BlockHash: s.e.Head().Hash,
		Actions: []primitives.Action{transfer(1)}})
	nonce, found, err := s.e.KeyNonce(probe)
	if err != nil || !found {
		t.Fatalf("nonce of %s: %v, %v", validator, found, err)
	}
	return nonce
}
