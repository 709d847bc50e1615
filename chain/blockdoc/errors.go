package blockdoc

import (
	"errors"
	"fmt"
)

// ErrForm: the text is not the JSON of a block or chunk.
var ErrForm = errors.New("blockdoc: not a block document")

// ErrLacks: the document lacks something that its hashes cover, and the caller did not provide it:
// code, or the block that a transaction refers to. Another feed may have it.
var ErrLacks = errors.New("blockdoc: the document lacks data that a hash covers")

// MismatchError is a value in a document that its own hashes, or those of the chain, refute.
type MismatchError struct {
	Where string // path in the document
	Err   error
}

func (l *MismatchError) Error() string { return "blockdoc: " + l.Where + ": " + l.Err.Error() }

// Unwrap returns Err.
func (l *MismatchError) Unwrap() error { return l.Err }

func mismatchf(where, format string, args ...any) error {
	return &MismatchError{Where: where, Err: fmt.Errorf(format, args...)}
}

func formf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrForm, fmt.Sprintf(format, args...))
}
