package view

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Call is a method of an account's contract, to run as a read.
type Call struct {
	Account primitives.AccountID
	Method  string
	Args    []byte
	Client  fair.Client // whose turn it takes
	// Gone tells whether nobody waits for the answer any more.
	Gone func() bool
}

// CallResult is how it ended. Logs are there also if it failed.
type CallResult struct {
	Result []byte
	Logs   []string
	Err    *primitives.FunctionCallError // nil: it did not fail
	// of Err with the tag CallExecution: the VM's own error, as Rust's {:?} prints it
	Debug string
}
