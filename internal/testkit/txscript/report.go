package txscript

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
)

// Tree returns the outcome of a transaction and of all its receipts as an indented text.
func (w *World) Tree(hash primitives.Hash) string {
	var b strings.Builder
	tx := w.txs[hash]
	fmt.Fprintf(&b, "tx %v %s > %s%s", hash, tx.SignerID, tx.ReceiverID, actions(tx.Actions))
	w.outcome(&b, hash, 0)
	return b.String()
}

// outcome writes the outcome of a transaction or receipt, and the receipts that it created.
func (w *World) outcome(b *strings.Builder, id primitives.Hash, depth int) {
	o := w.outcomes[id]
	if o == nil {
		b.WriteString(": waits\n")
		return
	}
	in := strings.Repeat("  ", depth)
	fmt.Fprintf(b, "\n%s    height %d, gas %d, tokens %v: %s\n", in, o.at, o.GasBurnt, o.TokensBurnt, status(&o.Status))
	for i := 0; i < len(o.Logs); {
		same := i + 1
		for same < len(o.Logs) && o.Logs[same] == o.Logs[i] {
			same++
		}
		fmt.Fprintf(b, "%s    | %s", in, o.Logs[i])
		if same > i+1 {
			fmt.Fprintf(b, " (%d times)", same-i)
		}
		b.WriteByte('\n')
		i = same
	}
	for _, r := range o.ReceiptIDs {
		w.receipt(b, r, depth+1)
	}
}

func (w *World) receipt(b *strings.Builder, id primitives.Hash, depth int) {
	in := strings.Repeat("  ", depth)
	r := w.receipts[id]
	if r == nil { // a promise yield that was not resumed
		fmt.Fprintf(b, "%s%v: waits\n", in, id)
		return
	}
	if data, ok := r.Body.(*primitives.DataReceipt); ok {
		what := "data"
		if data.Resume {
			what = "resume"
		}
		fmt.Fprintf(b, "%s%v %s > %s %s %s\n", in, id, r.PredecessorID, r.ReceiverID, what, value(data.Data))
		return
	}
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		fmt.Fprintf(b, "%s%v %s > %s %T\n", in, id, r.PredecessorID, r.ReceiverID, r.Body)
		return
	}
	what := actions(a.Actions)
	if r.PredecessorID == primitives.SystemAccount {
		what = " refund" + what
	}
	if a.Yield {
		what = " yield" + what
	}
	if a.RefundTo != "" && a.RefundTo != r.PredecessorID {
		what += " refund-to=" + string(a.RefundTo)
	}
	fmt.Fprintf(b, "%s%v %s > %s%s", in, id, r.PredecessorID, r.ReceiverID, what)
	w.outcome(b, id, depth)
}

// actions returns a text that lists actions with their parameters.
func actions(list []primitives.Action) string {
	var b strings.Builder
	for _, a := range list {
		switch a := a.(type) {
		case *primitives.FunctionCall:
			fmt.Fprintf(&b, " %s(%d gas", a.Method, a.Gas)
			if !a.Deposit.IsZero() {
				fmt.Fprintf(&b, ", %v", a.Deposit)
			}
			b.WriteByte(')')
		case *primitives.Transfer:
			fmt.Fprintf(&b, " transfer(%v)", a.Deposit)
		case *primitives.DeployContract:
			fmt.Fprintf(&b, " deploy(%d bytes)", len(a.Code))
		default:
			b.WriteString(" " + strings.TrimPrefix(fmt.Sprintf("%T", a), "*primitives."))
		}
	}
	return b.String()
}

func status(s *primitives.ExecutionStatus) string {
	switch s.Kind {
	case primitives.StatusSuccessReceiptID:
		return "ok, see " + s.ReceiptID.String()
	case primitives.StatusSuccessValue:
		return "ok " + value(s.Value)
	case primitives.StatusFailure:
		return "failed " + string(s.Failure)
	}
	return "unknown"
}

// value returns printable text as it is, and other bytes in base64.
func value(b []byte) string {
	control := func(r rune) bool { return r < ' ' || r == utf8.RuneError }
	switch {
	case b == nil:
		return "nothing"
	case len(b) > 200:
		return fmt.Sprintf("%d bytes", len(b))
	case utf8.Valid(b) && !slices.ContainsFunc([]rune(string(b)), control):
		return fmt.Sprintf("%q", b)
	}
	return base64.StdEncoding.EncodeToString(b)
}
