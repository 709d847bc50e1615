package waiter

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func id(name string) primitives.Hash { return primitives.HashBytes([]byte(name)) }

// executed is the outcome of a transaction or receipt in block h that sends receipts; the last is a refund if its name
// begins with an r.
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

// book is a Ledger.
type book map[primitives.Hash]messages.Executed

func (b book) Outcome(id primitives.Hash) (messages.Executed, bool, error) {
	if id == (primitives.Hash{0xbd}) {
		return messages.Executed{}, false, errors.New("a bad disk")
	}
	e, ok := b[id]
	return e, ok, nil
}

func (b book) put(es ...messages.Executed) book {
	for _, e := range es {
		b[e.Outcome.ID] = e
	}
	return b
}

// story is the life of a transfer: transaction in block 1, receipt in 2, refund in 3, two more blocks until 3 is final.
var story = []messages.Progress{
	{Executed: []messages.Executed{executed("tx", 1, "a")}},
	{Executed: []messages.Executed{executed("a", 2, "refund")}},
	{Executed: []messages.Executed{executed("refund", 3)}, Final: 1},
	{Final: 2},
	{Final: 3},
}

// TestLevels: which block of the story ends the wait for each milestone.
func TestLevels(t *testing.T) {
	for level, want := range map[view.ExecutionLevel]int{
		view.LevelIncluded: 0, view.LevelExecutedOptimistic: 1, view.LevelIncludedFinal: 2, view.LevelExecuted: 2, view.LevelFinal: 4,
	} {
		c := NewCore(id("tx"), level, true)
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

// TestStored: a waiter that comes late reads what is stored, watches what is missing, and goes on with facts.
func TestStored(t *testing.T) {
	c := NewCore(id("tx"), view.LevelFinal, false)
	b := book{}.put(executed("tx", 1, "a"), executed("a", 2, "b", "refund"))
	if d := c.Step(&messages.Progress{Watched: true, Final: 2}); !d.Read || d.Done || d.Check {
		t.Errorf("watched: %+v, want a look at what is stored", d)
	}
	watch, d, err := c.Read(b)
	if err != nil || d.Done || len(watch) != 2 {
		t.Fatalf("read: watch %d ids, %+v, %v, want 2 ids", len(watch), d, err)
	}
	b.put(executed("b", 3)) // before the watch is confirmed
	if watch, d, err = c.Read(b); err != nil || d.Done || len(watch) != 0 {
		t.Fatalf("second read: watch %d ids, %+v, %v, want none", len(watch), d, err)
	}
	if d = c.Step(&messages.Progress{Executed: []messages.Executed{executed("refund", 4)}, Final: 3}); d.Done {
		t.Error("done before the refund's block is final")
	}
	if d = c.Step(&messages.Progress{Final: 4}); !d.Done {
		t.Errorf("not done, level %v", c.Level())
	}
}

// TestReorganised: after a reorganisation only what is stored counts.
func TestReorganised(t *testing.T) {
	c := NewCore(id("tx"), view.LevelIncludedFinal, true)
	c.Step(&story[0])
	if d := c.Step(&messages.Progress{Reorganised: true, Final: 1}); d.Done || !d.Read {
		t.Errorf("%+v, want a new look", d)
	}
	if _, d, err := c.Read(book{}); err != nil || d.Done || c.Included() {
		t.Errorf("%+v, %v, want nothing known", d, err)
	}
	if d := c.Step(&messages.Progress{NewHead: true}); !d.Check {
		t.Errorf("%+v, want a check", d)
	}
}

// shell is an actor without a mailbox, and what it says.
type shell struct {
	*Actor
	watches []messages.Watch
	gone    int
	answers []messages.Awaited
	invalid *primitives.InvalidTxError
	pooled  bool
}

func newShell(wait messages.AwaitTransaction, ledger Ledger) *shell {
	s := &shell{pooled: wait.Pooled}
	wait.Reply = func(a messages.Awaited) { s.answers = append(s.answers, a) }
	s.Actor = New(Options{
		Wait: wait, Timeout: 10 * time.Second, Ledger: ledger,
		Check:       func(*primitives.SignedTransaction) *primitives.InvalidTxError { return s.invalid },
		Pooled:      func(primitives.Hash) bool { return s.pooled },
		FinalHeight: func() primitives.Height { return 0 },
		Watch:       func(w messages.Watch) { s.watches = append(s.watches, w) },
		Unwatch:     func(messages.Unwatch) { s.gone++ },
	})
	s.start(func(messages.Progress) {}, func() { s.end() })
	return s
}

func signedTx() *primitives.SignedTransaction {
	return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature)
}

// TestDropped: a transaction that its pool dropped is refused if it can't come any more, and looked at with every head else.
func TestDropped(t *testing.T) {
	tx := signedTx()
	s := newShell(messages.AwaitTransaction{Hash: tx.Hash(), Tx: tx, Pooled: true, Until: view.LevelFinal}, book{})
	s.Handle(messages.Progress{Watched: true})
	s.Handle(messages.Progress{Dropped: true})
	if n := len(s.watches); n != 2 || !s.watches[1].EveryBlock || len(s.answers) != 0 {
		t.Fatalf("watches %+v, answers %v, want a second watch of every block", s.watches, s.answers)
	}
	s.invalid = &primitives.InvalidTxError{Tag: primitives.TxExpired}
	s.Handle(messages.Progress{NewHead: true})
	s.Handle(messages.Progress{NewHead: true})
	if len(s.answers) != 1 || s.answers[0].Err != s.invalid || s.gone != 1 {
		t.Errorf("answers %v, unwatched %d times, want the refusal, once", s.answers, s.gone)
	}
}

// TestDroppedEarly: it left the pool before milestones knew who waits.
func TestDroppedEarly(t *testing.T) {
	tx := signedTx()
	s := newShell(messages.AwaitTransaction{Hash: tx.Hash(), Tx: tx, Pooled: true, Until: view.LevelFinal}, book{})
	s.pooled, s.invalid = false, &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err != s.invalid {
		t.Errorf("answers %v, want the refusal", s.answers)
	}
}

// TestIncludedAfterAll: the check refuses the nonce because a block has used it for this very transaction.
func TestIncludedAfterAll(t *testing.T) {
	tx := signedTx()
	b := book{}
	s := newShell(messages.AwaitTransaction{Hash: tx.Hash(), Tx: tx, Until: view.LevelIncluded}, b)
	s.invalid = &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}
	e := executed("x", 1)
	e.Outcome.ID = tx.Hash()
	b.put(e)
	s.Handle(messages.Progress{NewHead: true})
	if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level < view.LevelIncluded {
		t.Errorf("answers %v, want INCLUDED", s.answers)
	}
}

func TestTimeoutAndBadDisk(t *testing.T) {
	s := newShell(messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}, book{})
	s.Handle(story[0])
	s.Handle(expired{})
	var e *view.LookupError
	if len(s.answers) != 1 || !errors.As(s.answers[0].Err, &e) || e.Kind != view.ErrTimeout || e.Level != view.LevelIncluded {
		t.Errorf("answers %v, want a timeout at INCLUDED", s.answers)
	}
	s = newShell(messages.AwaitTransaction{Hash: primitives.Hash{0xbd}, Until: view.LevelFinal}, book{})
	s.Handle(messages.Progress{Watched: true})
	if len(s.answers) != 1 || s.answers[0].Err == nil {
		t.Errorf("answers %v, want the disk's error", s.answers)
	}
}

// TestRaces: facts, stored state and confirmations in any order give one answer.
func TestRaces(t *testing.T) {
	rng := primitives.NewChaCha8Rng([32]byte{3})
	for range 300 {
		b := book{}
		s := newShell(messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}, b)
		watched, told := map[primitives.Hash]bool{}, 0
		confirm := func() { // milestones takes the watches up and confirms them
			for ; told < len(s.watches); told++ {
				for _, x := range s.watches[told].IDs {
					watched[x] = true
				}
				s.Handle(messages.Progress{Watched: true})
			}
		}
		for i := range story {
			if rng.Uint32()%2 == 0 {
				confirm()
			}
			p := story[i]
			b.put(p.Executed...) // on disk before anybody is told
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
			s.Handle(p)
		}
		confirm()
		confirm()
		s.Handle(messages.Progress{Final: 3})
		if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].Level != view.LevelFinal {
			t.Fatalf("answers %v, want FINAL, once", s.answers)
		}
	}
}
