package view

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Call is a call of a contract's method as a read.
type Call struct {
	Account primitives.AccountID
	Method  string
	Args    []byte
	Client  fair.Client // client to which the call's cost is charged
	// Gone returns whether no caller waits for the result any more.
	Gone func() bool
}

// CallResult is the result of a Call. Logs are set for a failed call too.
type CallResult struct {
	Result []byte
	Logs   []string
	Err    *primitives.FunctionCallError // error of the call; nil: the call succeeded
	// Debug is the VM's own error as Rust's {:?} prints it, if Err has the tag CallExecution.
	Debug string
	// Missing lists the imports of a contract that does not link, which Err and Debug do not name.
	Missing []primitives.MissingImport
}
