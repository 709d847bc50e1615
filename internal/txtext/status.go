package txtext

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
)

// Status is a transaction's status, read from the result of EXPERIMENTAL_tx_status, or of tx and
// send_tx, which have no receipts.
type Status struct {
	Level       string          `json:"final_execution_status"`
	Status      json.RawMessage `json:"status"`
	Transaction struct {
		Hash     string            `json:"hash"`
		Signer   string            `json:"signer_id"`
		Receiver string            `json:"receiver_id"`
		Actions  []json.RawMessage `json:"actions"`
	} `json:"transaction"`
	Signed   Outcome   `json:"transaction_outcome"`
	Outcomes []Outcome `json:"receipts_outcome"`
	Receipts []struct {
		ID          string `json:"receipt_id"`
		Predecessor string `json:"predecessor_id"`
		Receiver    string `json:"receiver_id"`
		Receipt     struct {
			Action *struct {
				Actions []json.RawMessage `json:"actions"`
			}
			Data json.RawMessage
		} `json:"receipt"`
	} `json:"receipts"`
}

// Outcome is the outcome of a transaction or receipt.
type Outcome struct {
	ID        string `json:"id"`
	BlockHash string `json:"block_hash"`
	Outcome   struct {
		Executor string             `json:"executor_id"`
		Gas      primitives.Gas     `json:"gas_burnt"`
		Tokens   primitives.Balance `json:"tokens_burnt"`
		Logs     []string           `json:"logs"`
		Receipts []string           `json:"receipt_ids"`
		Status   json.RawMessage    `json:"status"`
	} `json:"outcome"`
}

// ParseStatus reads a status.
func ParseStatus(result []byte) (*Status, error) {
	s := &Status{}
	if err := json.Unmarshal(result, s); err != nil {
		return nil, fmt.Errorf("transaction status: %w", err)
	}
	if s.Transaction.Hash == "" {
		return nil, fmt.Errorf("transaction status: no transaction in it: %s", Line(string(result), 200))
	}
	return s, nil
}

// Failed returns whether the transaction ended in a failure, and the text of the failure.
func (s *Status) Failed() (string, bool) { return failureOf(s.Status) }

// Value returns the bytes that the transaction returned. false: it has not succeeded yet, or failed.
func (s *Status) Value() ([]byte, bool) {
	var v struct{ SuccessValue *string }
	if json.Unmarshal(s.Status, &v) != nil || v.SuccessValue == nil {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(*v.SuccessValue)
	return b, err == nil
}

// Burnt returns the gas and tokens that the transaction and its receipts burnt.
func (s *Status) Burnt() (gas primitives.Gas, tokens primitives.Balance) {
	gas, tokens = s.Signed.Outcome.Gas, s.Signed.Outcome.Tokens
	for i := range s.Outcomes {
		gas += s.Outcomes[i].Outcome.Gas
		tokens = tokens.SaturatingAdd(s.Outcomes[i].Outcome.Tokens)
	}
	return gas, tokens
}

// Limits of one line.
const (
	mostLog    = 1000 // bytes of a contract's log or of a result
	mostArgs   = 200  // bytes of a call's arguments
	mostDepth  = 40   // levels of receipts that are indented
	mostOthers = 4    // actions of a receipt that are named
)

// Summary returns one line about the transaction: signer, receiver, actions, result and gas.
func (s *Status) Summary() string {
	gas, tokens := s.Burnt()
	return fmt.Sprintf("%s -> %s  %s  %s  %s, %s burnt", Line(s.Transaction.Signer, 64), Line(s.Transaction.Receiver, 64),
		Actions(s.Transaction.Actions), s.result(), Gas(gas), ShortNEAR(tokens))
}

// result returns how the transaction ended.
func (s *Status) result() string {
	if text, failed := s.Failed(); failed {
		return "failed: " + text
	}
	if _, ok := s.Value(); ok {
		return "ok"
	}
	return "pending"
}

// Text returns the transaction and the tree of its receipts, each with its logs and failure, ended by
// the returned value. Refunds of gas are left out, unless all is set.
func (s *Status) Text(all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "transaction %s  %s\n%s\n", Line(s.Transaction.Hash, 64), Line(s.Level, 40), s.Summary())
	outcomes, about := map[string]*Outcome{}, map[string]int{}
	for i := range s.Outcomes {
		outcomes[s.Outcomes[i].ID] = &s.Outcomes[i]
	}
	for i := range s.Receipts {
		about[s.Receipts[i].ID] = i
	}
	type receipt struct {
		id    string
		depth int
	}
	var todo []receipt // last first. A stack, since a chain of receipts may be long
	push := func(ids []string, depth int) {
		for _, id := range slices.Backward(ids) {
			todo = append(todo, receipt{id, depth})
		}
	}
	push(s.Signed.Outcome.Receipts, 1)
	for seen := map[string]bool{}; len(todo) > 0; {
		id, depth := todo[len(todo)-1].id, todo[len(todo)-1].depth
		todo = todo[:len(todo)-1]
		if seen[id] { // a node may answer anything
			continue
		}
		seen[id] = true
		o := outcomes[id]
		in := strings.Repeat("  ", min(depth, mostDepth))
		what := ""
		if i, ok := about[id]; ok {
			r := &s.Receipts[i]
			if r.Predecessor == "system" && !all {
				continue
			}
			what = Line(r.Receiver, 64)
			if a := r.Receipt.Action; a != nil {
				what += "  " + Actions(a.Actions)
			}
		} else if o != nil {
			what = Line(o.Outcome.Executor, 64)
			if depth == 1 && o.Outcome.Executor == s.Transaction.Signer { // local receipts are not listed
				what += "  " + Actions(s.Transaction.Actions)
			}
		}
		if o == nil && what == "" && !all { // a refund that has not run yet
			continue
		}
		if o == nil {
			fmt.Fprintf(&b, "%sreceipt %s  %s  pending\n", in, Line(id, 64), what)
			continue
		}
		status := "ok"
		if text, failed := failureOf(o.Outcome.Status); failed {
			status = "failed: " + text
		}
		fmt.Fprintf(&b, "%sreceipt %s  %s  %s  %s\n", in, Line(id, 64), what, status, Gas(o.Outcome.Gas))
		for _, l := range o.Outcome.Logs {
			fmt.Fprintf(&b, "%s    log %s\n", in, Line(l, mostLog))
		}
		push(o.Outcome.Receipts, depth+1)
	}
	if v, ok := s.Value(); ok && len(v) > 0 {
		fmt.Fprintf(&b, "returned %s\n", Value(v))
	}
	return b.String()
}

// Value formats bytes that a contract returned: JSON or other text on one line, other bytes in
// base64.
func Value(v []byte) string {
	if utf8.Valid(v) {
		return Line(string(v), mostLog)
	}
	return "base64:" + Line(base64.StdEncoding.EncodeToString(v), mostLog)
}

// Actions names actions: "Transfer 1.5 NEAR", "ft_transfer({...})", "CreateAccount, AddKey".
func Actions(list []json.RawMessage) string {
	return List(len(list), func(i int) string { return action(list[i]) })
}

// List joins the names of n actions. If there are many actions, List names only the first ones and
// states the number of the remaining ones.
func List(n int, name func(i int) string) string {
	var names []string
	for i := range n {
		if i == mostOthers && n > mostOthers+1 {
			names = append(names, fmt.Sprintf("%d more", n-i))
			break
		}
		names = append(names, name(i))
	}
	if len(names) == 0 {
		return "no actions"
	}
	return strings.Join(names, ", ")
}

// Call names a call of a contract.
func Call(method string, args []byte, deposit primitives.Balance) string {
	text := Line(method, 100) + "(" + arguments(args) + ")"
	if !deposit.IsZero() {
		text += " with " + ShortNEAR(deposit)
	}
	return text
}

// Transfer names a transfer.
func Transfer(deposit primitives.Balance) string { return "Transfer " + ShortNEAR(deposit) }

func action(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return Line(name, 40)
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(raw, &one) != nil || len(one) != 1 {
		return Line(string(raw), mostArgs)
	}
	for kind, fields := range one {
		var f struct {
			Method  string             `json:"method_name"`
			Args    []byte             `json:"args"`
			Deposit primitives.Balance `json:"deposit"`
			Code    string             `json:"code"`
		}
		if json.Unmarshal(fields, &f) != nil {
			return Line(kind, 40)
		}
		switch kind {
		case "FunctionCall":
			return Call(f.Method, f.Args, f.Deposit)
		case "Transfer":
			return Transfer(f.Deposit)
		}
		return Line(kind, 40)
	}
	return ""
}

// arguments formats the arguments of a call: JSON as it is, other bytes by their number.
func arguments(args []byte) string {
	if len(args) == 0 {
		return ""
	}
	if json.Valid(args) {
		return Line(string(args), mostArgs)
	}
	return fmt.Sprintf("%d bytes", len(args))
}

// failureOf returns whether a status is a failure, and the text of the failure.
func failureOf(status json.RawMessage) (string, bool) {
	var s struct{ Failure json.RawMessage }
	if json.Unmarshal(status, &s) != nil || len(s.Failure) == 0 || string(s.Failure) == "null" {
		return "", false
	}
	return Failure(s.Failure), true
}

// transparent are the names in an error's JSON that say nothing to a reader.
var transparent = []string{"ActionError", "InvalidTxError", "kind", "FunctionCallError", "ExecutionError",
	"MethodResolveError", "TxExecutionError"}

// amounts are the fields of errors that hold yoctoNEAR.
var amounts = []string{"allowance", "amount", "balance", "cost", "deposit", "locked", "minimum_stake", "stake"}

// Failure formats the JSON of a TxExecutionError on one line: the text of a contract's panic, or the
// name of the error and its fields.
func Failure(raw json.RawMessage) string {
	for range 8 { // nesting of the protocol's errors is below that
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || len(fields) == 0 {
			break
		}
		name, next := "", json.RawMessage(nil)
		for _, t := range transparent {
			if v, ok := fields[t]; ok {
				name, next = t, v
				break
			}
		}
		if name == "" {
			break
		}
		raw = next
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return Line(text, mostLog)
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(raw, &one) != nil || len(one) != 1 {
		return Line(compact(raw), mostLog)
	}
	for name, v := range one {
		var fields map[string]json.RawMessage
		if json.Unmarshal(v, &fields) != nil {
			return Line(name+": "+strings.Trim(compact(v), `"`), mostLog)
		}
		var parts []string
		for k, f := range fields {
			text := strings.Trim(compact(f), `"`)
			if b, err := parseYocto(text); err == nil && slices.Contains(amounts, k) {
				text = ShortNEAR(b)
			}
			parts = append(parts, k+" "+text)
		}
		slices.Sort(parts)
		return Line(strings.TrimSuffix(name+": "+strings.Join(parts, ", "), ": "), mostLog)
	}
	return ""
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
