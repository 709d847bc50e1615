package waiter

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func id(name string) primitives.Hash { return primitives.HashBytes([]byte(name)) }

// executed returns the outcome of name in block h, which creates the receipts sends. The last one
// is a refund if its name begins with r.
func executed(name string, h primitives.Height, sends ...string) messages.Executed {
	o := &primitives.OutcomeWithID{ID: id(name)}
	o.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}
	e := messages.Executed{Outcome: o, Height: h, Block: primitives.Hash{byte(h)}}
	for _, s := range sends {
		o.Outcome.ReceiptIDs = append(o.Outcome.ReceiptIDs, id(s))
		if s[0] == 'r' {
			e.Refund = id(s)
		}
	}
	return e
}

// memLedger is a Ledger in memory.
type memLedger map[primitives.Hash]messages.Executed

func (b memLedger) Outcome(id primitives.Hash, upto primitives.Height) (messages.Executed, bool, error) {
	if id == (primitives.Hash{0xbd}) {
		return messages.Executed{}, false, errors.New("a bad disk")
	}
	e, ok := b[id]
	return e, ok && e.Height <= upto, nil
}

func (b memLedger) put(es ...messages.Executed) memLedger {
	for _, e := range es {
		b[e.Outcome.ID] = e
	}
	return b
}

func position(head, final primitives.Height) messages.Position {
	return messages.Position{Head: head, Final: final}
}

// story is the execution of a transfer: the transaction in block 1, its receipt in 2, the refund in
// 3, and two more blocks, after which 3 is final.
var story = []messages.Progress{
	{At: position(1, 0), Executed: []messages.Executed{executed("tx", 1, "a")}},
	{At: position(2, 0), Executed: []messages.Executed{executed("a", 2, "refund")}},
	{At: position(3, 1), Executed: []messages.Executed{executed("refund", 3)}},
	{At: position(4, 2)},
	{At: position(5, 3)},
}

// TestEachLevelEndsAtItsBlock checks, for each level, which block of story ends the wait.
func TestEachLevelEndsAtItsBlock(t *testing.T) {
	for level, want := range map[view.ExecutionLevel]int{
		view.LevelIncluded: 0, view.LevelExecutedOptimistic: 1, view.LevelIncludedFinal: 2, view.LevelExecuted: 2, view.LevelFinal: 4,
	} {
		c := NewMachine(id("tx"), level)
		got := -1
		for i := range story {
			if c.Step(&story[i]).Done {
				got = i
				break
			}
		}
		if got != want {
			t.Errorf("%v: done after block %d of the story, want %d", level, got+1, want+1)
		}
	}
}

// TestLateWaiterReadsStoredOutcomes: a late waiter reads stored outcomes, watches ids without one,
// and continues with reported outcomes.
func TestLateWaiterReadsStoredOutcomes(t *testing.T) {
	c := NewMachine(id("tx"), view.LevelFinal)
	b := memLedger{}.put(executed("tx", 1, "a"), executed("a", 2, "b", "refund"))
	if d := c.Step(&messages.Progress{Watched: true, At: position(3, 2)}); !d.Read || d.Done || d.Check {
		t.Errorf("watched: %+v, want a read of stored outcomes", d)
	}
	watch, d, err := c.Read(b)
	if err != nil || d.Done || len(watch) != 2 {
		t.Fatalf("read: watch %d ids, %+v, %v, want 2 ids", len(watch), d, err)
	}
	b.put(executed("b", 3)) // stored before the watch is confirmed
	if watch, d, err = c.Read(b); err != nil || d.Done || len(watch) != 0 {
		t.Fatalf("second read: watch %d ids, %+v, %v, want none", len(watch), d, err)
	}
	if d = c.Step(&messages.Progress{Executed: []messages.Executed{executed("refund", 4)}, At: position(5, 3)}); d.Done {
		t.Error("done before the refund's block is final")
	}
	if d = c.Step(&messages.Progress{At: position(6, 4)}); !d.Done {
		t.Errorf("not done, level %v", c.Level())
	}
}

// TestOnlyStoredOutcomesCountAfterFork: after a reorganisation only stored outcomes count.
func TestOnlyStoredOutcomesCountAfterFork(t *testing.T) {
	c := NewMachine(id("tx"), view.LevelIncludedFinal)
	c.Step(&story[0])
	if d := c.Step(&messages.Progress{Reorganised: true, At: position(2, 1)}); d.Done || !d.Read {
		t.Errorf("%+v, want a new look", d)
	}
	if _, d, err := c.Read(memLedger{}); err != nil || d.Done || c.Included() {
		t.Errorf("%+v, %v, want nothing known", d, err)
	}
	if d := c.Step(&messages.Progress{Doubt: true}); !d.Check {
		t.Errorf("%+v, want a check", d)
	}
}

// testWaiter is an actor without a mailbox, and a record of what it sends.
type testWaiter struct {
	*Actor
	outRecord
	invalid *primitives.InvalidTxError
	err     error
	known   bool
	unused  bool
	asked   int // calls of IsUnused for the in-memory head
	sought  int // calls of IsIncluded
}

// fakeChain implements Chain. A nil function returns zero values.
type fakeChain struct {
	check  func() (*primitives.InvalidTxError, error)
	use    messages.Use // with the transaction's nonce if its own is 0
	unused func(persisted bool) bool
	known  func() (bool, error)
}

func (c fakeChain) Check(*primitives.SignedTransaction) (*primitives.InvalidTxError, error) {
	if c.check == nil {
		return nil, nil
	}
	return c.check()
}

func (c fakeChain) Use(tx *primitives.SignedTransaction) messages.Use {
	u := c.use
	u.Nonce = cmp.Or(u.Nonce, tx.Nonce.Nonce)
	return u
}

func (c fakeChain) IsUnused(_ *primitives.SignedTransaction, persisted bool) bool {
	return c.unused != nil && c.unused(persisted)
}

func (c fakeChain) IsIncluded(primitives.Hash) (bool, error) {
	if c.known == nil {
		return false, nil
	}
	return c.known()
}

// outRecord implements Out: it records what a waiter sends.
type outRecord struct {
	watches     []messages.Watch
	gone        int
	submissions []messages.SubmitTransactions
	answers     []messages.Awaited
}

func (s *outRecord) Watch(m messages.Watch)               { s.watches = append(s.watches, m) }
func (s *outRecord) Unwatch(messages.Unwatch)             { s.gone++ }
func (s *outRecord) Submit(m messages.SubmitTransactions) { s.submissions = append(s.submissions, m) }
func (s *outRecord) Reply(m messages.Awaited)             { s.answers = append(s.answers, m) }

// newTestWaiter returns a waiter with Records of its own.
func newTestWaiter(wait messages.AwaitTransaction, ledger Ledger) *testWaiter {
	return newSharing(NewRecords(1<<19), wait, ledger)
}

func newSharing(records *Records, wait messages.AwaitTransaction, ledger Ledger) *testWaiter {
	s := &testWaiter{}
	s.Actor = New(Options{
		Records: records, Wait: wait, Timeout: 10 * time.Second, Ledger: ledger,
		Chain: fakeChain{
			check: func() (*primitives.InvalidTxError, error) { return s.invalid, s.err },
			use:   messages.Use{Key: "key", Expires: 100},
			unused: func(persisted bool) bool {
				if persisted {
					return false
				}
				s.asked++
				return s.unused
			},
			known: func() (bool, error) { s.sought++; return s.known, nil },
		},
		Out: &s.outRecord,
	})
	s.start(func() { s.end() })
	return s
}

func signedTx() *primitives.SignedTransaction {
	return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near",
		PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature)
}

// unsent returns a wait for a transaction that the waiter does not submit. submitted returns one
// for a transaction that it submits.
func unsent(tx *primitives.SignedTransaction, until view.ExecutionLevel) messages.AwaitTransaction {
	return messages.AwaitTransaction{Hash: tx.Hash(), Tx: tx, Until: until}
}

func submitted(tx *primitives.SignedTransaction, until view.ExecutionLevel) messages.AwaitTransaction {
	m := unsent(tx, until)
	m.Submit = true
	return m
}

var (
	nonceUsed = &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}
	tooOld    = &primitives.InvalidTxError{Tag: primitives.TxExpired}
)

// TestWaitForDroppedTransactionEnds: the wait for a dropped transaction ends at once: with the
// reason from Check if the transaction is invalid, else with the reason of the drop. It does not
// end if a block includes the transaction.
func TestWaitForDroppedTransactionEnds(t *testing.T) {
	tx := signedTx()
	s := newTestWaiter(submitted(tx, view.LevelFinal), memLedger{})
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Submitted{Pooled: true})
	if len(s.submissions) != 1 || len(s.watches) != 1 || s.watches[0].Use.Key != "" {
		t.Fatalf("submitted %d times, watches %+v, want a watch of the hash alone while the pool has it",
			len(s.submissions), s.watches)
	}
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	s.Handle(messages.Progress{Dropped: full, Nth: 1})
	if n := len(s.watches); n != 2 || s.watches[1].Use.Key != "key" || len(s.answers) != 0 {
		t.Fatalf("watches %+v, answers %v, want a second watch with the key", s.watches, s.answers)
	}
	s.invalid = tooOld
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err != tooOld || s.gone != 1 {
		t.Errorf("answers %v, unwatched %d times, want the refusal, once", s.answers, s.gone)
	}
}

// TestWaitForDroppedValidTransactionEnds: the wait for a valid but dropped transaction ends at once
// with the reason of the drop. It does not end if a block includes the transaction, or if a copy
// was submitted again.
func TestWaitForDroppedValidTransactionEnds(t *testing.T) {
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	tx := signedTx()
	drop := func(s *testWaiter) {
		s.Handle(messages.Progress{Watched: true})
		s.Handle(messages.Submitted{Pooled: true})
		s.Handle(messages.Progress{Dropped: full, Nth: 1})
		s.Handle(messages.Progress{Watched: true})
	}
	s := newTestWaiter(submitted(tx, view.LevelFinal), memLedger{})
	if drop(s); len(s.answers) != 1 || s.answers[0].Err != full {
		t.Errorf("answers %v, want the reason", s.answers)
	}
	s = newTestWaiter(submitted(tx, view.LevelFinal), memLedger{})
	s.known = true
	if drop(s); len(s.answers) != 0 {
		t.Errorf("a block has it: answers %v", s.answers)
	}
	s = newTestWaiter(submitted(tx, view.LevelFinal), memLedger{})
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Submitted{Pooled: true})
	s.Handle(messages.Progress{Dropped: full, Nth: 1})
	s.Handle(messages.Submitted{Pooled: true}) // another client has submitted it again
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 0 {
		t.Errorf("it is in the pool again: answers %v", s.answers)
	}
}

// TestWaitByHashEndsWhenDropped: a wait by hash ends when the transaction is dropped, or at once if
// it was dropped before. If the transaction is invalid, the error is the reason. Otherwise the
// error says that the transaction is unknown, and contains the reason.
func TestWaitByHashEndsWhenDropped(t *testing.T) {
	tx := signedTx()
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	for _, why := range []error{full, nonceUsed} {
		want := view.UnknownTx(tx.Hash(), why)
		if (errors.Is(want, view.ErrUnknownTx)) != (why == full) {
			t.Fatalf("%v becomes %v", why, want)
		}
		answered := func(what string, s *testWaiter) {
			t.Helper()
			if len(s.answers) != 1 || s.answers[0].Err == nil || s.answers[0].Err.Error() != want.Error() {
				t.Errorf("%s, %v: answers %v, want %v", what, why, s.answers, want)
			}
		}
		wait := messages.AwaitTransaction{Hash: tx.Hash(), Until: view.LevelFinal}
		s := newTestWaiter(wait, memLedger{})
		s.Handle(messages.Progress{Watched: true})
		if len(s.answers) != 0 {
			t.Fatalf("answers %v before it is dropped", s.answers)
		}
		s.Handle(messages.Progress{Dropped: why})
		answered("dropped meanwhile", s)

		wait.Dropped, wait.DroppedAt = why, 5
		s = newTestWaiter(wait, memLedger{})
		s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 4}})
		if len(s.answers) != 0 {
			t.Errorf("answers %v, though a block that is not shown yet may have it", s.answers)
		}
		s = newTestWaiter(wait, memLedger{})
		s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 5}})
		answered("dropped before", s)

		wait.Tx = tx
		s = newTestWaiter(wait, memLedger{})
		s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 5}})
		answered("given whole, dropped before", s)
	}
}

// TestDoubtChecksTransactionAgain: after a Doubt, a waiter that does not submit checks its
// transaction, and watches it again if it is valid.
func TestDoubtChecksTransactionAgain(t *testing.T) {
	s := newTestWaiter(unsent(signedTx(), view.LevelFinal), memLedger{})
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Progress{Doubt: true})
	if n := len(s.watches); n != 2 || s.watches[1].Use.Key != "key" || len(s.answers) != 0 {
		t.Fatalf("watches %+v, answers %v, want the key watched again, and then a look", s.watches, s.answers)
	}
	s.invalid = tooOld
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err != tooOld {
		t.Errorf("answers %v, want the refusal", s.answers)
	}
}

// TestMempoolsRefusalIsTheReply: the error in the mempool's answer is the reply.
func TestMempoolsRefusalIsTheReply(t *testing.T) {
	broken := errors.New("a failure")
	for _, want := range []error{nonceUsed, tooOld, &view.LookupError{Kind: view.ErrTooManyRequests},
		&view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}, broken} {
		s := newTestWaiter(submitted(signedTx(), view.LevelFinal), memLedger{})
		s.Handle(messages.Submitted{Err: want})
		if len(s.answers) != 1 || s.answers[0].Err != want {
			t.Errorf("answers %v, want %v", s.answers, want)
		}
	}
}

// TestWaitGoesOnForUnreportedInclusion: the nonce was used by this very transaction, in a block
// that is on disk but not yet reported by the tracker. The wait goes on until it is reported.
func TestWaitGoesOnForUnreportedInclusion(t *testing.T) {
	tx := signedTx()
	e := executed("x", 1, "a")
	e.Outcome.ID = tx.Hash()
	for name, refuse := range map[string]func(*testWaiter){
		"sent again": func(s *testWaiter) {
			s.Handle(messages.Submitted{Err: nonceUsed})
			s.Handle(messages.Progress{Watched: true})
		},
		"looked at": func(s *testWaiter) { s.Handle(messages.Progress{Watched: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			m := unsent(tx, view.LevelExecutedOptimistic)
			m.Submit = name == "sent again"
			s := newTestWaiter(m, memLedger{}.put(e))
			s.invalid, s.known = nonceUsed, true
			refuse(s)
			if len(s.answers) != 0 {
				t.Fatalf("answers %v, want none yet", s.answers)
			}
			s.Handle(messages.Progress{At: position(1, 0), Executed: []messages.Executed{e}})
			s.Handle(messages.Progress{At: position(2, 0), Executed: []messages.Executed{executed("a", 2)}})
			if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level != view.LevelExecutedOptimistic ||
				s.answers[0].At.Head != 2 {
				t.Errorf("answers %v, want EXECUTED_OPTIMISTIC at block 2", s.answers)
			}
		})
	}
}

// TestOutcomesAfterTrackersPositionWait: outcomes in blocks after the tracker's position are not
// used, so that the reply is that of the first block that satisfies the wait.
func TestOutcomesAfterTrackersPositionWait(t *testing.T) {
	b := memLedger{}
	for i := range story {
		b.put(story[i].Executed...)
	}
	for level, want := range map[view.ExecutionLevel]messages.Awaited{
		view.LevelIncluded:           {Level: view.LevelIncluded, At: position(1, 0)},
		view.LevelExecutedOptimistic: {Level: view.LevelExecutedOptimistic, At: position(2, 0)},
		view.LevelIncludedFinal:      {Level: view.LevelExecuted, At: position(3, 1)},
		view.LevelExecuted:           {Level: view.LevelExecuted, At: position(3, 1)},
		view.LevelFinal:              {Level: view.LevelFinal, At: position(5, 3)},
	} {
		s := newTestWaiter(messages.AwaitTransaction{Hash: id("tx"), Until: level}, b)
		s.Handle(messages.Progress{Watched: true})
		for i := range story {
			s.Handle(story[i])
		}
		if len(s.answers) != 1 || s.answers[0] != want {
			t.Errorf("wait for %v: answers %+v, want %+v", level, s.answers, want)
		}
	}
}

// TestRestartedTrackerIsWatchedAgain: the tracker or the mempool has restarted. The waiter watches
// or submits again.
func TestRestartedTrackerIsWatchedAgain(t *testing.T) {
	s := newTestWaiter(submitted(signedTx(), view.LevelFinal), memLedger{})
	s.Handle(messages.WatchAgain{})
	s.Handle(messages.SubmitAgain{})
	// The tracker may have got a drop before it knew the waiter.
	if len(s.watches) != 2 || len(s.watches[1].IDs) != 1 || len(s.submissions) != 3 {
		t.Errorf("watches %+v, submitted %d times, want the watch twice, and the submission once more for each",
			s.watches, len(s.submissions))
	}
	e := executed("x", 1, "a")
	e.Outcome.ID = s.o.Wait.Hash
	s.Handle(messages.Progress{At: position(1, 0), Executed: []messages.Executed{e}})
	s.Handle(messages.WatchAgain{})
	s.Handle(messages.SubmitAgain{})
	if last := s.watches[len(s.watches)-1]; len(last.IDs) != 1 || last.IDs[0] != s.o.Wait.Hash || len(s.submissions) != 3 {
		t.Errorf("watch %+v, submitted %d times, want the transaction alone, because earlier outcomes may be invalid", last,
			len(s.submissions))
	}
	s.o.Ledger.(memLedger)[s.o.Wait.Hash] = e
	s.Handle(messages.Progress{Watched: true, At: position(1, 0)})
	last := s.watches[len(s.watches)-1]
	if len(last.IDs) != 1 || last.IDs[0] != id("a") || len(last.Executed) != 1 || last.Executed[0] != 1 ||
		len(s.submissions) != 3 {
		t.Errorf("watch %+v, submitted %d times, want the receipt and the block that is not final, and no submission",
			last, len(s.submissions))
	}
}

func TestTimeoutAndDiskErrorAreReplies(t *testing.T) {
	s := newTestWaiter(messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}, memLedger{})
	s.Handle(story[0])
	s.Handle(expired{})
	var e *view.LookupError
	if len(s.answers) != 1 || !errors.As(s.answers[0].Err, &e) || e.Kind != view.ErrTimeout ||
		e.Level != view.LevelIncluded {
		t.Errorf("answers %v, want a timeout at INCLUDED", s.answers)
	}
	s = newTestWaiter(messages.AwaitTransaction{Hash: primitives.Hash{0xbd}, Until: view.LevelFinal}, memLedger{})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err == nil {
		t.Errorf("answers %v, want the disk's error", s.answers)
	}
	s = newTestWaiter(submitted(signedTx(), view.LevelFinal), memLedger{})
	s.invalid = tooOld
	s.Handle(expired{})
	if len(s.answers) != 1 || s.answers[0].Err != tooOld {
		t.Errorf("answers %v, want the refusal of what can't come any more", s.answers)
	}
}

// TestAnyReportOrderGivesOneReply: reports, stored outcomes and confirmations in any order lead to
// one reply.
func TestAnyReportOrderGivesOneReply(t *testing.T) {
	rng := primitives.NewChaCha8Rng([32]byte{3})
	for range 300 {
		b := memLedger{}
		s := newTestWaiter(messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}, b)
		watched, told := map[primitives.Hash]bool{}, 0
		var at messages.Position // of the tracker
		confirm := func() {      // the tracker handles and confirms the watches
			for ; told < len(s.watches); told++ {
				for _, x := range s.watches[told].IDs {
					watched[x] = true
				}
				s.Handle(messages.Progress{Watched: true, At: at})
			}
		}
		for i := range story {
			if rng.Uint32()%2 == 0 {
				confirm()
			}
			p := story[i]
			b.put(p.Executed...) // stored before it is reported
			if rng.Uint32()%3 == 0 {
				confirm()
			}
			p.Executed = nil
			for _, e := range story[i].Executed {
				if watched[e.Outcome.ID] {
					p.Executed = append(p.Executed, e)
					for _, r := range e.Outcome.Outcome.ReceiptIDs {
						watched[r] = true
					}
				}
			}
			at = p.At
			s.Handle(p)
		}
		confirm()
		confirm()
		s.Handle(messages.Progress{At: position(6, 3)})
		if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level != view.LevelFinal {
			t.Fatalf("answers %v, want FINAL, once", s.answers)
		}
	}
}

// countingLedger is a book that counts lookups.
type countingLedger struct {
	memLedger
	n *int
}

func (c countingLedger) Outcome(id primitives.Hash, upto primitives.Height) (messages.Executed, bool, error) {
	*c.n++
	return c.memLedger.Outcome(id, upto)
}

// TestUnusedNonceNeedsNoStoreSearch: the store is not searched for a transaction whose nonce is
// unused. It is searched if the nonce is used, and once the transaction is known to be included,
// also after a reorganisation.
func TestUnusedNonceNeedsNoStoreSearch(t *testing.T) {
	tx := signedTx()
	ran := messages.Executed{Outcome: &primitives.OutcomeWithID{ID: tx.Hash()}, Block: primitives.Hash{9}, Height: 3}
	ran.Outcome.Outcome.Status.Kind = primitives.StatusSuccessValue
	var looks int
	ledger := countingLedger{memLedger{}, &looks}
	s := newTestWaiter(submitted(tx, view.LevelFinal), ledger)
	s.unused = true
	s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 2, Final: 1}})
	if looks != 0 || s.asked != 1 || len(s.answers) != 0 {
		t.Errorf("%d reads, %d nonce checks, answers %+v; want no read, 1 check, no answer", looks, s.asked, s.answers)
	}
	s.Handle(messages.Submitted{Pooled: true})
	s.Handle(messages.Progress{Executed: []messages.Executed{ran}, At: messages.Position{Head: 3, Final: 1}})
	s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 3, Final: 1}}) // its receipts are looked up
	if s.asked != 1 || len(s.answers) != 0 {
		t.Errorf("%d nonce checks for an included transaction, want 1", s.asked)
	}
	s.unused = false // another branch, which includes it elsewhere, has become canonical
	ledger.memLedger[tx.Hash()] = ran
	s.Handle(messages.Progress{Reorganised: true, At: messages.Position{Head: 5, Final: 4}})
	if looks == 0 || len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level != view.LevelFinal {
		t.Errorf("after a reorganisation: %d reads, answers %+v", looks, s.answers)
	}

	// A waiter that does not submit always searches the store: the key may have been reset to a
	// lower nonce, by a patch or by delete and add in one block.
	looks = 0
	s = newTestWaiter(unsent(tx, view.LevelFinal), ledger)
	s.unused = true
	s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 5, Final: 4}})
	if looks != 1 || len(s.answers) != 1 || s.answers[0].Err != nil {
		t.Errorf("of a key whose nonce was set back: %d look-ups, %+v", looks, s.answers)
	}

	looks = 0 // a transaction that is submitted again is found
	s = newTestWaiter(submitted(tx, view.LevelFinal), ledger)
	s.known = true
	s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 5, Final: 4}})
	s.Handle(messages.Submitted{Err: nonceUsed})
	if looks != 1 || s.sought != 1 || len(s.answers) != 1 || s.answers[0].Err != nil {
		t.Errorf("sent again: %d and %d look-ups, %+v", looks, s.sought, s.answers)
	}

	for _, unused := range []bool{true, false} { // Known is called only for a used nonce
		s = newTestWaiter(submitted(tx, view.LevelFinal), countingLedger{memLedger{}, &looks})
		s.unused, s.invalid = unused, tooOld
		s.Handle(messages.Submitted{Pooled: true})
		s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 5, Final: 4}})
		s.Handle(messages.Progress{Dropped: tooOld, Nth: 1, At: messages.Position{Head: 6, Final: 5}})
		s.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 6, Final: 5}})
		if (s.sought == 0) != unused || len(s.answers) != 1 || !errors.Is(s.answers[0].Err, tooOld) {
			t.Errorf("dropped, unused %v: sought %d times, %+v", unused, s.sought, s.answers)
		}
	}
}

// TestReplacedBranchOutcomesAreDropped: the tracker restarted after a reorganisation that it did
// not report. The waiter drops the outcomes of the replaced branch, and the reply is that of the
// canonical one.
func TestReplacedBranchOutcomesAreDropped(t *testing.T) {
	tx := signedTx()
	of := func(e messages.Executed) messages.Executed {
		e.Outcome.ID = tx.Hash()
		return e
	}
	for _, until := range []view.ExecutionLevel{view.LevelIncludedFinal, view.LevelExecuted, view.LevelFinal} {
		for _, m := range []messages.AwaitTransaction{unsent(tx, until), submitted(tx, until)} {
			b := memLedger{}
			s := newTestWaiter(m, b)
			s.unused = true
			s.Handle(messages.Progress{Watched: true, At: position(0, 0)})
			s.Handle(messages.Submitted{Pooled: true})
			s.Handle(messages.Progress{At: position(1, 0), Executed: []messages.Executed{of(executed("x", 1, "a"))}})
			s.Handle(messages.Progress{At: position(2, 0), Executed: []messages.Executed{executed("a", 2)}})
			before := len(s.submissions)
			s.Handle(messages.WatchAgain{})
			s.Handle(messages.Progress{Watched: true, At: position(6, 4)})
			if len(s.answers) != 0 {
				t.Fatalf("%v, submitted %v: %+v, and no block has it", until, m.Submit, s.answers)
			}
			if m.Submit && len(s.submissions) != before+1 {
				t.Errorf("%v: a pool may have dropped it unheard, and it is submitted %d times more", until,
					len(s.submissions)-before)
			}
			found := false
			for _, w := range s.watches[1:] {
				for _, x := range w.IDs {
					found = found || x == tx.Hash()
				}
			}
			if !found {
				t.Errorf("%v: the tracker does not watch what the wait needs: %+v", until, s.watches)
			}
			s.Handle(messages.Submitted{Pooled: true})
			s.Handle(messages.Progress{At: position(7, 5), Executed: []messages.Executed{of(executed("x", 7, "c"))}})
			s.Handle(messages.Progress{At: position(8, 6), Executed: []messages.Executed{executed("c", 8)}})
			s.Handle(messages.Progress{At: position(10, 8)})
			if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level != view.LevelFinal {
				t.Errorf("%v: %+v", until, s.answers)
			}
		}
	}
}

// TestDropsOfOtherCopiesAreIgnored: a waiter that submits ignores drops of other copies while the
// mempool checks its copy, and drops from before a pool took its copy. A waiter that does not
// submit ignores drops after which a copy was submitted.
func TestDropsOfOtherCopiesAreIgnored(t *testing.T) {
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "a limit"}
	tx := signedTx()
	s := newTestWaiter(submitted(tx, view.LevelFinal), memLedger{})
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Progress{Dropped: full, Nth: 1})
	s.Handle(messages.Submitted{Pooled: true, Drops: 1})
	s.Handle(messages.Progress{Dropped: full, Nth: 1}) // it was reported before the pool took the copy
	s.Handle(messages.Progress{Dropped: full})         // Nth 0: reported by a mempool that has failed
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 0 {
		t.Fatalf("drops of other copies: %+v", s.answers)
	}
	s.Handle(messages.SubmitAgain{})
	s.Handle(messages.Progress{Dropped: full, Nth: 2})
	s.Handle(messages.Submitted{Pooled: true, Drops: 2})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 0 || len(s.submissions) != 2 {
		t.Fatalf("a drop while it is sent again: %+v, submitted %d times", s.answers, len(s.submissions))
	}
	s.Handle(messages.Progress{Dropped: full, Nth: 3})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err != full {
		t.Errorf("its own: %+v", s.answers)
	}

	holds := false
	s = newTestWaiter(unsent(tx, view.LevelFinal), memLedger{})
	s.o.Dropped = func(primitives.Hash) bool { return holds }
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Progress{Dropped: full, Nth: 1})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 0 {
		t.Fatalf("one that has been sent since: %+v", s.answers)
	}
	holds = true
	s.Handle(messages.Progress{Dropped: full, Nth: 2})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || !errors.Is(s.answers[0].Err, view.ErrUnknownTx) {
		t.Errorf("one that holds: %+v", s.answers)
	}
}
