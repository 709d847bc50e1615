package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendReceipt appends ReceiptView (nearcore views.rs:2335).
func AppendReceipt(b []byte, r *primitives.Receipt) []byte {
	b = AppendAccountID(append(b, `{"predecessor_id":`...), r.PredecessorID)
	b = append(b, `,"priority":0,"receipt":`...)
	switch body := r.Body.(type) {
	case *primitives.ActionReceipt:
		b = appendActionReceipt(b, body)
	case *primitives.DataReceipt:
		b = append(b, `{"Data":{"data":`...)
		if body.Data == nil {
			b = append(b, "null"...)
		} else {
			b = AppendBase64(b, body.Data)
		}
		b = AppendHash(append(b, `,"data_id":`...), &body.DataID)
		b = append(appendBool(append(b, `,"is_promise_resume":`...), body.Resume), "}}"...)
	case *primitives.GlobalContractDistribution:
		b = appendDistribution(b, body)
	default:
		panic(fmt.Sprintf("view: no JSON form of receipt %T", body))
	}
	b = AppendHash(append(b, `,"receipt_id":`...), &r.ID)
	return append(AppendAccountID(append(b, `,"receiver_id":`...), r.ReceiverID), '}')
}

// AppendReceipts appends a list of receipts.
func AppendReceipts(b []byte, rs []*primitives.Receipt) []byte {
	return appendList(b, rs, func(b []byte, r **primitives.Receipt) []byte { return AppendReceipt(b, *r) })
}

func appendActionReceipt(b []byte, a *primitives.ActionReceipt) []byte {
	b = AppendActions(append(b, `{"Action":{"actions":`...), a.Actions)
	b = AppendBalance(append(b, `,"gas_price":`...), a.GasPrice)
	b = appendHashes(append(b, `,"input_data_ids":`...), a.InputDataIDs)
	b = appendBool(append(b, `,"is_promise_yield":`...), a.Yield)
	b = appendList(append(b, `,"output_data_receivers":`...), a.OutputDataReceivers, appendDataReceiver)
	if a.RefundTo != "" {
		b = AppendAccountID(append(b, `,"refund_to":`...), a.RefundTo)
	}
	b = AppendAccountID(append(b, `,"signer_id":`...), a.SignerID)
	return append(AppendKey(append(b, `,"signer_public_key":`...), a.SignerPublicKey), "}}"...)
}

func appendDataReceiver(b []byte, d *primitives.DataReceiver) []byte {
	b = AppendHash(append(b, `{"data_id":`...), &d.DataID)
	return append(AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID), '}')
}

func appendDistribution(b []byte, g *primitives.GlobalContractDistribution) []byte {
	b = appendUints(append(b, `{"GlobalContractDistribution":{"already_delivered_shards":`...), g.AlreadyDelivered)
	h := primitives.HashBytes(g.Code)
	b = AppendBase64(append(b, `,"code":`...), h[:])
	b = g.ID.AppendJSON(append(b, `,"id":`...))
	if g.V2 {
		b = appendUint(append(b, `,"nonce":`...), g.Nonce)
	}
	return append(appendUint(append(b, `,"target_shard":`...), g.TargetShard), "}}"...)
}
