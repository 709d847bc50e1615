// Package txstatus says how far a transaction has come, from the outcomes known so far and from which blocks are final.
//
//	in      the transaction, and a Source: outcomes by id, which receipts are refunds, which blocks are final
//	out     view.FinalOutcome: level, status, outcomes in depth-first order; Meets for wait_until
//	state   none
//	units   none
//	bound   O(outcomes of the transaction) in time and memory
//	errors  none: what is not known yet is a lower level
//	source  nearcore chain/client/src/view_client_actor.rs:518, chain/chain/src/chain.rs:3022
package txstatus

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Source is what is known of the chain. It must not change while a transaction is looked at.
type Source interface {
	// Outcome returns the outcome of a transaction or receipt on the current chain.
	Outcome(id primitives.Hash) (view.OutcomeProof, bool)
	// IsRefund tells whether a receipt that has no outcome yet is known to come from the system; parent is the outcome
	// of the receipt that sent it. If that can't be told, false: one then waits for it.
	IsRefund(id primitives.Hash, parent *view.OutcomeProof) bool
	// IsFinal tells whether a block is final and on the current chain.
	IsFinal(block primitives.Hash) bool
}

// Look returns all that is known of a transaction that is in a block. Its Receipts are left to the caller. Without an
// outcome of the transaction itself it is INCLUDED and nothing more (rpc.md 5.2).
func Look(tx *primitives.SignedTransaction, src Source) view.FinalOutcome {
	all := Outcomes(tx.Hash(), src)
	if len(all) == 0 {
		return view.FinalOutcome{Level: view.LevelIncluded}
	}
	return view.FinalOutcome{
		Level: Level(all, src), Status: Status(all), Transaction: tx, Outcome: all[0], Outcomes: all[1:],
	}
}

// Receipts returns the ids of the receipts that a reply shows: those of the outcomes, in their order. The first receipt of a transaction
// of an account with itself is left out, as neard does.
func Receipts(o *view.FinalOutcome) []primitives.Hash {
	var out []primitives.Hash
	for i := range o.Outcomes {
		id := o.Outcomes[i].ID
		if o.Transaction.SignerID != o.Transaction.ReceiverID || slices.Index(o.Outcome.ReceiptIDs, id) != 0 {
			out = append(out, id)
		}
	}
	return out
}

// Executed is what Reached asks of an outcome: of many who wait for blocks each asks at each of them, and needs none of its bytes.
type Executed struct {
	Known  bool // it is
	Status primitives.StatusKind
	Sends  []primitives.Hash // its receipts
	Final  bool              // its block is
	Refund primitives.Hash   // the receipt of it that is known to come from the system; zero: none is
}

// Reached is Level(Outcomes(tx, src), src) of a source that tells of each outcome by executed.
func Reached(tx primitives.Hash, executed func(primitives.Hash) Executed) view.ExecutionLevel {
	first := executed(tx)
	if !first.Known || first.Status == primitives.StatusUnknown {
		return view.LevelNone
	}
	missing, missingRefunds, final := false, false, true
	var few [8]primitives.Hash
	stack := few[:0]
	look := func(e *Executed, sends bool) { // whether the transaction itself sends it
		ids := e.Sends
		for j := range ids {
			x := executed(ids[j])
			if x.Known {
				stack = append(stack, ids[j])
			}
			switch {
			case x.Known && x.Status != primitives.StatusUnknown:
			case !sends && j == len(ids)-1 && ids[j] == e.Refund:
				missingRefunds = true
			default:
				missing = true
			}
		}
	}
	look(&first, true)
	for len(stack) > 0 {
		e := executed(stack[len(stack)-1])
		stack = stack[:len(stack)-1]
		final = final && e.Final
		look(&e, false)
	}
	switch {
	case !first.Final && missing:
		return view.LevelIncluded
	case !first.Final:
		return view.LevelExecutedOptimistic
	case missing:
		return view.LevelIncludedFinal
	case missingRefunds, !final:
		return view.LevelExecuted
	}
	return view.LevelFinal
}

// Outcomes returns the outcome of the transaction and those of its receipts, each before those of the receipts it sent;
// empty if the first is unknown.
func Outcomes(tx primitives.Hash, src Source) []view.OutcomeProof {
	out := make([]view.OutcomeProof, 0, 3) // those of a transfer; they are large
	stack := []primitives.Hash{tx}         // what is still to be visited, the next one last
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		o, ok := src.Outcome(id)
		if !ok {
			continue
		}
		out = append(out, o)
		for i := len(o.ReceiptIDs) - 1; i >= 0; i-- {
			stack = append(stack, o.ReceiptIDs[i])
		}
	}
	return out
}

// Status follows the success receipt ids from the transaction down to the first value or failure. all are the outcomes
// in the order of Outcomes.
func Status(all []view.OutcomeProof) view.FinalStatus {
	if len(all) == 0 {
		return view.FinalStatus{Kind: view.FinalNotStarted}
	}
	want := all[0].ID
	for i := range all {
		if all[i].ID != want {
			continue
		}
		switch s := &all[i].Status; s.Kind {
		case primitives.StatusSuccessReceiptID:
			want = s.ReceiptID
		case primitives.StatusFailure:
			return view.FinalStatus{Kind: view.FinalFailure, Failure: s.Failure}
		case primitives.StatusSuccessValue:
			return view.FinalStatus{Kind: view.FinalSuccessValue, Value: s.Value}
		default:
			if len(all) == 1 {
				return view.FinalStatus{Kind: view.FinalNotStarted}
			}
			return view.FinalStatus{Kind: view.FinalStarted}
		}
	}
	return view.FinalStatus{Kind: view.FinalStarted}
}

// Level returns the highest milestone that is proven. all are the outcomes in the order of Outcomes, the transaction's
// first. A refund that is the last receipt of a receipt's outcome is not waited for below FINAL.
func Level(all []view.OutcomeProof, src Source) view.ExecutionLevel {
	if len(all) == 0 || all[0].Status.Kind == primitives.StatusUnknown {
		return view.LevelNone
	}
	executed := make(map[primitives.Hash]struct{}, len(all))
	for i := 1; i < len(all); i++ {
		if all[i].Status.Kind != primitives.StatusUnknown {
			executed[all[i].ID] = struct{}{}
		}
	}
	missing, missingRefunds := false, false
	for i := range all {
		ids := all[i].ReceiptIDs
		for j := range ids {
			if _, ok := executed[ids[j]]; ok {
				continue
			}
			if i > 0 && j == len(ids)-1 && src.IsRefund(ids[j], &all[i]) {
				missingRefunds = true
			} else {
				missing = true
			}
		}
	}
	switch {
	case !src.IsFinal(all[0].BlockHash) && missing:
		return view.LevelIncluded
	case !src.IsFinal(all[0].BlockHash):
		return view.LevelExecutedOptimistic
	case missing:
		return view.LevelIncludedFinal
	case missingRefunds:
		return view.LevelExecuted
	}
	for i := 1; i < len(all); i++ {
		if !src.IsFinal(all[i].BlockHash) {
			return view.LevelExecuted
		}
	}
	return view.LevelFinal
}

// Meets tells whether a wait for the wanted milestone is over at level. The milestones are no plain ladder: a block
// that is final does not satisfy a wait for execution, nor the other way round.
func Meets(level, wanted view.ExecutionLevel) bool {
	switch wanted {
	case view.LevelNone:
		return true
	case view.LevelIncluded:
		return level != view.LevelNone
	case view.LevelExecutedOptimistic:
		return level == view.LevelExecutedOptimistic || level >= view.LevelExecuted
	case view.LevelIncludedFinal:
		return level >= view.LevelIncludedFinal
	case view.LevelExecuted:
		return level >= view.LevelExecuted
	}
	return level == view.LevelFinal
}
