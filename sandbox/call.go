package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// DefaultGas is the gas of a call by Call and Deploy. Unused gas is refunded.
const DefaultGas primitives.Gas = 300_000_000_000_000

// Outcome is the result of a transaction and all its receipts, refunds included.
type Outcome struct {
	Hash   primitives.Hash
	Value  []byte             // the value that the call returned
	Logs   []string           // the logs of all receipts, in order of execution
	Gas    primitives.Gas     // gas burnt by the transaction and all receipts
	Tokens primitives.Balance // price of that gas
	Whole  *view.FinalOutcome
}

// JSON decodes the value that the call returned, which must be JSON, into into.
func (o *Outcome) JSON(into any) error { return json.Unmarshal(o.Value, into) }

// Event is an event that a contract logged (NEP-297).
type Event struct {
	Contract                 primitives.AccountID
	Standard, Version, Event string
	Data                     json.RawMessage // nil: the event has no data
}

// eventPrefix is the prefix of a log that is an event.
const eventPrefix = "EVENT_JSON:"

// Events returns the events among the logs. Events leaves out logs of receipts that failed, because
// the effects of such receipts are void, and logs that are not valid events.
func (o *Outcome) Events() (out []Event) {
	for of := range outcomes(o.Whole) {
		if of.Outcome.Status.Kind == primitives.StatusFailure {
			continue
		}
		for _, log := range of.Outcome.Logs {
			text, ok := strings.CutPrefix(strings.TrimSpace(log), eventPrefix)
			e := Event{Contract: of.Outcome.ExecutorID}
			var in struct {
				Standard, Version, Event string
				Data                     json.RawMessage
			}
			if !ok || json.Unmarshal([]byte(text), &in) != nil || in.Standard == "" || in.Event == "" {
				continue
			}
			e.Standard, e.Version, e.Event, e.Data = in.Standard, in.Version, in.Event, in.Data
			out = append(out, e)
		}
	}
	return out
}

// outcomes iterates over the outcomes of the transaction and its receipts.
func outcomes(of *view.FinalOutcome) func(func(*view.OutcomeProof) bool) {
	return func(yield func(*view.OutcomeProof) bool) {
		if !yield(&of.Outcome) {
			return
		}
		for i := range of.Outcomes {
			if !yield(&of.Outcomes[i]) {
				return
			}
		}
	}
}

// maxRefundBlocks is the maximum number of blocks that are produced for the refunds of one
// transaction. One block is enough unless receipts are delayed.
const maxRefundBlocks = 100

// Send signs and submits a transaction. Send produces blocks until the transaction and all its
// receipts, including gas refunds, are executed. After that, Balance returns final amounts. If the
// transaction fails on the chain, Send returns a *CallError together with the outcome.
func (w *World) Send(ctx context.Context, by *Account, to primitives.AccountID, actions ...primitives.Action) (*Outcome, error) {
	what := fmt.Sprintf("transaction from %s to %s", by.ID, to)
	back := w.chain.Backend()
	tx, hash, err := w.transaction(by, to, actions)
	if err != nil {
		return nil, w.wrap(err, "%s", what)
	}
	out, err := back.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
	if err != nil {
		return nil, w.wrap(err, "%s", what)
	}
	if out, err = w.runRefunds(ctx, tx, hash, out); err != nil {
		return nil, w.wrap(err, "refunds of transaction %v from %s to %s", hash, by.ID, to)
	}
	return result(hash, out, what)
}

// Simulate returns what Send would return. Simulate runs the transaction on the state of the head
// and changes nothing. by.Key may be zero. In that case the transaction names one of the account's
// full access keys and has no valid signature.
func (w *World) Simulate(ctx context.Context, by *Account, to primitives.AccountID, actions ...primitives.Action) (*Outcome, error) {
	what := fmt.Sprintf("simulated transaction from %s to %s", by.ID, to)
	tx, hash, err := w.transaction(by, to, actions)
	if err != nil {
		return nil, w.wrap(err, "%s", what)
	}
	out, err := w.chain.Backend().Simulate(ctx, &view.Simulate{Tx: tx, Unsigned: true})
	if err != nil {
		return nil, w.wrap(err, "%s", what)
	}
	if !out.Complete {
		return nil, w.wrap(fmt.Errorf("some receipts were not executed within %d simulated blocks", out.Blocks), "%s", what)
	}
	return result(hash, &out.FinalOutcome, what)
}

// transaction returns the signed next transaction of an account.
func (w *World) transaction(by *Account, to primitives.AccountID,
	actions []primitives.Action) (*primitives.SignedTransaction, primitives.Hash, error) {
	key, nonce, err := w.signing(by)
	if err != nil {
		return nil, primitives.Hash{}, err
	}
	t := primitives.Transaction{SignerID: by.ID, PublicKey: key, ReceiverID: to, Nonce: primitives.TransactionNonce{Nonce: nonce},
		BlockHash: w.chain.Backend().Head().Hash, Actions: actions}
	hash, sig := t.Hash(), primitives.ZeroED25519Signature
	if !by.Key.IsZero() {
		sig = by.Key.Sign(hash[:])
	}
	return primitives.NewSignedTransaction(t, sig), hash, nil
}

// result converts the outcome, and returns an error if the transaction failed.
func result(hash primitives.Hash, out *view.FinalOutcome, what string) (*Outcome, error) {
	o := &Outcome{Hash: hash, Value: out.Status.Value, Whole: out}
	for of := range outcomes(out) {
		o.Logs = append(o.Logs, of.Outcome.Logs...)
		o.Gas += of.Outcome.GasBurnt
		o.Tokens = o.Tokens.SaturatingAdd(of.Outcome.TokensBurnt)
	}
	if out.Status.Kind != view.FinalSuccessValue {
		return o, txFailure(what, out.Status.Failure, o.Logs)
	}
	return o, nil
}

// runRefunds produces blocks until all receipts of an executed transaction have outcomes, and
// returns the final result.
func (w *World) runRefunds(ctx context.Context, tx *primitives.SignedTransaction, hash primitives.Hash,
	out *view.FinalOutcome) (*view.FinalOutcome, error) {
	back := w.chain.Backend()
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
	for of := range outcomes(out) {
		for _, id := range of.Outcome.ReceiptIDs {
			if !ran[id] {
				return true
			}
		}
	}
	return false
}

// Function returns the action that calls a method, for Send and Simulate. args are as for Call.
func Function(method string, args any, gas primitives.Gas, deposit primitives.Balance) (*primitives.FunctionCall, error) {
	raw, err := encode(args)
	if err != nil {
		return nil, fmt.Errorf("sandbox: arguments of %s: %w", method, err)
	}
	return &primitives.FunctionCall{Method: method, Args: raw, Gas: gas, Deposit: deposit}, nil
}

// Deploy deploys code to an account and, unless method is empty, calls the method in the same
// transaction.
func (w *World) Deploy(ctx context.Context, to *Account, code []byte, method string, args any) (*Outcome, error) {
	actions := []primitives.Action{&primitives.DeployContract{Code: code}}
	if method != "" {
		call, err := Function(method, args, DefaultGas, primitives.Balance{})
		if err != nil {
			return nil, err
		}
		actions = append(actions, call)
	}
	return w.Send(ctx, to, to.ID, actions...)
}

// Call calls a method of a contract with DefaultGas. Like Send, it waits until all receipts are
// executed. args of type []byte are passed unchanged, and any other value is encoded as JSON. nil
// means no arguments.
func (w *World) Call(ctx context.Context, by *Account, contract primitives.AccountID, method string, args any,
	deposit primitives.Balance) (*Outcome, error) {
	return w.CallGas(ctx, by, contract, method, args, deposit, DefaultGas)
}

// CallGas does the same as Call with a given amount of gas.
func (w *World) CallGas(ctx context.Context, by *Account, contract primitives.AccountID, method string, args any,
	deposit primitives.Balance, gas primitives.Gas) (*Outcome, error) {
	call, err := Function(method, args, gas, deposit)
	if err != nil {
		return nil, err
	}
	return w.Send(ctx, by, contract, call)
}

// Transfer transfers an amount.
func (w *World) Transfer(ctx context.Context, from *Account, to primitives.AccountID, amount primitives.Balance) (*Outcome, error) {
	return w.Send(ctx, from, to, &primitives.Transfer{Deposit: amount})
}

// View calls a method without a transaction and decodes the method's result as JSON into the
// argument into. If into is nil, View ignores the result. If into is a *[]byte, it receives the
// result unchanged.
func (w *World) View(contract primitives.AccountID, method string, args, into any) error {
	return w.view(view.BlockRef{}, contract, method, args, into)
}

// ViewAt does the same as View after the block at a height.
func (w *World) ViewAt(height primitives.Height, contract primitives.AccountID, method string, args, into any) error {
	return w.view(view.BlockRef{Kind: view.RefHeight, Height: height}, contract, method, args, into)
}

func (w *World) view(at view.BlockRef, contract primitives.AccountID, method string, args, into any) error {
	what := fmt.Sprintf("view %s of %s", method, contract)
	raw, err := encode(args)
	if err != nil {
		return fmt.Errorf("sandbox: arguments of %s: %w", what, err)
	}
	s, err := w.state(at, contract)
	if err != nil {
		return w.wrap(err, "%s", what)
	}
	block := s.At().Hash
	s.Release()
	out, err := w.chain.Backend().CallFunction(block, &view.Call{Account: contract, Method: method, Args: raw})
	switch {
	case err != nil:
		return w.wrap(err, "%s", what)
	case out == nil:
		return w.wrap(ErrNoAccount, "%s", what)
	case out.Err != nil:
		return &CallError{What: what, Failure: string(out.Err.AppendJSON(nil)), Logs: out.Logs, Message: out.Err.Message, cause: out.Err}
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = out.Result
		return nil
	}
	if err := json.Unmarshal(out.Result, into); err != nil {
		return fmt.Errorf("sandbox: result of %s: %w", what, err)
	}
	return nil
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
