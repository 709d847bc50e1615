package indexer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CursorFile keeps a cursor for consumers that have no better place for it. A consumer that dies
// between a message's work and Store gets that message again; to avoid that, store the cursor
// together with the work, in one step.
type CursorFile string

// Load gives the cursor; nil: there is none yet.
func (f CursorFile) Load() (*Cursor, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := ParseCursor(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	return &c, nil
}

// Store keeps a cursor: afterwards there is that one, or after a crash the one before.
func (f CursorFile) Store(c Cursor) error {
	t, err := os.CreateTemp(filepath.Dir(string(f)), ".cursor-")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.WriteString(c.String() + "\n")
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), string(f))
}
