package fees

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

var cut = flag.Bool("cut", false, "write testdata/recorded.jsonl anew from the recording that TROUPE_DATA holds")

var (
	recordedFile = "testdata/recorded.jsonl"
	recordings   = testutil.Data("neard/")
)

// recordedTx is a transaction of a chain run by nearcore f0c7706f1 (sandbox build, protocol 86), with the
// recorded costs of the transaction and its receipt. testdata/recorded.jsonl has one of each label, which `go
// test ./runtime/fees -run Recorded -cut` extracts from the recording of native actions.
type recordedTx struct {
	Label       string             `json:"label"`
	Tx          string             `json:"tx"` // base64
	Price       primitives.Balance `json:"price"`
	GasBurnt    primitives.Gas     `json:"gas_burnt"`
	TokensBurnt primitives.Balance `json:"tokens_burnt"`
	Receipt     *recordedReceipt   `json:"receipt,omitempty"` // if all it made are refunds
}

type recordedReceipt struct {
	GasPrice      primitives.Balance `json:"gas_price"` // 0: not recorded, as local receipts are not listed
	Price         primitives.Balance `json:"price"`     // when it ran
	GasBurnt      primitives.Gas     `json:"gas_burnt"`
	TokensBurnt   primitives.Balance `json:"tokens_burnt"`
	Failed        bool               `json:"failed"`
	GasRefund     primitives.Balance `json:"gas_refund"`
	DepositRefund primitives.Balance `json:"deposit_refund"`
}

func TestRecordedCostsAreReproduced(t *testing.T) {
	t.Parallel()
	if *cut {
		writeCut(t)
	}
	var txs []recordedTx
	for r := range testutil.Values[recordedTx](t, recordedFile) {
		txs = append(txs, *r)
	}
	checkRecorded(t, txs, 60, 40)
}

func TestWholeRecordingsCostsAreReproduced(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads a whole recording")
	}
	for _, tt := range []struct {
		name                string
		minTxs, minReceipts int
	}{{"native", 1600, 1600}, {"four", 700, 700}, {"storm", 700, 600}, {"reshard", 1500, 1400}} {
		t.Run(tt.name, func(t *testing.T) {
			path := recordings + tt.name + ".jsonl.gz"
			testutil.Need(t, path, "only "+recordedFile+" is compared")
			checkRecorded(t, readRecording(t, path), tt.minTxs, tt.minReceipts)
		})
	}
}

// checkRecorded checks that the computed costs of every transaction and receipt equal the recorded ones, and
// that there are at least the given numbers of them.
func checkRecorded(t *testing.T, txs []recordedTx, minTxs, minReceipts int) {
	t.Helper()
	receipts, charged := 0, 0
	for i := range txs {
		r := &txs[i]
		raw, err := base64.StdEncoding.DecodeString(r.Tx)
		var tx primitives.SignedTransaction
		if err == nil {
			err = borsh.Unmarshal(raw, &tx)
		}
		if err != nil {
			t.Fatalf("%s: %v", r.Label, err)
		}
		cost, err := TxCost(june86, &tx.Transaction, r.Price)
		if err != nil || cost.GasBurnt != r.GasBurnt || cost.BurntAmount != r.TokensBurnt {
			t.Errorf("%s: %d gas, %v tokens burnt, %v, want %d, %v", r.Label, cost.GasBurnt, cost.BurntAmount, err, r.GasBurnt, r.TokensBurnt)
		}
		q := r.Receipt
		if q == nil {
			continue
		}
		receipts++
		if q.GasPrice.IsZero() {
			q.GasPrice = cost.ReceiptGasPrice
		} else if q.GasPrice != cost.ReceiptGasPrice {
			t.Errorf("%s: gas bought at %v, want %v", r.Label, cost.ReceiptGasPrice, q.GasPrice)
		}
		body := &primitives.ActionReceipt{GasPrice: q.GasPrice, Actions: tx.Actions}
		receipt := &primitives.Receipt{PredecessorID: tx.SignerID, ReceiverID: tx.ReceiverID, Body: body}
		done := Executed{GasUsed: q.GasBurnt, GasBurnt: q.GasBurnt, Failed: q.Failed}
		done.CreatedAccount = !q.Failed && createsAccount(tx.Actions, tx.ReceiverID, q)
		got, err := Settle(june86, receipt, q.Price, done)
		if err != nil || got.GasRefund != q.GasRefund {
			t.Errorf("%s: gas refund %v, %v, want %v", r.Label, got.GasRefund, err, q.GasRefund)
		}
		if !hasOwnRefunds(tx.Actions) && got.DepositRefund != q.DepositRefund {
			t.Errorf("%s: deposit refund %v, want %v", r.Label, got.DepositRefund, q.DepositRefund)
		}
		burnt, ok := got.TokensBurnt, true
		for _, a := range tx.Actions {
			if d, deploys := a.(*primitives.DeployGlobalContract); deploys && !q.Failed {
				burnt, ok = burnt.Add(GlobalDeployBurn(june86, len(d.Code)))
			}
		}
		if !ok || burnt != q.TokensBurnt && !burnsGasKey(tx.Actions) {
			t.Errorf("%s: tokens burnt %v, want %v", r.Label, burnt, q.TokensBurnt)
		}
		if !got.CreationCharge.IsZero() {
			charged++
		}
	}
	t.Logf("%d transactions, %d receipts, %d account charges", len(txs), receipts, charged)
	if len(txs) < minTxs || receipts < minReceipts || charged == 0 {
		t.Errorf("%d transactions, %d receipts, %d of which created accounts: too few", len(txs), receipts, charged)
	}
}

// createsAccount returns whether the receipt created its receiver. For ids that transfers and state
// inits create only if they are missing, it looks for the charge in the recorded burnt tokens.
func createsAccount(actions []primitives.Action, receiver primitives.AccountID, q *recordedReceipt) bool {
	for _, a := range actions {
		if a.Tag() == primitives.TagCreateAccount {
			return true
		}
	}
	plain, _ := q.Price.MulGas(q.GasBurnt)
	return receiver.IsImplicit(false) && plain.Less(q.TokensBurnt)
}

// hasOwnRefunds returns whether a receipt creates refunds besides gas refunds: a state init refunds part of its
// deposit, a deletion sends the balance.
func hasOwnRefunds(actions []primitives.Action) bool {
	for _, a := range actions {
		if k := a.Tag(); k == primitives.TagDeterministicStateInit || k == primitives.TagDeleteAccount {
			return true
		}
	}
	return false
}

// burnsGasKey returns whether a receipt may remove a gas key. The burnt balance of the key is not in the
// transaction.
func burnsGasKey(actions []primitives.Action) bool {
	for _, a := range actions {
		if k := a.Tag(); k == primitives.TagDeleteKey || k == primitives.TagDeleteAccount {
			return true
		}
	}
	return false
}

// readRecording returns the converted transactions of a recording.
func readRecording(t *testing.T, path string) (txs []recordedTx) {
	t.Helper()
	type outcome struct {
		Block   string `json:"block_hash"`
		ID      string `json:"id"`
		Outcome struct {
			GasBurnt    primitives.Gas             `json:"gas_burnt"`
			TokensBurnt primitives.Balance         `json:"tokens_burnt"`
			Receipts    []string                   `json:"receipt_ids"`
			Status      map[string]json.RawMessage `json:"status"`
		} `json:"outcome"`
	}
	var line struct {
		Block *struct {
			Header struct {
				Hash     string             `json:"hash"`
				Prev     string             `json:"prev_hash"`
				GasPrice primitives.Balance `json:"gas_price"`
			} `json:"header"`
		} `json:"block"`
		Label  string `json:"label"`
		Tx     string `json:"signed_tx_base64"`
		Status *struct {
			Outcome  outcome   `json:"transaction_outcome"`
			Outcomes []outcome `json:"receipts_outcome"`
			Receipts []struct {
				ID          string               `json:"receipt_id"`
				Predecessor primitives.AccountID `json:"predecessor_id"`
				Receipt     struct {
					Action *struct {
						Signer   string             `json:"signer_id"`
						GasPrice primitives.Balance `json:"gas_price"`
						Actions  []json.RawMessage  `json:"actions"`
					}
				} `json:"receipt"`
			} `json:"receipts"`
		} `json:"status"`
	}
	empty := line
	priceAfter, prev := map[string]primitives.Balance{}, map[string]string{}
	for n, text := range testutil.Lines(t, path) {
		if head := string(text[:min(len(text), 9)]); head != `{"block":` && !strings.HasPrefix(head, `{"tx":`) {
			continue
		}
		line = empty
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%s, line %d: %v", path, n, err)
		}
		if line.Block != nil {
			h := &line.Block.Header
			priceAfter[h.Hash], prev[h.Hash] = h.GasPrice, h.Prev
		}
		if line.Status == nil || len(line.Status.Outcome.Outcome.Receipts) != 1 {
			continue
		}
		o := &line.Status.Outcome
		tx := recordedTx{Label: line.Label, Tx: line.Tx, Price: priceAfter[prev[o.Block]],
			GasBurnt: o.Outcome.GasBurnt, TokensBurnt: o.Outcome.TokensBurnt}
		q := &recordedReceipt{}
		made := map[string]bool{}
		for _, ro := range line.Status.Outcomes {
			if ro.ID == o.Outcome.Receipts[0] {
				_, q.Failed = ro.Outcome.Status["Failure"]
				q.Price, q.GasBurnt, q.TokensBurnt = priceAfter[prev[ro.Block]], ro.Outcome.GasBurnt, ro.Outcome.TokensBurnt
				for _, id := range ro.Outcome.Receipts {
					made[id] = true
				}
			}
		}
		for _, r := range line.Status.Receipts {
			a := r.Receipt.Action
			if r.ID == o.Outcome.Receipts[0] && a != nil {
				q.GasPrice = a.GasPrice
			}
			if !made[r.ID] {
				continue
			}
			var refund struct {
				Transfer *struct{ Deposit primitives.Balance }
			}
			if r.Predecessor != primitives.SystemAccount || json.Unmarshal(a.Actions[0], &refund) != nil {
				q = nil
				break
			}
			if a.Signer == string(primitives.SystemAccount) {
				q.DepositRefund = refund.Transfer.Deposit
			} else {
				q.GasRefund = refund.Transfer.Deposit
			}
		}
		tx.Receipt = q
		txs = append(txs, tx)
	}
	return txs
}

// writeCut keeps one transaction of each label, with and without a comparable receipt, if it is
// small.
func writeCut(t *testing.T) {
	t.Helper()
	txs := readRecording(t, recordings+"native.jsonl.gz")
	f, err := os.Create(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	e := json.NewEncoder(f)
	for _, tx := range txs {
		if seen[tx.Label] || strings.HasPrefix(tx.Label, "chaos") || len(tx.Tx) > 2000 && !strings.Contains(tx.Label, "dsa") {
			continue
		}
		seen[tx.Label] = true
		if err := e.Encode(tx); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
