package blockdoc

import (
	"errors"
	"fmt"
)

// ErrForm means that the text is not the JSON of a block or chunk.
var ErrForm = errors.New("blockdoc: not a block document")

// ErrLacks means that neither the document nor the caller has some data that a hash covers:
// contract code, or the block hash to which a transaction refers. Another feed may have the missing
// data.
var ErrLacks = errors.New("blockdoc: the document lacks data that a hash covers")

// MismatchError means that a value in a document contradicts a hash in the document or a hash on
// the chain.
type MismatchError struct {
	Where string // path of the value in the document
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
