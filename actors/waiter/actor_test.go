package waiter

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestLateWaiterWatchesFinalityOfNewBlocks: while a late waiter reads, one block with its outcomes
// becomes final and another one is added. The waiter also watches the finality of the new one.
func TestLateWaiterWatchesFinalityOfNewBlocks(t *testing.T) {
	tx, receipt := primitives.Hash{1}, primitives.Hash{2}
	ran := func(id primitives.Hash, height primitives.Height, sends ...primitives.Hash) messages.Executed {
		o := &primitives.OutcomeWithID{ID: id}
		o.Outcome.ReceiptIDs = sends
		o.Outcome.Status.Kind = primitives.StatusSuccessValue
		if len(sends) > 0 {
			o.Outcome.Status.Kind, o.Outcome.Status.ReceiptID = primitives.StatusSuccessReceiptID, sends[0]
		}
		return messages.Executed{Outcome: o, Block: primitives.Hash{9, byte(height)}, Height: height}
	}
	ledger := memLedger{tx: ran(tx, 1, receipt), receipt: ran(receipt, 3)}
	var out outRecord
	a := New(Options{
		Wait: messages.AwaitTransaction{Hash: tx, Until: view.LevelFinal}, Ledger: ledger,
		Out: &out,
	})
	a.start(func() {})
	a.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 1}})
	if n := len(out.watches); n != 2 || !slices.Equal(out.watches[1].Executed, []primitives.Height{1}) ||
		!slices.Equal(out.watches[1].IDs, []primitives.Hash{receipt}) {
		t.Fatalf("after the first look: %+v", out.watches)
	}
	a.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 3, Final: 1}})
	if n := len(out.watches); n != 3 || !slices.Equal(out.watches[2].Executed, []primitives.Height{3}) {
		t.Fatalf("after the second look: %+v", out.watches)
	}
	a.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 3, Final: 1}})
	a.Handle(messages.Progress{At: messages.Position{Head: 5, Final: 3}})
	if len(out.watches) != 3 || len(out.answers) != 1 || out.answers[0].Err != nil || out.answers[0].Level != view.LevelFinal {
		t.Errorf("watches %+v, answers %+v", out.watches, out.answers)
	}
}

// TestMempoolsAnswerDecidesReply: the mempool's answer decides the reply to a submission, even if
// the transaction is known to be executed before that answer arrives. If the mempool does not
// refuse the transaction, the reply is that of the first block that satisfied the wait.
func TestMempoolsAnswerDecidesReply(t *testing.T) {
	tx := primitives.Hash{1}
	done := messages.Executed{Outcome: &primitives.OutcomeWithID{ID: tx}, Block: primitives.Hash{9}, Height: 1}
	done.Outcome.Outcome.Status.Kind = primitives.StatusSuccessValue
	for _, c := range []struct {
		name   string
		answer messages.Submitted
		want   error
	}{
		{"expired", messages.Submitted{Err: tooOld}, tooOld},
		{"its own nonce", messages.Submitted{Err: &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}}, nil},
		{"pooled", messages.Submitted{Pooled: true}, nil},
		{"pool full", messages.Submitted{}, nil},
		{"begun anew", messages.Submitted{Err: errors.New("begun anew")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out outRecord
			a := New(Options{
				Wait: messages.AwaitTransaction{Hash: tx, Tx: &primitives.SignedTransaction{}, Submit: true,
					Until: view.LevelFinal},
				Ledger: memLedger{tx: done}, Chain: fakeChain{known: func() (bool, error) { return true, nil }},
				Out: &out,
			})
			a.start(func() {})
			first := messages.Position{Head: 3, Final: 1}
			a.Handle(messages.Progress{Watched: true, At: first})
			a.Handle(messages.Progress{At: messages.Position{Head: 4, Final: 2}})
			if len(out.answers) != 0 {
				t.Fatalf("answered before the mempool was: %+v", out.answers)
			}
			a.Handle(c.answer)
			if len(out.answers) != 1 || out.answers[0].Err != c.want || c.want == nil && out.answers[0].At != first {
				t.Errorf("got %+v, want one answer with error %v", out.answers, c.want)
			}
		})
	}
}

// TestUsedNonceReplyWaitsForDisk: the mempool refuses a nonce that the in-memory head has used. The
// waiter replies only after that block is on disk: with the status if the block includes its
// transaction, else with the refusal.
func TestUsedNonceReplyWaitsForDisk(t *testing.T) {
	tx := primitives.Hash{1}
	ran := messages.Executed{Outcome: &primitives.OutcomeWithID{ID: tx}, Block: primitives.Hash{9}, Height: 4}
	ran.Outcome.Outcome.Status.Kind = primitives.StatusSuccessValue
	used := &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce}
	for name, own := range map[string]bool{"its own": true, "another's": false} {
		t.Run(name, func(t *testing.T) {
			var out outRecord
			shown := false
			a := New(Options{
				Wait: messages.AwaitTransaction{Hash: tx, Tx: &primitives.SignedTransaction{}, Submit: true,
					Until: view.LevelExecutedOptimistic},
				Ledger: memLedger{}, Chain: fakeChain{
					known:  func() (bool, error) { return shown && own, nil },
					unused: func(persisted bool) bool { return persisted && !shown },
					use:    messages.Use{Key: "k", Nonce: 1},
					check: func() (*primitives.InvalidTxError, error) {
						if shown {
							return used, nil
						}
						return nil, nil
					},
				},
				Out: &out,
			})
			a.start(func() {})
			a.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 3, Final: 1}})
			a.Handle(messages.Submitted{Err: used})
			if len(out.answers) != 0 || len(out.watches) != 2 || out.watches[1].Use.Key != "k" {
				t.Fatalf("after the mempool's answer: answers %+v, watches %+v", out.answers, out.watches)
			}
			a.Handle(messages.Progress{Watched: true, At: messages.Position{Head: 3, Final: 1}})
			if len(out.answers) != 0 || len(out.watches) != 2 {
				t.Fatalf("before the block is reported: answers %+v, watches %+v", out.answers, out.watches)
			}
			shown = true
			at := messages.Position{Head: 4, Final: 2}
			if own {
				a.Handle(messages.Progress{At: at, Executed: []messages.Executed{ran}})
			} else {
				a.Handle(messages.Progress{At: at, Doubt: true})
				a.Handle(messages.Progress{Watched: true, At: at})
			}
			if len(out.answers) != 1 || own != (out.answers[0].Err == nil) || !own && !errors.Is(out.answers[0].Err, used) {
				t.Errorf("got %+v, want one answer, with %v unless the block includes the transaction", out.answers, used)
			}
		})
	}
}

// TestQuietWatchIsConfirmedIfNeeded: a waiter that submits watches quietly. If the mempool finds the
// nonce unused, the wait needs no confirmation. Otherwise, and on a wait after a reorganisation, the
// waiter asks for one, and finds the outcomes of earlier blocks.
func TestQuietWatchIsConfirmedIfNeeded(t *testing.T) {
	tx := signedTx()
	ran := messages.Executed{Outcome: &primitives.OutcomeWithID{ID: tx.Hash()}, Block: primitives.Hash{3}, Height: 3}
	ran.Outcome.Outcome.Status.Kind = primitives.StatusSuccessValue
	seen, now := position(4, 2), position(6, 4)
	wait := func(again int) *testWaiter {
		m := submitted(tx, view.LevelFinal)
		m.Seen, m.Again = seen, again
		return newTestWaiter(m, memLedger{}.put(ran))
	}
	s := wait(0)
	if len(s.watches) != 1 || !s.watches[0].Quiet || !s.watches[0].FinalOnly || len(s.submissions) != 1 {
		t.Fatalf("watches %+v, submitted %+v", s.watches, s.submissions)
	}
	s.Handle(messages.Submitted{Pooled: true})
	if s.Handle(expired{}); len(s.watches) != 1 || len(s.answers) != 1 || s.answers[0].At != seen || s.answers[0].Level != view.LevelNone {
		t.Errorf("unused nonce: watches %+v, answers %+v", s.watches, s.answers)
	}
	for name, m := range map[string]messages.Submitted{
		"invalid, but a copy is in the pool": {Pooled: true, MaybeIncluded: true},
		"the nonce is used":                  {Err: nonceUsed},
	} {
		t.Run(name, func(t *testing.T) {
			s := wait(0)
			s.known = true
			s.Handle(m)
			if len(s.answers) != 0 || len(s.watches) != 2 || s.watches[1].Quiet {
				t.Fatalf("watches %+v, answers %+v", s.watches, s.answers)
			}
			s.Handle(messages.Progress{Watched: true, At: now})
			if len(s.answers) != 1 || s.answers[0].Err != nil || s.answers[0].At != now {
				t.Errorf("answers %+v, want FINAL as of %+v", s.answers, now)
			}
		})
	}
	s = wait(0)
	if s.Handle(messages.Submitted{Err: tooOld}); len(s.watches) != 1 || len(s.answers) != 1 {
		t.Errorf("refused: watches %+v, answers %+v", s.watches, s.answers)
	}
	s = wait(1)
	if len(s.watches) != 1 || s.watches[0].Quiet {
		t.Errorf("after a reorganisation: watches %+v", s.watches)
	}
	s = wait(0) // the tracker restarts before the mempool answers
	s.Handle(messages.WatchAgain{})
	if s.Handle(messages.Submitted{Err: nonceUsed}); len(s.watches) != 2 || s.watches[1].Quiet {
		t.Errorf("restarted: watches %+v", s.watches)
	}
}
