package sandbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// DefaultGas is what a call has that says nothing else: what the protocol gives a transaction at the most, since it costs nothing here.
const DefaultGas primitives.Gas = 300_000_000_000_000

// Outcome is what became of a transaction with all receipts that follow from it.
type Outcome struct {
	Hash  primitives.Hash
	Value []byte   // that the call has returned
	Logs  []string // of all receipts, in the order in which they ran
	Gas   primitives.Gas
	Whole *view.FinalOutcome
}

// JSON reads the value that the call has returned.
func (o *Outcome) JSON(into any) error { return json.Unmarshal(o.Value, into) }

// CallError says that a transaction or a view has failed on the chain.
type CallError struct {
	What    string
	Failure string // JSON, as the RPC gives it
	Logs    []string
}

func (e *CallError) Error() string { return fmt.Sprintf("%s has failed: %s", e.What, e.Failure) }

// Send signs actions, submits them and waits until they, and all that follows from them, have run. A failure on the chain is a *CallError,
// beside the outcome.
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
		return nil, fmt.Errorf("sandbox: a transaction of %s to %s: %w", by.ID, to, err)
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

// Deploy gives an account code, and calls a method of it in the same transaction unless that is empty.
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

// Call calls a method of a contract. args are []byte, sent as they are, or what is sent as JSON; nil: nothing.
func (w *World) Call(ctx context.Context, by *Account, contract primitives.AccountID, method string, args any, deposit primitives.Balance) (*Outcome, error) {
	raw, err := encode(args)
	if err != nil {
		return nil, err
	}
	return w.Send(ctx, by, contract, &primitives.FunctionCall{Method: method, Args: raw, Gas: DefaultGas, Deposit: deposit})
}

// Transfer moves an amount.
func (w *World) Transfer(ctx context.Context, from *Account, to primitives.AccountID, amount primitives.Balance) (*Outcome, error) {
	return w.Send(ctx, from, to, &primitives.Transfer{Deposit: amount})
}

// View calls a method as a read, and reads its result as JSON into what into points to; nil: it is not read.
func (w *World) View(contract primitives.AccountID, method string, args, into any) error {
	raw, err := encode(args)
	if err != nil {
		return err
	}
	back := w.realm.Backend()
	out, err := back.CallFunction(back.Head().Hash, &view.Call{Account: contract, Method: method, Args: raw})
	switch {
	case err != nil:
		return fmt.Errorf("sandbox: view %s of %s: %w", method, contract, err)
	case out == nil:
		return fmt.Errorf("sandbox: view %s: there is no account %s", method, contract)
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
