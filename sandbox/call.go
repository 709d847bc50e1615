package sandbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// DefaultGas is the gas of a call if none is given: the most that the protocol allows for a
// transaction, since gas is free here.
const DefaultGas primitives.Gas = 300_000_000_000_000

// Outcome is the result of a transaction and all its receipts.
type Outcome struct {
	Hash  primitives.Hash
	Value []byte   // the value that the call returned
	Logs  []string // the logs of all receipts, in order of execution
	Gas   primitives.Gas
	Whole *view.FinalOutcome
}

// JSON decodes the returned value.
func (o *Outcome) JSON(into any) error { return json.Unmarshal(o.Value, into) }

// CallError reports that a transaction or a view call failed on the chain.
type CallError struct {
	What    string
	Failure string // the failure as JSON, as in the RPC
	Logs    []string
}

func (e *CallError) Error() string { return fmt.Sprintf("%s has failed: %s", e.What, e.Failure) }

// maxRefundBlocks bounds the blocks that are produced for the refunds of one transaction. One block
// is enough unless receipts are delayed.
const maxRefundBlocks = 100

// Send signs and submits a transaction and produces blocks until it and all its receipts, including
// gas refunds, are executed. Afterwards Balance returns final amounts. If the transaction fails on
// the chain, it returns a *CallError together with the outcome.
func (w *World) Send(ctx context.Context, by *Account, to primitives.AccountID, actions ...primitives.Action) (*Outcome, error) {
	back := w.realm.Backend()
	nonce, err := w.nonce(by)
	if err != nil {
		return nil, err
	}
	t := primitives.Transaction{SignerID: by.ID, PublicKey: by.Key.PublicKey(), ReceiverID: to, Nonce: primitives.TransactionNonce{Nonce: nonce},
		BlockHash: back.Head().Hash, Actions: actions}
	hash := t.Hash()
	tx := primitives.NewSignedTransaction(t, by.Key.Sign(hash[:]))
	out, err := back.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
	if err != nil {
		return nil, fmt.Errorf("sandbox: transaction from %s to %s: %w", by.ID, to, err)
	}
	if out, err = w.runRefunds(ctx, tx, hash, out); err != nil {
		return nil, fmt.Errorf("sandbox: refunds of transaction %v from %s to %s: %w", hash, by.ID, to, err)
	}
	o := &Outcome{Hash: hash, Value: out.Status.Value, Whole: out}
	for i := -1; i < len(out.Outcomes); i++ {
		of := &out.Outcome
		if i >= 0 {
			of = &out.Outcomes[i]
		}
		o.Logs = append(o.Logs, of.Outcome.Logs...)
		o.Gas += of.Outcome.GasBurnt
	}
	if out.Status.Kind != view.FinalSuccessValue {
		return o, &CallError{fmt.Sprintf("a transaction of %s to %s", by.ID, to), string(out.Status.Failure), o.Logs}
	}
	return o, nil
}

// runRefunds produces blocks until all receipts of an executed transaction have outcomes, and
// returns the final result.
func (w *World) runRefunds(ctx context.Context, tx *primitives.SignedTransaction, hash primitives.Hash, out *view.FinalOutcome) (*view.FinalOutcome, error) {
	back := w.realm.Backend()
	for range maxRefundBlocks {
		if !hasPendingReceipts(out) {
			return out, nil
		}
		if _, err := back.Mine(ctx, &view.Mine{Blocks: 1}); err != nil {
			return nil, err
		}
		var err error
		if out, err = back.Tx(ctx, &view.GetTx{Hash: hash, Sender: tx.Transaction.SignerID, WaitUntil: view.LevelNone}); err != nil {
			return nil, err
		}
	}
	if hasPendingReceipts(out) {
		return nil, fmt.Errorf("they have not been executed within %d blocks", maxRefundBlocks)
	}
	return out, nil
}

// hasPendingReceipts returns whether an outcome created a receipt that has no outcome yet.
func hasPendingReceipts(out *view.FinalOutcome) bool {
	ran := make(map[primitives.Hash]bool, len(out.Outcomes))
	for i := range out.Outcomes {
		ran[out.Outcomes[i].ID] = true
	}
	for i := -1; i < len(out.Outcomes); i++ {
		of := &out.Outcome
		if i >= 0 {
			of = &out.Outcomes[i]
		}
		for _, id := range of.ReceiptIDs {
			if !ran[id] {
				return true
			}
		}
	}
	return false
}

// Deploy deploys code to an account and, unless method is empty, calls the method in the same
// transaction.
func (w *World) Deploy(ctx context.Context, to *Account, code []byte, method string, args any) (*Outcome, error) {
	actions := []primitives.Action{&primitives.DeployContract{Code: code}}
	if method != "" {
		raw, err := encode(args)
		if err != nil {
			return nil, err
		}
		actions = append(actions, &primitives.FunctionCall{Method: method, Args: raw, Gas: DefaultGas})
	}
	return w.Send(ctx, to, to.ID, actions...)
}

// Call calls a method of a contract. args of type []byte are passed unchanged; any other value is
// encoded as JSON; nil is no arguments.
func (w *World) Call(ctx context.Context, by *Account, contract primitives.AccountID, method string, args any, deposit primitives.Balance) (*Outcome, error) {
	raw, err := encode(args)
	if err != nil {
		return nil, err
	}
	return w.Send(ctx, by, contract, &primitives.FunctionCall{Method: method, Args: raw, Gas: DefaultGas, Deposit: deposit})
}

// Transfer transfers an amount.
func (w *World) Transfer(ctx context.Context, from *Account, to primitives.AccountID, amount primitives.Balance) (*Outcome, error) {
	return w.Send(ctx, from, to, &primitives.Transfer{Deposit: amount})
}

// View calls a method without a transaction and decodes its result as JSON into into; nil: the
// result is ignored.
func (w *World) View(contract primitives.AccountID, method string, args, into any) error {
	raw, err := encode(args)
	if err != nil {
		return err
	}
	back := w.realm.Backend()
	out, err := back.CallFunction(back.Head().Hash, &view.Call{Account: contract, Method: method, Args: raw})
	switch {
	case err != nil:
		return fmt.Errorf("sandbox: call view method %s of %s: %w", method, contract, err)
	case out == nil:
		return fmt.Errorf("sandbox: call view method %s: account %s does not exist", method, contract)
	case out.Err != nil:
		return &CallError{fmt.Sprintf("view %s of %s", method, contract), string(out.Err.AppendJSON(nil)), out.Logs}
	case into == nil:
		return nil
	}
	return json.Unmarshal(out.Result, into)
}

func encode(args any) ([]byte, error) {
	switch a := args.(type) {
	case nil:
		return nil, nil
	case []byte:
		return a, nil
	}
	return json.Marshal(args)
}
