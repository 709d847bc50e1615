package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Genesis returns the chain spec of the recorded genesis.
func Genesis(rec *Recording, epochConfigs map[string][]byte) (*engine.ChainSpec, error) {
	g, _, err := genesis.ReadConfig(bytes.NewReader(rec.Genesis))
	if err != nil {
		return nil, fmt.Errorf("recorded genesis: %w", err)
	}
	numbering := primitives.NumberingJune
	if rec.Meta.Numbering != "" {
		numbering = primitives.Numbering(rec.Meta.Numbering)
	}
	return engine.NewChain(g, numbering, epochConfigs, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(rec.Genesis)), nil
	})
}

// transaction compares a transaction's final status: the reply of EXPERIMENTAL_tx_status. That
// reply may be the error for an unknown transaction.
func (r *runner) transaction(line *TxLine) error {
	if line.Status == nil || string(line.Status) == "null" {
		return nil
	}
	where := fmt.Sprintf("transaction %v (%s)", line.Hash, line.Label)
	var failed struct {
		Error *struct {
			Cause struct {
				Name string `json:"name"`
			} `json:"cause"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line.Status, &failed); err != nil {
		return err
	}
	got, err := r.e.Transactions().FullStatus(line.Hash)
	if failed.Error != nil {
		if !errors.Is(err, engine.ErrUnknown) || failed.Error.Cause.Name != "UNKNOWN_TRANSACTION" {
			r.found([]Difference{{Where: where, Got: fmt.Sprint(got.Level, err), Want: failed.Error.Cause.Name}})
		}
		return nil
	}
	if err != nil {
		r.found([]Difference{{Where: where, Got: err.Error(), Want: clip(line.Status)}})
		return nil
	}
	r.compare(where, view.AppendFinalOutcome(nil, &got, true), line.Status)
	return nil
}
