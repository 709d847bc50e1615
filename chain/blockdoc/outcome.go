package blockdoc

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

type outcomeJSON struct {
	BlockHash primitives.Hash       `json:"block_hash"`
	ID        primitives.Hash       `json:"id"`
	Proof     primitives.MerklePath `json:"proof"`
	Outcome   struct {
		ExecutorID primitives.AccountID `json:"executor_id"`
		GasBurnt   primitives.Gas       `json:"gas_burnt"`
		Logs       []string             `json:"logs"`
		ReceiptIDs []primitives.Hash    `json:"receipt_ids"`
		Status     json.RawMessage      `json:"status"`
		Tokens     primitives.Balance   `json:"tokens_burnt"`
	} `json:"outcome"`
}

// outcome decodes an ExecutionOutcomeWithIdView. It ignores the metadata (gas profile, contracts)
// and the contents of a failure, because no hash covers them.
func outcome(text json.RawMessage) (*view.OutcomeProof, error) {
	var j outcomeJSON
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	x := &j.Outcome
	o := &view.OutcomeProof{BlockHash: j.BlockHash, Proof: j.Proof}
	o.OutcomeWithID = primitives.OutcomeWithID{ID: j.ID, Outcome: primitives.Outcome{Logs: x.Logs, ReceiptIDs: x.ReceiptIDs,
		GasBurnt: x.GasBurnt, TokensBurnt: x.Tokens, ExecutorID: x.ExecutorID}}
	var err error
	o.Status, err = status(x.Status)
	return o, err
}

func status(text json.RawMessage) (s primitives.ExecutionStatus, err error) {
	if string(text) == `"Unknown"` {
		return s, nil
	}
	var one map[string]json.RawMessage
	if err := parse(text, &one); err != nil {
		return s, err
	}
	if len(one) != 1 {
		return s, formf("a status of %d kinds", len(one))
	}
	for kind, body := range one {
		switch kind {
		case "Failure":
			s = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: body}
		case "SuccessValue":
			s.Kind = primitives.StatusSuccessValue
			err = parse(body, &s.Value)
		case "SuccessReceiptId":
			s.Kind = primitives.StatusSuccessReceiptID
			err = parse(body, &s.ReceiptID)
		default:
			err = formf("status %s", kind)
		}
	}
	return s, err
}
