package indexer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CursorFile stores a cursor in a file. If the process ends after it has handled a message and
// before it calls Store, the process receives that message again after a restart. To avoid this
// repetition, store the cursor together with the results in one transaction instead of using a
// CursorFile.
type CursorFile string

// Load returns the stored cursor, or nil if the file does not exist.
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

// Store replaces the stored cursor. After a crash the file has either the old or the new cursor.
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
