package txtracker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	waiting "github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestQuietWatchGetsNoConfirmation: a Quiet watch is not confirmed, but other waiters of the
// transaction get a Watched for new ids. Begun is called for each watch.
func TestQuietWatchGetsNoConfirmation(t *testing.T) {
	w, begun := newWorld(), 0
	watch := func(waiter messages.WaiterID, quiet bool, ids ...primitives.Hash) {
		w.Handle(messages.Watch{Waiter: at(waiter), Hash: id("tx"), IDs: ids, Quiet: quiet, Begun: func() { begun++ }})
	}
	watch(1, true, id("tx"))
	watch(2, false, id("tx"))
	watch(3, true, id("tx"), id("found"))
	watch(1, false)
	if begun != 4 {
		t.Errorf("Begun was called %d times, want 4", begun)
	}
	for i, want := range []int{2, 2, 0} {
		if got := len(w.news[messages.WaiterID(i+1)]); got != want {
			t.Errorf("waiter %d got %d messages, want %d", i+1, got, want)
		}
	}
	w.Handle(block(1, 0, nil, outcome("tx")))
	if got := w.news[3]; len(got) != 1 || len(got[0].Executed) != 1 {
		t.Errorf("a waiter with a quiet watch got %+v", got)
	}
}

// randomTx is a random transaction: the outcomes of its receipts, by block.
type randomTx struct {
	outcomes map[primitives.Height][]primitives.OutcomeWithID
	outgoing map[primitives.Height][]*primitives.Receipt
	last     primitives.Height
}

func newRandomTx(rng *rand.Rand) *randomTx {
	x := &randomTx{outcomes: map[primitives.Height][]primitives.OutcomeWithID{}, outgoing: map[primitives.Height][]*primitives.Receipt{}}
	n := 0
	var run func(name string, h primitives.Height, depth int)
	run = func(name string, h primitives.Height, depth int) {
		var sends []string
		for range rng.IntN(3) * (4 - depth) / 3 {
			n++
			sends = append(sends, fmt.Sprint("r", n))
		}
		o := outcome(name, sends...)
		o.Outcome.Status.Kind = primitives.StatusSuccessValue
		x.outcomes[h] = append(x.outcomes[h], o)
		x.last = max(x.last, h)
		for i, s := range sends {
			if i == len(sends)-1 && rng.IntN(2) == 0 {
				x.outgoing[h] = append(x.outgoing[h], &primitives.Receipt{ID: id(s), PredecessorID: primitives.SystemAccount})
			}
			if depth < 3 {
				run(s, h+1+primitives.Height(rng.IntN(4)), depth+1)
			}
		}
	}
	run("tx", 1+primitives.Height(rng.IntN(3)), 0)
	return x
}

// TestHeldOutcomesChangeNoAnswer: a waiter for FINAL ends at the same block whether its outcomes are
// held or not, for random receipts and finality, with and without a reorganisation. The inclusion is
// reported at once, and a transfer's outcomes in one more report.
func TestHeldOutcomesChangeNoAnswer(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	fewer, ended := 0, 0
	for range 2000 {
		x := newRandomTx(rng)
		type side struct {
			*world
			machine *waiting.Machine
			ended   messages.Position
			seen    int
		}
		sides := []*side{{}, {}}
		for i, s := range sides {
			s.world, s.machine = newWorld(), waiting.NewMachine(id("tx"), view.LevelFinal)
			s.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), IDs: []primitives.Hash{id("tx")}, Quiet: true, FinalOnly: i == 1})
		}
		final, reorganised := primitives.Height(0), rng.IntN(3) == 0
		for h := primitives.Height(1); h < x.last+6; h++ {
			if rng.IntN(4) > 0 && h > 2 {
				final = h - 2
			}
			b := block(h, final, x.outgoing[h], x.outcomes[h]...)
			if reorganised && h == x.last/2+1 {
				b.Reorganised = true
			}
			for _, s := range sides {
				s.Handle(b)
				for ; s.seen < len(s.news[1]); s.seen++ {
					m := s.news[1][s.seen]
					d := s.machine.Step(&m)
					if d.Read { // the canonical chain has the same outcomes
						ledger := stored{x, m.At.Head}
						_, after, err := s.machine.Read(ledger)
						if err != nil {
							t.Fatal(err)
						}
						d.Done, d.Level = after.Done, after.Level
						s.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), Executed: s.machine.Executed(), Quiet: true, FinalOnly: s == sides[1]})
					}
					if d.Done && s.ended == (messages.Position{}) {
						s.ended = m.At
					}
				}
			}
			if included := sides[0].machine.Included(); included != sides[1].machine.Included() {
				t.Fatalf("block %d: included %v, with held outcomes %v", h, included, !included)
			}
		}
		if sides[0].ended != sides[1].ended {
			t.Fatalf("FINAL at %+v, with held outcomes at %+v; %+v", sides[0].ended, sides[1].ended, x)
		}
		if sides[0].ended != (messages.Position{}) {
			ended++
		}
		if a, b := len(sides[0].news[1]), len(sides[1].news[1]); b > a {
			t.Fatalf("%d reports, with held outcomes %d", a, b)
		} else if b < a {
			fewer++
		}
	}
	if fewer < 500 || ended < 500 {
		t.Errorf("of 2000 transactions %d had fewer reports and %d became FINAL", fewer, ended)
	}
}

// stored is a Ledger of package waiter with the outcomes of a transaction.
type stored struct {
	x    *randomTx
	head primitives.Height
}

func (s stored) Outcome(of primitives.Hash, upto primitives.Height) (messages.Executed, bool, error) {
	for h, list := range s.x.outcomes {
		for i := range list {
			if list[i].ID != of || h > upto {
				continue
			}
			e := messages.Executed{Outcome: &list[i], Block: primitives.Hash{byte(h)}, Height: h}
			if refunds := systemReceipts(&messages.BlockAccepted{Shards: []messages.ShardAccepted{{Outgoing: s.x.outgoing[h]}}}); len(list[i].Outcome.ReceiptIDs) > 0 {
				if last := list[i].Outcome.ReceiptIDs[len(list[i].Outcome.ReceiptIDs)-1]; refunds[last] {
					e.Refund = last
				}
			}
			return e, true, nil
		}
	}
	return messages.Executed{}, false, nil
}

// TestOutcomesAreHeldOnlyIfAllWaitForFinal: outcomes are reported at once if a waiter of the
// transaction waits for another level, if a waiter has a doubt, and if more than maxHeld are held.
func TestOutcomesAreHeldOnlyIfAllWaitForFinal(t *testing.T) {
	begin := func(others ...messages.WaiterID) *world {
		w := newWorld()
		w.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), IDs: []primitives.Hash{id("tx")}, Quiet: true, FinalOnly: true})
		for _, o := range others {
			w.Handle(messages.Watch{Waiter: at(o), Hash: id("tx"), Quiet: true})
		}
		var sends []string
		for i := range maxHeld + 2 {
			sends = append(sends, fmt.Sprint("r", i))
		}
		w.Handle(block(1, 0, nil, outcome("tx", sends...)))
		w.Handle(block(2, 0, nil, outcome("r0")))
		return w
	}
	w := begin()
	if got := w.news[1]; len(got) != 1 || got[0].At.Head != 1 {
		t.Fatalf("%+v, want the inclusion", got)
	}
	w.Handle(block(3, 2, nil, outcome("r1")))
	if len(w.news[1]) != 1 {
		t.Error("outcomes are reported although a block is not final")
	}
	w.Handle(block(4, 3, nil))
	if got := w.news[1]; len(got) != 2 || len(got[1].Executed) != 2 || got[1].At != (messages.Position{Head: 4, Final: 3}) {
		t.Errorf("all known outcomes are final: %+v", got)
	}
	for h, i := primitives.Height(5), 2; i < maxHeld+2; h, i = h+1, i+1 {
		w.Handle(block(h, 3, nil, outcome(fmt.Sprint("r", i))))
	}
	if len(w.news[1]) != 2 {
		t.Errorf("%d reports while at most %d outcomes are held, want 2", len(w.news[1]), maxHeld)
	}
	w = begin()
	for h, i := primitives.Height(3), 1; i < maxHeld+1; h, i = h+1, i+1 {
		w.Handle(block(h, 0, nil, outcome(fmt.Sprint("r", i))))
	}
	if got := w.news[1]; len(got) != 2 || len(got[1].Executed) != maxHeld+1 {
		t.Errorf("%d reports with %d outcomes, want 2 with %d", len(got), len(got[len(got)-1].Executed), maxHeld+1)
	}
	w = begin(2)
	if len(w.news[1]) != 2 || len(w.news[2]) != 2 {
		t.Errorf("%d and %d reports, want 2 each", len(w.news[1]), len(w.news[2]))
	}
	w.Handle(messages.Unwatch{Waiter: at(2)})
	w.Handle(block(3, 0, nil, outcome("r1")))
	if len(w.news[1]) != 2 {
		t.Error("outcomes are reported at once after the other waiter has left")
	}
	w.Handle(messages.Watch{Waiter: at(2), Hash: id("tx"), Quiet: true})
	w.Handle(block(4, 0, nil, outcome("r2")))
	if got := w.news[1]; len(got) != 3 || len(got[2].Executed) != 2 {
		t.Errorf("after the other waiter has come back: %+v", got)
	}
	w = begin()
	w.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), Use: messages.Use{Key: key("a"), Nonce: 1, Expires: 3}, Quiet: true,
		FinalOnly: true})
	w.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), Executed: []primitives.Height{9}, Quiet: true, FinalOnly: true})
	w.Handle(block(3, 1, nil)) // makes a block final, and the base block too old
	if got := w.news[1]; len(got) != 2 || len(got[1].Executed) != 1 || !got[1].Doubt {
		t.Errorf("a doubt with held outcomes: %+v", got)
	}
}
