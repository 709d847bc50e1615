package trace

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Report is the trace of one transaction.
type Report struct {
	Transaction string `json:"transaction_hash"`
	Signer      string `json:"signer_id"`
	Receiver    string `json:"receiver_id"`
	// Simulated is set if the transaction is not on the chain and was run on the state after Block.
	Simulated bool   `json:"simulated"`
	Block     string `json:"block_hash"`
	Complete  bool   `json:"complete"` // all receipts have been executed
	Gas       uint64 `json:"gas_burnt"`
	Tokens    string `json:"tokens_burnt"` // yoctoNEAR
	// Status is the transaction's final status, as in the reply of method tx.
	Status json.RawMessage `json:"status"`
	// Outcomes are the outcomes of the transaction and its receipts. The outcome of a receipt comes
	// before the outcomes of the receipts that it created.
	Outcomes []Outcome `json:"outcomes"`
	// Profile is a file for speedscope.app. Profile is absent unless the client requested it.
	Profile json.RawMessage `json:"profile,omitempty"`
}

// Outcome describes the execution of the transaction or of one of its receipts.
type Outcome struct {
	ID          string          `json:"id"`
	Parent      string          `json:"parent_id,omitempty"` // id of the transaction or receipt that created this one
	Depth       int             `json:"depth"`
	Block       string          `json:"block_hash"`
	Predecessor string          `json:"predecessor_id"`
	Executor    string          `json:"executor_id"`
	Actions     []string        `json:"actions"` // names of nearcore's action views
	Gas         uint64          `json:"gas_burnt"`
	Tokens      string          `json:"tokens_burnt"`
	Status      json.RawMessage `json:"status"`
	Logs        []string        `json:"logs"`
	Calls       []*Call         `json:"calls"`
}

// Call is a call of a contract.
type Call struct {
	Action   int             `json:"action"` // index of the action in the receipt
	Account  string          `json:"account_id"`
	CodeHash string          `json:"code_hash"`
	Method   string          `json:"method_name"`
	Gas      uint64          `json:"gas_burnt"`
	Used     uint64          `json:"gas_used"` // burnt gas, plus gas attached to promises
	Prepaid  uint64          `json:"gas_prepaid"`
	Wasm     uint64          `json:"gas_wasm"` // part of Gas that instructions burnt
	Deposit  string          `json:"deposit"`
	Error    json.RawMessage `json:"error,omitempty"`
	// Missing lists imports that do not exist, so that the contract does not link. Error does not
	// name these imports.
	Missing MissingImports `json:"missing_imports,omitempty"`
	// Host lists the host calls in order, and Omitted is the number of further host calls.
	Host    []HostCall `json:"host_calls"`
	Omitted int        `json:"host_calls_omitted"`
}

// MissingImports are imports that the contract's protocol version does not have.
type MissingImports []primitives.MissingImport

// MarshalJSON writes the list as EXPERIMENTAL_simulate_tx does.
func (m MissingImports) MarshalJSON() ([]byte, error) { return view.AppendMissingImports(nil, m), nil }

// UnmarshalJSON reads what MarshalJSON writes.
func (m *MissingImports) UnmarshalJSON(b []byte) (err error) {
	*m, err = view.ParseMissingImports(b)
	return err
}

// HostCall is a call of a host function.
type HostCall struct {
	Name   string `json:"name"`
	At     uint64 `json:"at"` // gas burnt by the call before this host call
	Gas    uint64 `json:"gas"`
	Failed bool   `json:"failed,omitempty"` // the host function failed and ended the call
	Entry  *Entry `json:"entry,omitempty"`
}

// Entry is an entry of the contract's storage.
type Entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"` // value read, written or removed: its first MaxShown bytes
	Len   int    `json:"value_length"`
	Found bool   `json:"found"` // the entry existed before
	Nodes uint64 `json:"trie_nodes"`
}

// Bounds of a Report.
const (
	MaxHostCalls = 20_000 // maximum number of host calls of all calls together
	MaxShown     = 512    // maximum number of bytes of a value
)
