package node

import (
	"errors"
	"fmt"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// TestClientEvictsOnlyOwnDroppedRecords: a client with more drops than fit evicts neither the
// entries of other clients nor its own newest ones. If all clients have few, the oldest entries are
// evicted.
func TestClientEvictsOnlyOwnDroppedRecords(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	id := func(i int) primitives.Hash { return primitives.HashBytes(fmt.Append(nil, i)) }
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	var d dropRecord
	add := func(i int, source string) {
		d.add(&messages.TransactionsDropped{List: []messages.DroppedTransaction{{Hash: id(i), Err: full,
			Source: source}}}, log)
	}
	for i := range 3 {
		add(i, "honest")
	}
	for i := 3; i < 5*maxDropped; i++ {
		add(i, "flood")
	}
	for i := range 3 {
		if d.of(id(i)).err == nil {
			t.Errorf("%d of 3 is forgotten", i)
		}
	}
	if d.of(id(5*maxDropped-1)).err == nil || d.of(id(3)).err != nil || len(d.why) > maxDropped ||
		len(d.order) > 2*maxDropped {
		t.Errorf("of the flood: the newest %v, the oldest %v; %d and %d remembered", d.of(id(5*maxDropped-1)),
			d.of(id(3)), len(d.why), len(d.order))
	}
	d = dropRecord{}
	for i := range 3 * maxDropped {
		add(i, fmt.Sprint("source ", i))
	}
	if d.of(id(3*maxDropped-1)).err == nil || d.of(id(0)).err != nil || len(d.why) > maxDropped {
		t.Errorf("of as many sources: %d remembered", len(d.why))
	}
	for range 3 * maxDropped {
		add(1, "one")
	}
	if len(d.order) > 2*maxDropped {
		t.Errorf("one transaction takes %d places", len(d.order))
	}
}

// TestDroppedRecordSurvivesBadCopies: a new copy hides an earlier drop until it is checked. Only a
// pooled copy removes it.
func TestDroppedRecordSurvivesBadCopies(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	hash, full := primitives.Hash{1}, &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	var d dropRecord
	d.add(&messages.TransactionsDropped{List: []messages.DroppedTransaction{{Hash: hash, Err: full}}}, log)
	d.sent(hash)
	d.sent(hash)
	if d.settled(hash, false).err != nil || d.of(hash).err != nil {
		t.Error("reported as dropped while a copy is unchecked")
	}
	if d.settled(hash, false).err != full || d.of(hash).err != full {
		t.Error("it is forgotten although no copy was taken")
	}
	d.sent(hash)
	if d.settled(hash, true); d.of(hash).err != nil || d.count.Load() != 0 {
		t.Error("reported as dropped although a pool has it")
	}
}

// TestDroppedRecordEndsWithItsChain: a transaction that was invalid on a replaced branch, or on
// blocks removed by a rollback, is no longer reported as invalid. Requests do not wait for a height
// that the chain does not have.
func TestDroppedRecordEndsWithItsChain(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	hash, used := primitives.Hash{1}, &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}
	var d dropRecord
	d.add(&messages.TransactionsDropped{Tip: 9, List: []messages.DroppedTransaction{{Hash: hash, Err: used}}}, log)
	d.reorganised(5)
	var invalid *primitives.InvalidTxError
	if got := d.of(hash); got.err == nil || errors.As(view.UnknownTx(hash, got.err), &invalid) || got.tip != 5 {
		t.Errorf("%+v", got)
	}

	s := start(t, 1, nil)
	snapshot, err := s.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, second := s.tx(validator, transfer(1)), s.tx(validator, transfer(2))
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: second, WaitUntil: view.LevelFinal}); err != nil {
		t.Fatal(err)
	}
	if err := s.SendTxAsync(t.Context(), first); err != nil { // its nonce is already used
		t.Fatal(err)
	}
	until(t, func() bool { return errors.As(s.drops.of(first.Hash()).err, &invalid) })
	if err := s.Rollback(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	for _, level := range []view.ExecutionLevel{view.LevelNone, view.LevelFinal} {
		_, err := s.Tx(t.Context(), &view.GetTx{Hash: first.Hash(), Sender: validator, WaitUntil: level})
		if e := new(view.LookupError); !errors.As(err, &e) || e.Kind != view.ErrUnknownTx || errors.As(err, &invalid) {
			t.Errorf("wait for %v after the rollback: %v", level, err)
		}
	}
	if err := <-s.sends(t.Context(), first, view.LevelFinal); err != nil {
		t.Errorf("sent again: %v", err)
	}
}

// TestReplicaForwardsWithoutHolding: a node that makes no chunks from its pools forwards a
// transaction at once and does not hold it for compilation. Another node may include it, so no
// limit drops it here.
func TestReplicaForwardsWithoutHolding(t *testing.T) {
	passed := make(chan struct{}, 1)
	vm := newSlowVM()
	s := startOn(t, 1, storage.NewMemDisk(), vm, func(o *Options) {
		o.Replica, o.Keys = true, nil
		o.Pooled = func(messages.TransactionPooled) { passed <- struct{}{} }
	})
	s.sends(t.Context(), s.tx(validator, deployCode("one")), view.LevelFinal)
	<-passed
	if held := s.shards.set.Load().list[0].pool.Held(); held != 0 || !vm.asked("one") {
		t.Errorf("%d transactions are held, want none; its code is compiled: %v", held, vm.asked("one"))
	}
}
