package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// checkHistory returns an error if the node cannot run with troupe.history.*, and warnings about
// settings with which it runs. It creates and removes an empty folder where the folder of older blocks
// would be, and leaves nothing.
func checkHistory(hm *home.Home) (warnings []string, err error) {
	c := hm.Config
	if c.History.Source != "" && !c.Archive {
		return nil, fmt.Errorf("%s: troupe.history.source is %q, but only an archive keeps older blocks: set archive to true or use --archive, "+
			"or set the source to null", hm.Paths.Config, c.History.Source)
	}
	set, _ := c.Document.Get("troupe.history.path")
	if !c.Archive || c.History.Source == "" && set == nil {
		return nil, nil
	}
	if err := checkHistoryFolder(&hm.Paths); err != nil {
		return nil, fmt.Errorf("%s: troupe.history.path: %w", hm.Paths.Config, err)
	}
	if folder := lakeFolder(hm); folder != "" {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			what := "is not a folder"
			if err != nil {
				what = bareError(err)
			}
			warnings = append(warnings, fmt.Sprintf("%s: troupe.history.source: %s: %s; no older blocks are imported from it until it is there",
				hm.Paths.Config, folder, what))
		}
	}
	return warnings, nil
}

// checkHistoryFolder returns why the folder of older blocks cannot be used.
func checkHistoryFolder(p *home.Paths) error {
	mine := realPath(p.History)
	for _, x := range []struct{ path, what string }{{p.Data, "the data folder"}, {p.Contracts, "the folder of compiled contracts"}} {
		other := realPath(x.path)
		if isWithin(mine, other) || isWithin(other, mine) {
			return fmt.Errorf("%s overlaps %s, %s: name another folder", p.History, x.what, x.path)
		}
	}
	at := mine
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder: name another one", at)
		}
		if err == nil {
			break
		}
		if above := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && above != at {
			at = above
			continue
		}
		return fmt.Errorf("%w: name another folder", err)
	}
	probe, err := os.MkdirTemp(at, ".troupe-check-*")
	switch {
	case err == nil:
		return os.Remove(probe)
	case storage.IsFull(err): // a node on a full disk serves what it has
		return nil
	}
	return fmt.Errorf("no folder can be created in %s: %s: name another one, or change the permissions", at, bareError(err))
}

// checkHistoryStore returns the error with which a node would refuse existing older blocks. Damaged
// ones and those that a running node has open are no error.
func checkHistoryStore(hm *home.Home, genesis primitives.Hash) error {
	if !hm.Config.Archive || !history.Exists(hm.Paths.History) {
		return nil
	}
	s, err := history.Open(hm.Paths.History, history.Options{Genesis: genesis, ReadOnly: true, CacheBytes: -1})
	switch {
	case err == nil:
		return s.Close()
	case errors.Is(err, storage.ErrForeign), errors.Is(err, storage.ErrFormat):
		return fmt.Errorf("%w (troupe.history.path)", err)
	}
	return nil
}

// lakeFolder returns the local folder of troupe.history.source, or "" if the source is not one.
func lakeFolder(hm *home.Home) string {
	folder, is := strings.CutPrefix(hm.Config.History.Source, "lake:")
	if !is || !config.IsHistorySource(hm.Config.History.Source) || strings.Contains(folder, "://") {
		return ""
	}
	return inHome(hm, folder)
}

// isWithin returns whether a path is a folder or below it. Both are clean.
func isWithin(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// realPath returns an absolute path without symbolic links in the part that exists.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for at, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		above := filepath.Dir(at)
		if above == at {
			return path
		}
		at, rest = above, filepath.Join(filepath.Base(at), rest)
	}
}

// bareError returns the text of an error without operation and path.
func bareError(err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
