package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/primitives"
)

// Errors of this package, for errors.Is. An error that is none of these has one of the following
// types. *CallError, *primitives.InvalidTxError: a transaction or contract failed.
// *view.LookupError: the chain does not have a block or transaction. *view.SandboxError: the
// sandbox refuses a request.
var (
	// ErrEnded means that the world has ended or the sandbox was closed.
	ErrEnded = errors.New("the world has ended")
	// ErrNoAccount means that the account does not exist.
	ErrNoAccount = errors.New("the account does not exist")
	// ErrNoKey means that the account does not have the signing key.
	ErrNoKey = errors.New("the account does not have the key")
	// ErrFork means that the node of the forked chain does not answer, or that its answer is wrong.
	ErrFork = fork.ErrAway
)

// CallError reports that a transaction or a view call failed on the chain. A CallError unwraps to
// nearcore's error: *primitives.ActionError or *primitives.InvalidTxError, and
// *primitives.FunctionCallError if a contract failed. So errors.Is finds tags such as
// primitives.ActionAccountDoesNotExist and primitives.CallExecution.
type CallError struct {
	What    string
	Failure string // the failure as JSON, as in the RPC
	Logs    []string
	// Message is the text of a contract's panic or of a host function's error. Message is empty if
	// no contract failed while it ran.
	Message string

	cause error
}

// Error returns a text with What and either the contract's message or the JSON of the failure.
func (e *CallError) Error() string {
	if e.Message != "" {
		return e.What + " has failed: " + e.Message
	}
	return e.What + " has failed: " + e.Failure
}

// Unwrap returns nearcore's error. Unwrap returns nil if this program does not know the form of the
// failure.
func (e *CallError) Unwrap() error { return e.cause }

// txFailure returns the error for the failure of a transaction.
func txFailure(what string, failure []byte, logs []string) *CallError {
	e := &CallError{What: what, Failure: string(failure), Logs: logs}
	parsed := new(primitives.TxExecutionError)
	if json.Unmarshal(failure, parsed) != nil {
		return e
	}
	e.cause = parsed
	var call *primitives.FunctionCallError
	if errors.As(e.cause, &call) {
		e.Message = call.Message
	}
	return e
}

// wrap adds the failed operation to an error. If the world has ended, wrap also adds ErrEnded.
func (w *World) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if w.chain.Ended() && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("sandbox: %s: %w (%w)", what, ErrEnded, err)
	}
	return fmt.Errorf("sandbox: %s: %w", what, err)
}
