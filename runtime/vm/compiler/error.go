package compiler

import (
	"errors"
	"fmt"
)

// Error is a failure of the compiler. The contract is not at fault, even if the failure occurs only
// with its code.
type Error struct {
	Reason   string
	Attempts int  // 0: no attempt was made, because the code is in quarantine
	Limits   bool // the last attempt reached its limits
}

func (e *Error) Error() string {
	if e.Attempts == 0 {
		return "compiler: not tried again: " + e.Reason
	}
	return fmt.Sprintf("compiler: failed %d times: %s", e.Attempts, e.Reason)
}

// ErrClosed is the error of a closed pool. ErrCancelled is the error of a compilation whose Cancel
// channel was closed.
var (
	ErrClosed    = errors.New("compiler: the pool of compiler processes is closed")
	ErrCancelled = errors.New("compiler: the compilation was cancelled")
)
