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

// finishRestore ends, at a start, a restore that was killed between its two renames: the chain that
// was there is put aside, and that of the snapshot is not in its place. Without this a node would
// begin with the genesis, and a validator would not know what it has signed. A copy that is not
// whole is refused.
func finishRestore(data string, log *logrus.Logger) error {
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong with it is said where it is opened
	}
	dir := data + restoringEnd
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	places, err := asides(data)
	if err != nil || len(places) == 0 { // it was to come into an empty home
		return err
	}
	newest := places[len(places)-1]
	if !storage.Exists(dir) {
		return fmt.Errorf("a restore into %s was killed: its copy %s is not whole, and the chain that was there is in %s; "+
			"run `troupe snapshot restore` again, or give %s its name back and remove %s", data, dir, newest, newest, dir)
	}
	if _, err := joinSigned(data, dir, dir); err != nil {
		return err
	}
	if err := os.Rename(dir, data); err != nil {
		return err
	}
	log.Warnf("a restore into %s was killed before its last step: it is done now; the chain that was there before is in %s", data, newest)
	return syncFolder(filepath.Dir(data))
}

// emptied removes what is in a folder, which stays: who starts a node meanwhile sees that a restore
// is under way.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
