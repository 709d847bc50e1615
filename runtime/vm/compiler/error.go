package compiler

import (
	"errors"
	"fmt"
)

// Error is a failure of the compiler: of no contract's making, even if only one contract's code
// leads to it.
type Error struct {
	Reason   string
	Attempts int  // 0: none was made, since earlier ones failed
	Limits   bool // the last one came to its limits
}

func (e *Error) Error() string {
	if e.Attempts == 0 {
		return "compiler: not tried again: " + e.Reason
	}
	return fmt.Sprintf("compiler: failed %d times: %s", e.Attempts, e.Reason)
}

// ErrClosed is the error of a pool that was closed, ErrCancelled that of a compilation whose result
// nobody wants any more.
var (
	ErrClosed    = errors.New("compiler: closed")
	ErrCancelled = errors.New("compiler: cancelled")
)
