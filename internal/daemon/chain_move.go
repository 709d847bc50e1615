package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// A chain in a folder that is a mount point cannot be moved aside by one renaming. Function
// moveChain renames each name in it. Invariants, so that a kill between two renamings harms
// nothing:
//   - FORMAT is the first name that is moved. Without it no command opens the rest.
//   - The names go to a folder whose name ends with movingEnd. While it exists and FORMAT is gone,
//     the move is unfinished, and finishMove, which each start and each restore call first,
//     completes it. While FORMAT is in its old place, nothing was moved.
//   - The folder gets its final name last. So a folder with a final name is complete.

// movingEnd ends the name of a folder to which a chain is being moved.
const movingEnd = ".moving"

// moveChain renames the folder of a chain to a name beside it, or below it if it is a mount point.
func moveChain(data, to string) error {
	if !home.IsMounted(data) {
		return os.Rename(data, to)
	}
	if err := storage.InUse(data); err != nil {
		return err
	}
	begun, err := unfinishedMoves(data)
	if err != nil {
		return err
	}
	for _, dir := range begun { // empty: FORMAT was not moved
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	dir := to + movingEnd
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(syncFolder(data), moving("move begun")); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(filepath.Join(data, storage.Mark), filepath.Join(dir, storage.Mark)), syncFolder(dir),
		syncFolder(data)); err != nil {
		return err
	}
	return moveRest(data, dir)
}

// moveRest moves the names that are left in a mount point to dir, which then gets its final name.
func moveRest(data, dir string) error {
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if home.IsBelowMount(e.Name()) || e.Name() == lostFound {
			continue
		}
		if err := moving("moving " + e.Name()); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(data, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := errors.Join(syncFolder(dir), syncFolder(data), moving("moved")); err != nil {
		return err
	}
	if err := os.Rename(dir, strings.TrimSuffix(dir, movingEnd)); err != nil {
		return err
	}
	return syncFolder(data)
}

// lostFound is a folder that file systems keep at their root.
const lostFound = "lost+found"

// finishMove completes a move that was killed. The argument is the folder of the chain.
func finishMove(chain string) error {
	data := filepath.Dir(chain)
	if filepath.Base(chain) != home.BelowMount || storage.Exists(data) {
		return nil
	}
	begun, err := unfinishedMoves(data)
	if err != nil {
		return err
	}
	for _, dir := range begun {
		if err := moveRest(data, dir); err != nil {
			err = fmt.Errorf("a chain cannot be moved from %s to %s: %w", data, dir, err)
			if storage.IsFull(err) {
				err = fmt.Errorf("%w; free some room on that disk and start the node again, which then continues", err)
			}
			return err
		}
	}
	return nil
}

// unfinishedMoves returns the folders in a mount point to which a chain is being moved.
func unfinishedMoves(data string) (dirs []string, err error) {
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if home.IsBelowMount(e.Name()) && strings.HasSuffix(e.Name(), movingEnd) {
			dirs = append(dirs, filepath.Join(data, e.Name()))
		}
	}
	return dirs, err
}
