package storage

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
)

// Errors that callers distinguish.
var (
	ErrNotFound = errors.New("not found")
	// ErrGone means that the block or state is below the tail.
	ErrGone = errors.New("garbage collected")
	// ErrLocked, ErrForeign and ErrFormat are returned before the folder was changed.
	ErrLocked  = errors.New("data folder is in use by another process")
	ErrForeign = errors.New("data folder belongs to another chain or program")
	ErrFormat  = errors.New("data folder has a format version that this program does not read")
	// ErrDamaged means that data contradicts its checksum or is missing. Nothing was repaired or
	// removed.
	ErrDamaged = errors.New("data folder is damaged")
	// ErrFull means that the disk has no room. Such an error also matches the cause, syscall.ENOSPC
	// or EDQUOT, by errors.Is.
	ErrFull   = errors.New("no space left on the device")
	ErrFailed = errors.New("storage failed earlier and accepts no writes")
	ErrClosed = errors.New("storage is closed")
	// ErrOrder means that a call does not fit the store's state: unknown parent, wrong height, or a
	// block that is not on the head's branch.
	ErrOrder = errors.New("storage: the call does not match the stored state")
)

// wrapWrite adds the failed operation and marks an error of a full disk as ErrFull. A nil error
// stays nil.
func wrapWrite(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w: %w", what, ErrFull, err)
	}
	return wrapIndex(what, err)
}

// wrapIndex adds the failed operation and translates goleveldb's errors. A nil error stays nil.
func wrapIndex(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, leveldb.ErrNotFound):
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	case errors.Is(err, leveldb.ErrClosed), errors.Is(err, leveldb.ErrSnapshotReleased), errors.Is(err, os.ErrClosed):
		return fmt.Errorf("%s: %w", what, ErrClosed)
	case lerrors.IsCorrupted(err):
		return fmt.Errorf("%s: %w: %w", what, ErrDamaged, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// isAbsent returns whether an error says that something is absent or was collected.
func isAbsent(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) }
