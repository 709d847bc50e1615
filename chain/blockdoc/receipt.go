package blockdoc

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
)

// Receipt is a decoded receipt view. The view of an action receipt without refund_to does not show
// which of its two layouts the receipt has.
type Receipt struct {
	*primitives.Receipt
	Slots []Slot
}

type receiptJSON struct {
	Predecessor primitives.AccountID `json:"predecessor_id"`
	Receiver    primitives.AccountID `json:"receiver_id"`
	ID          primitives.Hash      `json:"receipt_id"`
	Receipt     struct {
		Action *struct {
			Actions  []json.RawMessage    `json:"actions"`
			GasPrice primitives.Balance   `json:"gas_price"`
			Inputs   []primitives.Hash    `json:"input_data_ids"`
			Yield    bool                 `json:"is_promise_yield"`
			RefundTo primitives.AccountID `json:"refund_to"`
			SignerID primitives.AccountID `json:"signer_id"`
			Key      primitives.PublicKey `json:"signer_public_key"`
			Outputs  []struct {
				DataID   primitives.Hash      `json:"data_id"`
				Receiver primitives.AccountID `json:"receiver_id"`
			} `json:"output_data_receivers"`
		}
		Data *struct {
			DataID primitives.Hash `json:"data_id"`
			Data   *[]byte         `json:"data"`
			Resume bool            `json:"is_promise_resume"`
		}
		GlobalContractDistribution *struct {
			Delivered []primitives.ShardID        `json:"already_delivered_shards"`
			Code      json.RawMessage             `json:"code"`
			ID        primitives.GlobalContractID `json:"id"`
			Nonce     *uint64                     `json:"nonce"`
			Target    primitives.ShardID          `json:"target_shard"`
		}
	} `json:"receipt"`
}

// receipt decodes a receipt view.
func receipt(text json.RawMessage) (*Receipt, error) {
	var j receiptJSON
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	out := &Receipt{Receipt: &primitives.Receipt{PredecessorID: j.Predecessor, ReceiverID: j.Receiver, ID: j.ID}}
	switch x := &j.Receipt; {
	case x.Data != nil:
		d := &primitives.DataReceipt{DataID: x.Data.DataID, Resume: x.Data.Resume}
		if x.Data.Data != nil {
			d.Data = append([]byte{}, *x.Data.Data...)
		}
		out.Body = d
	case x.Action != nil:
		a := x.Action
		body := &primitives.ActionReceipt{SignerID: a.SignerID, SignerPublicKey: a.Key, GasPrice: a.GasPrice, InputDataIDs: a.Inputs,
			Yield: a.Yield, RefundTo: a.RefundTo, V2: a.RefundTo != ""}
		for _, o := range a.Outputs {
			body.OutputDataReceivers = append(body.OutputDataReceivers, primitives.DataReceiver{DataID: o.DataID, ReceiverID: o.Receiver})
		}
		var err error
		if body.Actions, out.Slots, err = actions(a.Actions); err != nil {
			return nil, err
		}
		out.Body = body
	case x.GlobalContractDistribution != nil:
		g := x.GlobalContractDistribution
		body := &primitives.GlobalContractDistribution{ID: g.ID, TargetShard: g.Target, AlreadyDelivered: g.Delivered}
		if g.Nonce != nil {
			body.V2, body.Nonce = true, *g.Nonce
		}
		var err error
		if out.Slots, err = (&actionJSON{Code: g.Code}).slot(&body.Code, &body.CodeHash); err != nil {
			return nil, err
		}
		out.Body = body
	default:
		return nil, formf("receipt %v is of an unknown kind", j.ID)
	}
	return out, nil
}

func receipts(list []json.RawMessage) (out []*Receipt, err error) {
	for _, text := range list {
		r, err := receipt(text)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
