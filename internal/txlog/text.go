package txlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Bounds of the text of one transaction.
const (
	maxLine  = 500 // maximum bytes of a contract's log line
	maxLines = 50  // maximum number of lines below the first
)

// show appends a transaction unless the options exclude it. The shown gas includes all receipts
// except refunds.
func (t *tracker) show(tx *transaction, out *bytes.Buffer) {
	failure, failed, pending := tx.result()
	if t.o.FailedOnly &&
		!slices.ContainsFunc(tx.executed, func(e executed) bool { return e.outcome.Status.Kind == primitives.StatusFailure }) {
		return
	}
	if len(t.accounts) > 0 && !tx.concerns(t.accounts) {
		return
	}
	status := "ok"
	switch {
	case failed:
		status = "failed: " + failure
	case pending:
		status = "pending, " + count(tx.waits, "receipt") + " to run"
	}
	var gas primitives.Gas
	for _, e := range tx.executed {
		gas += e.outcome.GasBurnt
	}
	fmt.Fprintf(out, "#%d %s -> %s  %s  %s  %s  %v\n", tx.height, tx.signer, tx.receiver, tx.actions.String(), status,
		txtext.Gas(gas), tx.hash)
	more := 0
	for lines, i := 0, 1; i < len(tx.executed); i++ {
		e := &tx.executed[i]
		o := &e.outcome
		for _, text := range o.Logs {
			if lines++; lines > maxLines {
				more++
				continue
			}
			fmt.Fprintf(out, "    %s: %s\n", o.ExecutorID, txtext.Line(text, maxLine))
		}
		if o.Status.Kind != primitives.StatusFailure {
			continue
		}
		text := txtext.Failure(o.Status.Failure)
		if failed && text == failure && o.ExecutorID == tx.receiver && len(tx.executed) == 2 {
			continue // the first line contains this failure
		}
		if lines++; lines > maxLines {
			more++
			continue
		}
		what := e.what.String()
		if what != "" {
			what = "  " + what
		}
		fmt.Fprintf(out, "    receipt %s%s  failed: %s\n", o.ExecutorID, what, text)
	}
	if more > 0 {
		fmt.Fprintf(out, "    %s not shown\n", count(more, "more line"))
	}
}

// result returns how a transaction ended. result follows the outcomes from the transaction to the
// receipt that decides. pending is set if that receipt has not run yet.
func (tx *transaction) result() (failure string, failed, pending bool) {
	id := tx.hash
	for i := range tx.executed { // each receipt comes after the receipt that created it
		e := &tx.executed[i]
		if e.outcome.ID != id {
			continue
		}
		switch s := &e.outcome.Status; s.Kind {
		case primitives.StatusFailure:
			return txtext.Failure(s.Failure), true, false
		case primitives.StatusSuccessReceiptID:
			id = s.ReceiptID
		default:
			return "", false, tx.waits > 0
		}
	}
	return "", false, true
}

// concerns returns whether one of the accounts signed or receives the transaction, or executed one
// of its receipts.
func (tx *transaction) concerns(accounts map[primitives.AccountID]bool) bool {
	return accounts[tx.signer] || accounts[tx.receiver] ||
		slices.ContainsFunc(tx.executed, func(e executed) bool { return accounts[e.outcome.ExecutorID] })
}

// actions returns the names of actions. For common actions, it does not make JSON views, which take
// five times as long.
func actions(list []primitives.Action) string {
	return txtext.List(len(list), func(i int) string {
		switch a := list[i].(type) {
		case *primitives.FunctionCall:
			return txtext.Call(a.Method, a.Args, a.Deposit)
		case *primitives.Transfer:
			return txtext.Transfer(a.Deposit)
		case *primitives.DeployContract: // skip the JSON view, because it contains the hash of the code
			return fmt.Sprintf("DeployContract of %d bytes", len(a.Code))
		case *primitives.DeployGlobalContract:
			return fmt.Sprintf("DeployGlobalContract of %d bytes", len(a.Code))
		default:
			return txtext.Actions([]json.RawMessage{view.AppendAction(nil, a)})
		}
	})
}
