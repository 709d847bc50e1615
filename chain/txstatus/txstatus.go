// Package txstatus computes the execution level and the status of a transaction from the known
// outcomes and from the finality of their blocks.
//
//	in      the transaction, and a Source: outcomes by id, which receipts are refunds, which
//	        blocks are final
//	out     view.FinalOutcome: level, status, outcomes in depth-first order; Meets for wait_until
//	state   none
//	units   none
//	bound   O(outcomes of the transaction) in time and memory
//	errors  none: an unknown outcome means a lower level
//	source  nearcore chain/client/src/view_client_actor.rs:518, chain/chain/src/chain.rs:3022
package txstatus

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Source provides the known outcomes, refunds and final blocks of a chain. Its answers must not
// change during a call.
type Source interface {
	// Outcome returns the outcome of a transaction or receipt on the current chain.
	Outcome(id primitives.Hash) (view.OutcomeProof, bool)
	// IsRefund returns whether a receipt without an outcome is known to be a refund. The
	// predecessor of a refund is "system". parent is the outcome of the execution that sent the
	// receipt. IsRefund returns false if the receipt is unknown. In that case a client waits for
	// the receipt too.
	IsRefund(id primitives.Hash, parent *view.OutcomeProof) bool
	// IsFinal returns whether a block is final and on the current chain.
	IsFinal(block primitives.Hash) bool
}

// Look returns the state of a transaction that a block includes. Look does not set Receipts. If the
// outcome of the transaction itself is unknown, the level is INCLUDED and no other field is set.
func Look(tx *primitives.SignedTransaction, src Source) view.FinalOutcome {
	all := Outcomes(tx.Hash(), src)
	if len(all) == 0 {
		return view.FinalOutcome{Level: view.LevelIncluded}
	}
	return view.FinalOutcome{
		Level: Level(all, src), Status: Status(all), Transaction: tx, Outcome: all[0], Outcomes: all[1:],
	}
}

// Receipts returns the ids of the receipts that a reply contains: the ids of the receipts of the
// outcomes, in the order of the outcomes. If the signer is the receiver, the transaction's first
// receipt is omitted, as in neard.
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

// Executed is the part of an outcome that Reached needs. An Executed shares no memory with the
// outcome, so an Executed is small. Thousands of clients may wait for the same outcomes, and the
// node evaluates the outcomes for each client at each block.
type Executed struct {
	Known  bool // the outcome is known
	Status primitives.StatusKind
	Sends  []primitives.Hash // ids of the receipts that the execution sent
	Final  bool              // the block of the outcome is final
	Refund primitives.Hash   // the receipt in Sends that the Source knows to be a refund; zero: none
}

// Reached returns the level that Level(Outcomes(tx, src), src) returns. executed returns the
// contents of src.
func Reached(tx primitives.Hash, executed func(primitives.Hash) Executed) view.ExecutionLevel {
	first := executed(tx)
	if !first.Known || first.Status == primitives.StatusUnknown {
		return view.LevelNone
	}
	missing, missingRefunds, final := false, false, true
	var few [8]primitives.Hash
	stack := few[:0]
	look := func(e *Executed, sends bool) { // sends: e is the outcome of the transaction
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

// Outcomes returns the outcome of the transaction and the outcomes of its receipts, each before the
// outcomes of the receipts that it sent. The list is empty if the transaction's outcome is unknown.
func Outcomes(tx primitives.Hash, src Source) []view.OutcomeProof {
	out := make([]view.OutcomeProof, 0, 3) // enough for a transfer; the elements are large
	stack := []primitives.Hash{tx}         // ids still to visit, the next one last
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

// Status returns the final status: Status follows SuccessReceiptId from the transaction to the
// first value or failure. The list must be ordered as Outcomes orders it.
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

// Level returns the highest level that the outcomes prove. The list must be ordered as Outcomes
// orders it. If the last receipt that a receipt's execution sent is a refund, only FINAL requires
// its outcome.
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

// Meets returns whether level satisfies a wait for wanted. Levels are only partially ordered:
// INCLUDED_FINAL does not satisfy a wait for EXECUTED_OPTIMISTIC, and vice versa.
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
