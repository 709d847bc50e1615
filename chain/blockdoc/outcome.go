package blockdoc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

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
		Metadata   metadataJSON         `json:"metadata"`
	} `json:"outcome"`
}

// metadataJSON is nearcore's ExecutionMetadataView.
type metadataJSON struct {
	Version uint32 `json:"version"`
	Profile []struct {
		Category string     `json:"cost_category"`
		Cost     string     `json:"cost"`
		Gas      textNumber `json:"gas_used"`
	} `json:"gas_profile"`
	Contracts []*struct {
		Local         *primitives.Hash      `json:"local"`
		GlobalHash    *primitives.Hash      `json:"global_hash"`
		GlobalAccount *primitives.AccountID `json:"global_account_id"`
	} `json:"contracts"`
}

// textNumber is a number that nearcore writes as a string. Old releases wrote a number.
type textNumber uint64

// UnmarshalJSON decodes either form.
func (n *textNumber) UnmarshalJSON(in []byte) error {
	v, err := strconv.ParseUint(string(bytes.Trim(in, `"`)), 10, 64)
	*n = textNumber(v)
	return err
}

// metadata decodes the metadata of an outcome. No hash covers it. It takes a kind of contract that
// this program does not know as none, because a follower does not use the metadata.
func (m *metadataJSON) metadata() primitives.ExecutionMetadata {
	out := primitives.ExecutionMetadata{Version: m.Version}
	if m.Profile != nil {
		out.Profile = make([]primitives.CostEntry, 0, len(m.Profile))
	}
	for _, c := range m.Profile {
		out.Profile = append(out.Profile, primitives.CostEntry{Category: c.Category, Cost: c.Cost, Gas: primitives.Gas(c.Gas)})
	}
	slices.SortStableFunc(out.Profile, func(a, b primitives.CostEntry) int { // feeds of old releases have another order
		return cmp.Or(strings.Compare(a.Category, b.Category), strings.Compare(a.Cost, b.Cost))
	})
	if m.Version < view.FirstContractsVersion {
		return out
	}
	for _, c := range m.Contracts {
		x := primitives.AccountContract{}
		switch {
		case c == nil:
		case c.Local != nil:
			x = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: *c.Local}
		case c.GlobalHash != nil:
			x = primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: *c.GlobalHash}
		case c.GlobalAccount != nil:
			x = primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: *c.GlobalAccount}
		}
		out.Contracts = append(out.Contracts, x)
	}
	return out
}

// outcome decodes an ExecutionOutcomeWithIdView. No hash covers the metadata (gas profile, contracts)
// and the contents of a failure.
func outcome(text json.RawMessage) (*view.OutcomeProof, error) {
	var j outcomeJSON
	if err := parse(text, &j); err != nil {
		return nil, err
	}
	x := &j.Outcome
	o := &view.OutcomeProof{BlockHash: j.BlockHash, Proof: j.Proof}
	o.OutcomeWithID = primitives.OutcomeWithID{ID: j.ID, Outcome: primitives.Outcome{Logs: x.Logs, ReceiptIDs: x.ReceiptIDs,
		GasBurnt: x.GasBurnt, TokensBurnt: x.Tokens, ExecutorID: x.ExecutorID}}
	o.Metadata = x.Metadata.metadata()
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
			s.Kind = primitives.StatusFailure
			s.Failure, err = sorted(body)
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

// sorted returns JSON in the form of primitives.ExecutionStatus.Failure: with ascending members and
// without spaces.
func sorted(text json.RawMessage) ([]byte, error) {
	v, err := generic(text)
	if err != nil {
		return nil, err
	}
	return appendSorted(make([]byte, 0, len(text)), v), nil
}

// appendSorted appends a value of generic.
func appendSorted(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, v...)
	case string:
		return view.AppendString(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSorted(b, x)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSorted(append(view.AppendString(b, k), ':'), v[k])
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}
