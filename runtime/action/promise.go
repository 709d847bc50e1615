package action

import (
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Promise is a receipt that a call is building (nearcore receipt_manager.rs ActionReceiptMetadata).
type Promise struct {
	Receiver  primitives.AccountID
	RefundTo  primitives.AccountID // account that gets refunds; empty: the predecessor
	Receivers []primitives.DataReceiver
	Inputs    []primitives.Hash
	Actions   []primitives.Action
	Yield     bool
}

// Resume is the answer to a yield.
type Resume struct {
	DataID primitives.Hash
	Data   []byte
}

// weighted is a function call in a promise that gets a share of the unused gas.
type weighted struct {
	call   *primitives.FunctionCall
	weight uint64
}

// distribute divides unused gas, by weight, among the calls that have a weight. The last of these
// calls also gets the remainder of the division. distribute returns the distributed gas: all of
// unused, or 0 if no call has a weight.
func (x *External) distribute(unused primitives.Gas) (primitives.Gas, error) {
	var sum primitives.Balance // sum of all weights; may exceed 64 bits
	for i := range x.weights {
		sum, _ = sum.Add(primitives.Yocto(x.weights[i].weight))
	}
	if sum.IsZero() {
		return 0, nil
	}
	give := func(i int, g primitives.Gas) error {
		c := x.weights[i].call
		if c.Gas+g < g {
			return parameters.ErrOverflow
		}
		c.Gas += g
		return nil
	}
	var given primitives.Gas
	for i := range x.weights {
		share := shareOf(unused, x.weights[i].weight, sum)
		if err := give(i, share); err != nil {
			return 0, err
		}
		given += share // the sum of all shares is at most unused
	}
	return unused, give(len(x.weights)-1, unused-given)
}

// shareOf returns floor(gas·weight/sum). weight must be at most sum.
func shareOf(gas primitives.Gas, weight uint64, sum primitives.Balance) primitives.Gas {
	hi, lo := bits.Mul64(uint64(gas), weight)
	if sum.Hi == 0 {
		q, _ := bits.Div64(hi, lo, sum.Lo) // cannot panic: hi < sum.Lo, because weight <= sum
		return primitives.Gas(q)
	}
	q := primitives.Balance{Hi: hi, Lo: lo}.Big()
	return primitives.Gas(q.Quo(q, sum.Big()).Uint64())
}

// finish makes receipts of the promises of a successful call, and queues the timeouts of its
// yields. finish reads the queue's indices even if the call has no yields, because nearcore records
// that read for every successful call (function_call.rs:168).
func (x *External) finish(e *Execution) error {
	indices, err := x.State.YieldIndices()
	if err != nil {
		return err
	}
	before := indices
	for i := range x.promises {
		p := x.promises[i]
		if p.Yield {
			x.State.SetYieldTimeout(indices.Next, &state.YieldTimeout{
				Account: x.account, DataID: p.Inputs[0],
				ExpiresAt: x.block.Height + primitives.Height(x.block.Config.Wasm.Limits.YieldTimeoutLengthInBlocks),
			})
			indices.Next++
		}
		e.Result.NewReceipts = append(e.Result.NewReceipts, &primitives.Receipt{
			PredecessorID: x.account, ReceiverID: p.Receiver,
			Body: &primitives.ActionReceipt{
				SignerID: e.Body.SignerID, SignerPublicKey: e.Body.SignerPublicKey, GasPrice: e.Body.GasPrice,
				OutputDataReceivers: p.Receivers, InputDataIDs: p.Inputs, Actions: p.Actions,
				V2: true, RefundTo: p.RefundTo, Yield: p.Yield,
			},
		})
	}
	for i := range x.resumes {
		e.Result.NewReceipts = append(e.Result.NewReceipts, &primitives.Receipt{
			PredecessorID: x.account, ReceiverID: x.account,
			Body: &primitives.DataReceipt{DataID: x.resumes[i].DataID, Data: x.resumes[i].Data, Resume: true},
		})
	}
	if indices != before {
		x.State.SetYieldIndices(indices)
	}
	return nil
}
