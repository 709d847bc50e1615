package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/troupe-chain/troupe/actors/txtracker"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// TestFullPoolIsReportedAtOnce: a transaction without room in the pool is rejected with the name of
// the limit, with and without a wait.
func TestFullPoolIsReportedAtOnce(t *testing.T) {
	s := start(t, 1, func(o *Options) { o.Mempool = txpool.Limits{Bytes: 10} })
	x := s.tx("near", transfer(1))
	const want = "there is no room for the transaction: transaction_pool_size_limit"
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: x, WaitUntil: view.LevelFinal}); !errors.Is(err,
		view.ErrNoRoom) || err.Error() != want {
		t.Errorf("send_tx: %v, want %s", err, want)
	}
	if pooled, err := s.Submit(x); pooled || !errors.Is(err, view.ErrNoRoom) {
		t.Errorf("submitted: %v, %v", pooled, err)
	}
	if err := s.SendTxAsync(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return s.drops.of(x.Hash()).err != nil })
	for _, level := range []view.ExecutionLevel{view.LevelNone, view.LevelIncluded} {
		_, err := s.Tx(t.Context(), &view.GetTx{Hash: x.Hash(), Sender: validator, WaitUntil: level})
		if e := new(view.LookupError); !errors.As(err, &e) || e.Kind != view.ErrUnknownTx || e.Hash != x.Hash() ||
			e.Reason != want {
			t.Errorf("tx until %v: %v, want unknown, since %s", level, err, want)
		}
	}
	if text := string(s.Metrics(nil)); !strings.Contains(text, "\ntroupe_transactions_dropped_total 1\n") ||
		!strings.Contains(text, "\ntroupe_transactions_dropped_full_total 1\n") {
		t.Error("the metrics do not count what was dropped")
	}
}

// TestDroppedTransactionIsAnsweredByHash: a request by hash for an invalid transaction that was
// accepted unchecked gets the reason at once. It gets the status if a block includes the
// transaction, whatever happened to copies. If the transaction was submitted again, the request
// waits.
func TestDroppedTransactionIsAnsweredByHash(t *testing.T) {
	s := start(t, 1, nil)
	first, second := s.tx("near", transfer(1)), s.tx("near", transfer(2))
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: second, WaitUntil: view.LevelFinal}); err != nil {
		t.Fatal(err)
	}
	// One with a used nonce, and a copy of one that was executed.
	for _, x := range []*primitives.SignedTransaction{first, second} {
		if err := s.SendTxAsync(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return s.drops.of(x.Hash()).err != nil })
	}
	for _, level := range []view.ExecutionLevel{view.LevelNone, view.LevelFinal} {
		var invalid *primitives.InvalidTxError
		_, err := s.Tx(t.Context(), &view.GetTx{Hash: first.Hash(), Sender: validator, WaitUntil: level})
		if !errors.As(err, &invalid) || invalid.Tag != primitives.TxInvalidNonce {
			t.Errorf("until %v: %v, want that the nonce is used", level, err)
		}
		out, err := s.Tx(t.Context(), &view.GetTx{Hash: second.Hash(), Sender: validator, WaitUntil: level})
		if err != nil || out.Level != view.LevelFinal {
			t.Errorf("a copy of one that has run, until %v: %+v, %v", level, out, err)
		}
	}
}

// TestDroppedRecordKeepsNewest: the newest drops are kept, and the drop of a transaction that is
// pooled later is removed.
func TestDroppedRecordKeepsNewest(t *testing.T) {
	var d dropRecord
	log, hook := logtest.NewNullLogger()
	id := func(i int) primitives.Hash { return primitives.HashBytes(fmt.Append(nil, i)) }
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	for i := range 3 * maxDropped {
		d.add(&messages.TransactionsDropped{Tip: 7, List: []messages.DroppedTransaction{{Hash: id(i), Err: full}}}, log)
		if i%2 == 0 {
			d.sent(id(i))
		}
	}
	if len(d.why) > maxDropped || len(d.order) > 3*maxDropped || int(d.count.Load()) != len(d.why) {
		t.Errorf("%d and %d are remembered, at most %d may be", len(d.why), len(d.order), maxDropped)
	}
	if got := d.of(id(3*maxDropped - 1)); got.err != full || got.tip != 7 || d.of(id(3*maxDropped-2)).err != nil ||
		d.of(id(1)).err != nil {
		t.Errorf("the newest: %v, one that was sent again: %v, an old one: %v", got, d.of(id(3*maxDropped-2)), d.of(id(1)))
	}
	if n := len(hook.AllEntries()); n != 1 || hook.LastEntry().Level != logrus.WarnLevel {
		t.Errorf("%d lines in the log in a minute, want 1", n)
	}
}

// TestRollbackEndsWaitWithReason: when the chain is rolled back, the wait for a pooled transaction
// ends with the reason. A later request by hash gets it too.
func TestRollbackEndsWaitWithReason(t *testing.T) {
	s, vm := startSlow(t, nil)
	snapshot, err := s.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := s.tx(validator, deployCode("one")) // held until its code is compiled
	waits := s.sends(t.Context(), x, view.LevelFinal)
	until(t, func() bool { return vm.asked("one") })
	if err := s.Rollback(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; !errors.Is(err, txtracker.ErrRolledBack) {
		t.Errorf("the wait ended with %v", err)
	}
	_, err = s.Tx(t.Context(), &view.GetTx{Hash: x.Hash(), Sender: validator, WaitUntil: view.LevelIncluded})
	if e := new(view.LookupError); !errors.As(err, &e) || e.Kind != view.ErrUnknownTx ||
		!strings.Contains(e.Reason, "rolled back to a snapshot") {
		t.Errorf("the request by hash got %v", err)
	}
	vm.end("one", true)
	again := s.sign(primitives.Transaction{SignerID: validator, ReceiverID: validator, BlockHash: s.e.Head().Hash,
		Actions: []primitives.Action{deployCode("one")}, Nonce: x.Nonce})
	if err := <-s.sends(t.Context(), again, view.LevelFinal); err != nil {
		t.Errorf("sent again: %v", err)
	}
	if got := s.drops.of(again.Hash()); got.err != nil {
		t.Errorf("it is still remembered as dropped: %v", got.err)
	}
}

// TestCompileQueueEvictionEndsWait: if a transaction is evicted from the compile queue, its wait
// ends at once with the name of the limit.
func TestCompileQueueEvictionEndsWait(t *testing.T) {
	s, vm := startSlow(t, func(o *Options) { o.Limits.Held = 1 })
	var waits []<-chan error
	// Two are being compiled, and one waits.
	for i, code := range []string{"code0", "code1", "code2 is the longest of those that wait"} {
		waits = append(waits, s.sends(t.Context(), s.tx(validator, deployCode(code)), view.LevelFinal))
		until(t, func() bool { return s.shards.set.Load().list[0].pool.Held() == i+1 })
	}
	refused := <-s.sends(t.Context(), s.tx(validator, deployCode("code3")), view.LevelFinal) // its signer has most
	if !errors.Is(refused, view.ErrNoRoom) {
		t.Errorf("one too many: %v", refused)
	}
	s.sends(t.Context(), s.other(1, deployCode("code4")), view.LevelFinal) // has no pooled transaction yet
	if err := <-waits[2]; !errors.Is(err, view.ErrNoRoom) {
		t.Errorf("the evicted transaction's wait ended with %v", err)
	}
	for i := range 2 {
		vm.end(fmt.Sprint("code", i), true)
		if err := <-waits[i]; err != nil {
			t.Errorf("code %d: %v", i, err)
		}
	}
}

// TestStopEndsWaitsAndLogsThem: when the node stops, the wait for a pending transaction ends at
// once, and the log says how many are pending. After a restart the transaction is unknown, and is
// executed if it is submitted again.
func TestStopEndsWaitsAndLogsThem(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	disk, vm := storage.NewMemDisk(), newSlowVM()
	s := startOn(t, 1, disk, vm, func(o *Options) { o.Log = log })
	x := s.tx(validator, deployCode("one"))
	waits := s.sends(t.Context(), x, view.LevelFinal)
	until(t, func() bool { return vm.asked("one") })
	s.stopNow(t)
	if err := <-waits; !errors.Is(err, ErrStopped) {
		t.Errorf("the wait ended with %v", err)
	}
	said := func(e *logrus.Entry) bool {
		return e.Level == logrus.WarnLevel && strings.HasPrefix(e.Message, "1 transactions are in no block yet")
	}
	if !slices.ContainsFunc(hook.AllEntries(), said) {
		t.Error("the log does not say that a transaction waits")
	}
	vm.end("one", true)
	s = startOn(t, 1, disk, vm, nil)
	if _, err := s.Tx(t.Context(), &view.GetTx{Hash: x.Hash(), Sender: validator}); !errors.Is(err, view.ErrUnknownTx) {
		t.Errorf("after the restart: %v", err)
	}
	if err := <-s.sends(t.Context(), x, view.LevelFinal); err != nil {
		t.Errorf("sent again: %v", err)
	}
}
