package check

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Error describes the rule that a module breaks, and the position. errors.Is and errors.As match
// Kind. Reason is only for logs.
type Error struct {
	Kind   primitives.PrepareError
	Offset int // position in the code
	Reason string
}

// Error returns kind, reason and offset.
func (e *Error) Error() string { return fmt.Sprintf("%v: %s (offset %#x)", e.Kind, e.Reason, e.Offset) }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// invalid returns the error of a module that is not valid.
func invalid(offset int, reason string) *Error {
	return &Error{Kind: primitives.PrepareDeserialization, Offset: offset, Reason: reason}
}
