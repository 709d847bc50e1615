package view

import "github.com/troupe-chain/troupe/primitives"

// The functions below estimate the length of replies before the replies are written. The functions
// count the parts that users can make long. For all other parts they use these constants, in bytes
// of JSON.
const (
	jsonAction  = 300
	jsonReceipt = 700
	jsonOutcome = 1000
	jsonKey     = 170
)

// Size estimates the length of what AppendFinalOutcome appends.
func (o *FinalOutcome) Size(receipts bool) int {
	n := inBase64(len(o.Status.Value)) + len(o.Status.Failure) + OutcomeSize(&o.Outcome)
	switch {
	case o.Remote != nil:
		n += len(o.Remote.JSON)
	case o.Transaction != nil:
		n += transactionSize(o.Transaction)
	default:
		return jsonOutcome
	}
	for i := range o.Outcomes {
		n += OutcomeSize(&o.Outcomes[i])
	}
	if receipts {
		n += receiptsSize(o.Receipts)
	}
	return n
}

// ChunkSize estimates the length of what AppendChunk appends.
func ChunkSize(c *primitives.Chunk) int {
	n := jsonOutcome + receiptsSize(c.PrevOutgoingReceipts)
	for _, t := range c.Transactions {
		n += transactionSize(t)
	}
	return n
}

// ReceiptSize estimates the length of what AppendReceipt appends.
func ReceiptSize(r *primitives.Receipt) int {
	switch body := r.Body.(type) {
	case *primitives.ActionReceipt:
		return jsonReceipt + actionsSize(body.Actions) + jsonKey*(len(body.OutputDataReceivers)+len(body.InputDataIDs))
	case *primitives.DataReceipt:
		return jsonReceipt + inBase64(len(body.Data))
	case *primitives.GlobalContractDistribution:
		return jsonReceipt + inBase64(len(body.Code))
	default:
		return jsonReceipt
	}
}

// CallSize estimates the length of what AppendQueryCall appends, where each byte is a number.
func CallSize(c *CallResult) int {
	n := jsonOutcome + 4*len(c.Result)
	for _, l := range c.Logs {
		n += len(l) + 4
	}
	return n
}

// KeysSize estimates the length of what AppendQueryAccessKeyList appends.
func KeysSize(keys []KeyInfo) int { return jsonOutcome + jsonKey*len(keys) }

func receiptsSize(list []*primitives.Receipt) (n int) {
	for _, r := range list {
		n += ReceiptSize(r)
	}
	return n
}

func transactionSize(t *primitives.SignedTransaction) int {
	return jsonReceipt + actionsSize(t.Actions)
}

// OutcomeSize estimates the length of what AppendOutcomeProof appends.
func OutcomeSize(o *OutcomeProof) int {
	n := jsonOutcome + jsonKey*len(o.Outcome.ReceiptIDs) + inBase64(len(o.Outcome.Status.Value)) + len(o.Outcome.Status.Failure)
	for _, l := range o.Outcome.Logs {
		n += len(l) + 4
	}
	return n
}

func actionsSize(list []primitives.Action) (n int) {
	for _, a := range list {
		n += jsonAction
		switch a := a.(type) {
		case *primitives.FunctionCall:
			n += len(a.Method) + inBase64(len(a.Args))
		case *primitives.Delegate:
			n += innerSize(a.Action.Actions)
		case *primitives.DelegateV2:
			n += innerSize(a.Action.Actions)
		case *primitives.DeterministicStateInit:
			for _, e := range a.Init.Data {
				n += inBase64(len(e.Key)) + inBase64(len(e.Value)) + 8
			}
		case *primitives.UniversalStateInit:
			n += inBase64(len(a.Init))
		default: // other actions have a bounded length, because code is shown as its hash
		}
	}
	return n
}

// innerSize estimates the actions of a delegate, in which code is shown in full.
func innerSize(list []primitives.Action) int {
	n := actionsSize(list)
	for _, a := range list {
		if code, ok := primitives.DeployedCode(a); ok {
			n += inBase64(len(code))
		}
	}
	return n
}

func inBase64(n int) int { return (n + 2) / 3 * 4 }
