package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/storage"
)

// finishRestore completes, at a start, a restore that was killed between its two renames. In this
// state, the old chain is moved away and the new one is not in place. Without finishRestore, the
// node would start from the genesis, and a validator would lose its signing journal. finishRestore
// returns an error if the copy is incomplete.
func finishRestore(data string, log *logrus.Logger) error {
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		return nil // opening the folder will report any other error
	}
	dir := data + restoringEnd
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	places, err := replacedDirs(data)
	if err != nil || len(places) == 0 { // no chain was replaced, because the home was empty
		return err
	}
	newest := places[len(places)-1]
	if !storage.Exists(dir) {
		return fmt.Errorf("a restore into %s was killed: its copy %s is incomplete, and the previous chain is in %s; "+
			"run `troupe snapshot restore` again, or rename %s back and remove %s", data, dir, newest, newest, dir)
	}
	if _, err := mergeSigned(data, data, dir, dir); err != nil {
		return err
	}
	if err := os.Rename(dir, data); err != nil {
		return err
	}
	log.Warnf("finished a restore into %s that was killed before its last step; the previous chain is in %s", data, newest)
	return syncFolder(filepath.Dir(data))
}

// clearDir empties a folder without removing the folder itself, so that a start of the node sees
// the unfinished restore.
func clearDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
