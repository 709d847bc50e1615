package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var receiptToTx = Method[view.OriginQuery]{
	Name:   "EXPERIMENTAL_receipt_to_tx",
	Doc:    "Returns the transaction that a receipt originates from, through any number of receipts in between.",
	Faults: []*Fault{UnknownReceipt, DepthExceeded, OriginUnsupported, OutcomesNotStored, WindowTooLarge, MalformedHint, BudgetExceeded},
	Heavy:  true,
	Parse: func(v val) (q view.OriginQuery, err error) {
		if err = needObject(v, "RpcReceiptToTxRequest"); err != nil {
			return q, err
		}
		if err = readFields(v, []field{
			{"block_height", true, func(v val) error {
				n, err := readUint64(v)
				q.Height = (*primitives.Height)(&n)
				return err
			}},
			{"shard_id", true, func(v val) error {
				n, err := readUint64(v)
				q.Shard = (*primitives.ShardID)(&n)
				return err
			}},
			{"window", true, func(v val) error {
				n, err := readUint64(v)
				q.Window = &n
				return err
			}},
		}); err != nil {
			return q, err
		}
		// nearcore flattens the reference to the receipt, and serde reads flattened members last.
		// So parsing reads receipt_id after all other members.
		return q, readFields(v, []field{{"receipt_id", false, into(&q.Receipt, readHash)}})
	},
	Handle: func(c *call, b []byte, q *view.OriginQuery) ([]byte, error) {
		ctx, leave := c.inTurn(nil)
		defer leave()
		o, err := c.node.ReceiptToTx(ctx, q)
		if err != nil {
			return b, originFault(err)
		}
		return view.AppendOrigin(b, o), nil
	},
}

// originFault maps an error to the faults of receipt_to_tx. The data of these faults repeats the
// cause.
func originFault(err error) error {
	var e *view.OriginError
	if !errors.As(err, &e) {
		return internalAsCause(err)
	}
	number := func(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }
	text := func() []byte { return member(nil, "error_message", quoted(e.Text)) }
	switch e.Kind {
	case view.OriginUnknown:
		return UnknownReceipt.asCause(member(nil, "receipt_id", view.AppendHash(nil, &e.Receipt)))
	case view.OriginDepth:
		return DepthExceeded.asCause(member(member(nil, "limit", number(e.Limit)), "receipt_id", view.AppendHash(nil, &e.Receipt)))
	case view.OriginUnsupported:
		return OriginUnsupported.asCause(text())
	case view.OriginNoOutcomes:
		return OutcomesNotStored.asCause(nil)
	case view.OriginWindow:
		return WindowTooLarge.asCause(member(member(nil, "maximum", number(e.Limit)), "requested", number(e.Got)))
	case view.OriginHint:
		return MalformedHint.asCause(text())
	case view.OriginBudget:
		return BudgetExceeded.asCause(member(member(nil, "limit", number(e.Limit)), "scanned", number(e.Got)))
	}
	return internalAsCause(err)
}
