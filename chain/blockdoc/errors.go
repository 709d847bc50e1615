package blockdoc

import (
	"errors"
	"fmt"
)

// ErrForm says that a text is not the JSON of a block or chunk.
var ErrForm = errors.New("follow: not what a feed tells of a block")

// ErrLacks says that a document's JSON lacks something that is in its hashes, and nobody has given it: code, or the block that a
// transaction refers to. Another document may have it.
var ErrLacks = errors.New("follow: what a hash covers is not told")

// MismatchError is something in a document that its hashes refute, or those of the chain.
type MismatchError struct {
	Where string // a path in the document
	Err   error
}

func (l *MismatchError) Error() string { return "follow: " + l.Where + ": " + l.Err.Error() }

// Unwrap gives what is wrong.
func (l *MismatchError) Unwrap() error { return l.Err }

func lief(where, format string, args ...any) error {
	return &MismatchError{Where: where, Err: fmt.Errorf(format, args...)}
}

func formf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrForm, fmt.Sprintf(format, args...))
}
