package external

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Account is an account id with a key. An Account can be used in all worlds in which the account
// has this key.
type Account struct {
	ID  string
	Key ed25519.PrivateKey
}

// Named returns the account with that id and the key that Create gives it. The key is derived from
// the id, so the key is no secret. `troupe call --as ID` uses the same key.
func Named(id string) *Account {
	seed := []byte(strings.Repeat(" ", ed25519.SeedSize)) // nearcore core/crypto/src/test_utils.rs
	copy(seed, id)
	return &Account{id, ed25519.NewKeyFromSeed(seed)}
}

// PublicKey returns the public key in the text form of NEAR clients.
func (a *Account) PublicKey() string {
	return "ed25519:" + encode58(a.Key.Public().(ed25519.PublicKey))
}

// SecretKey returns the secret key in the text form of NEAR clients.
func (a *Account) SecretKey() string { return "ed25519:" + encode58(a.Key) }

// NEAR returns an amount in yoctoNEAR.
func NEAR(n uint64) *big.Int {
	return new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(24), nil))
}

// DefaultGas is the gas of a call by Call and Deploy. Unused gas is refunded.
const DefaultGas = 300_000_000_000_000

// Action is an action of a transaction: CreateAccount, Deploy, FunctionCall, Transfer or AddKey.
type Action interface{ append(b []byte) []byte }

// CreateAccount creates the receiver.
type CreateAccount struct{}

// DeployContract deploys code to the receiver.
type DeployContract struct{ Code []byte }

// FunctionCall calls a method of the receiver.
type FunctionCall struct {
	Method  string
	Args    []byte
	Gas     uint64
	Deposit *big.Int // nil: none
}

// Transfer transfers an amount to the receiver.
type Transfer struct{ Deposit *big.Int }

// AddKey gives the receiver the public key of an account, with full access.
type AddKey struct{ Of *Account }

// append appends the borsh of the action. The tags are those of nearcore's Action.
func (CreateAccount) append(b []byte) []byte { return append(b, 0) }

func (a DeployContract) append(b []byte) []byte { return appendBytes(append(b, 1), a.Code) }

func (a FunctionCall) append(b []byte) []byte {
	b = appendBytes(appendBytes(append(b, 2), []byte(a.Method)), a.Args)
	return appendAmount(binary.LittleEndian.AppendUint64(b, a.Gas), a.Deposit)
}

func (a Transfer) append(b []byte) []byte { return appendAmount(append(b, 3), a.Deposit) }

func (a AddKey) append(b []byte) []byte {
	b = append(append(b, 5, 0), a.Of.Key.Public().(ed25519.PublicKey)...)
	return append(binary.LittleEndian.AppendUint64(b, 0), 1) // nonce, full access
}

func appendBytes(b, text []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// appendAmount appends a u128.
func appendAmount(b []byte, n *big.Int) []byte {
	var raw [16]byte
	if n != nil {
		n.FillBytes(raw[:]) // fits: checkAmounts was called
	}
	for i := range raw {
		b = append(b, raw[15-i])
	}
	return b
}

// checkAmounts returns an error for an amount that does not fit into a u128.
func checkAmounts(actions []Action) error {
	for _, a := range actions {
		var n *big.Int
		switch a := a.(type) {
		case FunctionCall:
			n = a.Deposit
		case Transfer:
			n = a.Deposit
		}
		if n != nil && (n.Sign() < 0 || n.BitLen() > 128) {
			return fmt.Errorf("sandbox: the amount %v must be from 0 to 2^128-1", n)
		}
	}
	return nil
}

// Outcome is the result of a transaction and all its receipts, refunds included.
type Outcome struct {
	Hash  string
	Value []byte   // the value that the call returned
	Logs  []string // logs of all receipts, in order of execution
	Gas   uint64   // gas burnt by the transaction and all receipts
}

// JSON decodes the returned value.
func (o *Outcome) JSON(into any) error { return json.Unmarshal(o.Value, into) }

// CallError reports that a transaction or a view call failed on the chain.
type CallError struct {
	What    string
	Failure string // the failure as JSON; for a view, its text
	Logs    []string
}

// Error returns a text with What and the failure.
func (e *CallError) Error() string { return e.What + " has failed: " + printable(e.Failure, maxText) }

// status is the reply of EXPERIMENTAL_tx_status.
type status struct {
	Status struct {
		Value   *string         `json:"SuccessValue"`
		Failure json.RawMessage `json:"Failure"`
	}
	Transaction struct{ Hash string }
	Outcome     outcome   `json:"transaction_outcome"`
	Receipts    []outcome `json:"receipts_outcome"`
}

type outcome struct {
	ID      string
	Outcome struct {
		Logs     []string
		Gas      uint64   `json:"gas_burnt"`
		Receipts []string `json:"receipt_ids"`
	}
}

// pending returns whether a receipt has no outcome yet.
func (s *status) pending() bool {
	ran := map[string]bool{}
	for i := range s.Receipts {
		ran[s.Receipts[i].ID] = true
	}
	for _, o := range append([]outcome{s.Outcome}, s.Receipts...) {
		for _, id := range o.Outcome.Receipts {
			if !ran[id] {
				return true
			}
		}
	}
	return false
}

// maxRefundBlocks is the maximum number of blocks that are produced for the refunds of one
// transaction.
const maxRefundBlocks = 100

// Send signs and submits a transaction and produces blocks until the transaction and all its
// receipts, including gas refunds, are executed. If the transaction fails on the chain, Send
// returns a *CallError together with the outcome.
func (w *World) Send(ctx context.Context, by *Account, to string, actions ...Action) (*Outcome, error) {
	if err := checkAmounts(actions); err != nil {
		return nil, err
	}
	key := by.PublicKey()
	last, head, has, err := w.accessKey(ctx, by)
	switch {
	case err != nil:
		return nil, err
	case !has:
		return nil, fmt.Errorf("sandbox: account %s, key %s: %w", by.ID, key, ErrNoKey)
	}
	block, err := decode58(head)
	if err != nil {
		return nil, fmt.Errorf("sandbox: hash of the head: %w", err)
	}
	w.mu.Lock()
	nonce := max(last, w.nonces[by.ID+" "+key]) + 1
	w.nonces[by.ID+" "+key] = nonce
	w.mu.Unlock()
	tx := append(appendBytes(nil, []byte(by.ID)), 0)
	tx = binary.LittleEndian.AppendUint64(append(tx, by.Key.Public().(ed25519.PublicKey)...), nonce)
	tx = append(appendBytes(tx, []byte(to)), block...)
	tx = binary.LittleEndian.AppendUint32(tx, uint32(len(actions)))
	for _, a := range actions {
		tx = a.append(tx)
	}
	hash := sha256.Sum256(tx)
	id := encode58(hash[:])
	tx = append(append(tx, 0), ed25519.Sign(by.Key, hash[:])...)

	var s status
	if err := w.RPC(ctx, "send_tx", map[string]any{"signed_tx_base64": tx, "wait_until": "EXECUTED_OPTIMISTIC"}, &s); err != nil {
		return nil, err
	}
	if s, err = w.settle(ctx, by, id, s); err != nil {
		return nil, err
	}
	return s.result(fmt.Sprintf("transaction from %s to %s", by.ID, to))
}

// settle produces blocks until all receipts of a transaction are executed, and returns the last
// status. s is the first one.
func (w *World) settle(ctx context.Context, by *Account, id string, s status) (status, error) {
	for n := 0; ; n++ {
		if s.Transaction.Hash != id {
			return s, fmt.Errorf("sandbox: %s answers for transaction %s with that of %.60q", w.URL, id, s.Transaction.Hash)
		}
		if !s.pending() {
			return s, nil
		}
		if n == maxRefundBlocks {
			return s, fmt.Errorf("sandbox: receipts of transaction %s have not been executed within %d blocks", id, n)
		}
		if err := w.Mine(ctx, 1); err != nil {
			return s, err
		}
		s = status{} // start empty, because decoding leaves fields unchanged that a reply does not have
		asked := map[string]any{"tx_hash": id, "sender_account_id": by.ID, "wait_until": "NONE"}
		if err := w.RPC(ctx, "EXPERIMENTAL_tx_status", asked, &s); err != nil {
			return s, err
		}
	}
}

// result makes the Outcome, and the error if the transaction failed.
func (s *status) result(what string) (*Outcome, error) {
	o := &Outcome{Hash: s.Transaction.Hash}
	for _, x := range append([]outcome{s.Outcome}, s.Receipts...) {
		o.Logs = append(o.Logs, x.Outcome.Logs...)
		o.Gas += x.Outcome.Gas
	}
	if s.Status.Value == nil {
		return o, &CallError{what, string(s.Status.Failure), o.Logs}
	}
	var err error
	if o.Value, err = base64.StdEncoding.DecodeString(*s.Status.Value); err != nil {
		return o, fmt.Errorf("sandbox: value of the %s: %w", what, err)
	}
	return o, nil
}

// Call calls a method of a contract with DefaultGas. args of type []byte are passed unchanged, and
// any other value is encoded as JSON. nil means no arguments. A nil deposit means no deposit.
func (w *World) Call(ctx context.Context, by *Account, contract, method string, args any, deposit *big.Int) (*Outcome, error) {
	raw, err := encodeArgs(args)
	if err != nil {
		return nil, err
	}
	return w.Send(ctx, by, contract, FunctionCall{method, raw, DefaultGas, deposit})
}

// Deploy deploys code to an account and, unless method is empty, calls the method in the same
// transaction.
func (w *World) Deploy(ctx context.Context, to *Account, code []byte, method string, args any) (*Outcome, error) {
	actions := []Action{DeployContract{code}}
	if method != "" {
		raw, err := encodeArgs(args)
		if err != nil {
			return nil, err
		}
		actions = append(actions, FunctionCall{Method: method, Args: raw, Gas: DefaultGas})
	}
	return w.Send(ctx, to, to.ID, actions...)
}

// encodeArgs never returns nil without an error, because the RPC requires a text.
func encodeArgs(args any) ([]byte, error) {
	switch a := args.(type) {
	case nil:
		return []byte{}, nil
	case []byte:
		return append([]byte{}, a...), nil
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("sandbox: arguments: %w", err)
	}
	return b, nil
}

const alphabet58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// encode58 returns base58 of some dozens of bytes.
func encode58(b []byte) string {
	var out []byte
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(58), new(big.Int)
	for n.Sign() > 0 {
		n.DivMod(n, base, digit)
		out = append(out, alphabet58[digit.Int64()])
	}
	for i := 0; i < len(b) && b[i] == 0; i++ {
		out = append(out, '1')
	}
	for i, k := 0, len(out)-1; i < k; i, k = i+1, k-1 {
		out[i], out[k] = out[k], out[i]
	}
	return string(out)
}

// decode58 reads a hash of 32 bytes.
func decode58(text string) ([]byte, error) {
	n := new(big.Int)
	for _, c := range text {
		digit := strings.IndexRune(alphabet58, c)
		if digit < 0 || len(text) > 44 {
			return nil, errors.New("not base58")
		}
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(digit)))
	}
	if n.BitLen() > 256 {
		return nil, errors.New("more than 32 bytes")
	}
	return n.FillBytes(make([]byte, 32)), nil
}
