package verify

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Receipt checks r. Receipt checks the size only of a new receipt: output data receivers are
// appended after this check, and may bring an existing receipt above the limit. Only new receipts
// that contracts create can fail. If an incoming or delayed receipt fails, the chain is broken.
func Receipt(c *parameters.RuntimeConfig, r *primitives.Receipt, mode Mode) *primitives.ReceiptValidationError {
	limits := &c.Wasm.Limits
	if mode == NewReceipt {
		if size := uint64(len(r.AppendBorsh(nil))); size > limits.MaxReceiptSize {
			return &primitives.ReceiptValidationError{Tag: primitives.ReceiptSizeExceeded, Size: size, Limit: limits.MaxReceiptSize}
		}
	}
	// Decoding has not checked account ids that a contract wrote.
	if _, err := primitives.ParseAccountID(string(r.PredecessorID)); err != nil {
		return &primitives.ReceiptValidationError{Tag: primitives.ReceiptInvalidPredecessorID, AccountID: string(r.PredecessorID)}
	}
	if _, err := primitives.ParseAccountID(string(r.ReceiverID)); err != nil {
		return &primitives.ReceiptValidationError{Tag: primitives.ReceiptInvalidReceiverID, AccountID: string(r.ReceiverID)}
	}
	switch body := r.Body.(type) {
	case *primitives.ActionReceipt:
		if r.PredecessorID == primitives.SystemAccount {
			mode = ExistingReceipt // a refund: a single transfer, which creates no account
		}
		return actionReceipt(c, body, r.ReceiverID, mode)
	case *primitives.DataReceipt:
		if n := uint64(len(body.Data)); n > limits.MaxLengthReturnedData {
			return &primitives.ReceiptValidationError{
				Tag: primitives.ReceiptReturnedValueLengthExceeded, Length: n, Limit: limits.MaxLengthReturnedData,
			}
		}
		return nil
	case *primitives.GlobalContractDistribution:
		return nil // the runtime created this receipt, from a contract that was checked
	}
	panic(fmt.Sprintf("verify: no case for %T", r.Body))
}

func actionReceipt(c *parameters.RuntimeConfig, a *primitives.ActionReceipt, receiver primitives.AccountID,
	mode Mode) *primitives.ReceiptValidationError {
	limit := c.Wasm.Limits.MaxNumberInputDataDependencies
	if n := uint64(len(a.InputDataIDs)); n > limit {
		return &primitives.ReceiptValidationError{Tag: primitives.ReceiptInputDataDependenciesExceeded, Count: n, Limit: limit}
	}
	if a.RefundTo != "" {
		if _, err := primitives.ParseAccountID(string(a.RefundTo)); err != nil {
			return &primitives.ReceiptValidationError{Tag: primitives.ReceiptInvalidRefundTo, AccountID: string(a.RefundTo)}
		}
	}
	if err := Actions(c, a.Actions, receiver, mode); err != nil {
		return &primitives.ReceiptValidationError{Tag: primitives.ReceiptActionsValidation, Actions: err}
	}
	return nil
}
