package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Bounds of the files that are read whole.
const (
	maxConfig       = 4 << 20 // the same bound as in internal/config
	maxKeyFile      = 64 << 10
	maxEpochConfig  = 1 << 20
	maxEpochConfigs = 1000
)

// Modes of the files that are written. Only the owner can read keys.
const (
	modePublic fs.FileMode = 0o644
	modeSecret fs.FileMode = 0o600
)

// Errors of Init.
var (
	ErrUsage    = errors.New("invalid options") // the options are wrong or contradict each other
	ErrConflict = errors.New("conflict")        // the files of the home folder contradict the options or each other
)

// FileError reports a problem with a file.
type FileError struct {
	Path string
	Err  error
	Hint string // what to do; may be empty
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Path, e.Err)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// read returns the content of a file. read fails if the file has more than limit bytes. hint is the
// advice if the file does not exist.
func read(path string, limit int64, hint string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, missing(path, err, hint)
	}
	defer func() { _ = f.Close() }()
	in, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, &FileError{Path: path, Err: bare(err)}
	case int64(len(in)) > limit:
		return nil, &FileError{Path: path, Err: fmt.Errorf("the file has more than %d bytes, the limit", limit)}
	}
	return in, nil
}

// missing returns the error for a file that cannot be opened. The error contains the hint if the
// file does not exist.
func missing(path string, err error, hint string) error {
	if !errors.Is(err, fs.ErrNotExist) {
		hint = ""
	}
	return &FileError{Path: path, Err: bare(err), Hint: hint}
}

// bare removes the path from an error whose text repeats it.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// stage holds files written under temporary names until commit renames these files.
type stage struct{ files []staged }

type staged struct{ temp, final string }

// create opens a temporary file that commit renames to final.
func (s *stage) create(final string, mode fs.FileMode) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return nil, &FileError{Path: filepath.Dir(final), Err: bare(err)}
	}
	f, err := os.CreateTemp(filepath.Dir(final), ".new-*") // with mode 0600
	if err != nil {
		return nil, &FileError{Path: filepath.Dir(final), Err: bare(err), Hint: "check that the folder is writable"}
	}
	s.files = append(s.files, staged{f.Name(), final})
	if mode != modeSecret {
		err = f.Chmod(mode)
	}
	return f, err
}

// write writes a whole temporary file that commit renames to final.
func (s *stage) write(final string, mode fs.FileMode, fill func(io.Writer) error) (temp string, err error) {
	f, err := s.create(final, mode)
	if err != nil {
		return "", err
	}
	err = fill(f)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return "", &FileError{Path: final, Err: bare(err)}
	}
	return f.Name(), nil
}

// commit renames all files to their final names, in the order in which they were made. commit syncs
// the files before the renames, and the folders after the renames. Otherwise a power cut could
// remove the genesis and the key of a node that was started at once and whose blocks are already
// synced. Without those files the blocks are worthless.
func (s *stage) commit() error {
	var paths []string
	for _, f := range s.files {
		paths = append(paths, f.temp)
	}
	if err := syncAll(paths); err != nil {
		return err
	}
	var folders []string
	for i, f := range s.files {
		if err := os.Rename(f.temp, f.final); err != nil {
			s.files = s.files[i:]
			return &FileError{Path: f.final, Err: err}
		}
		if dir := filepath.Dir(f.final); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	s.files = nil
	return syncAll(folders)
}

// syncAll syncs files or folders in parallel, which the system can combine.
func syncAll(paths []string) error {
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() {
			f, err := os.Open(path)
			if err == nil {
				err = errors.Join(syncFile(f), f.Close())
			}
			if err != nil {
				errs[i] = &FileError{Path: path, Err: bare(err)}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Hooks let tests observe and change how files are written. A nil field does nothing.
type Hooks struct {
	sync func(*os.File) error // replaces File.Sync
}

// hooks are set by tests of this package, which do not run in parallel.
var hooks Hooks

func syncFile(f *os.File) error {
	if hooks.sync != nil {
		return hooks.sync(f)
	}
	return f.Sync()
}

// drop removes the files that were not renamed.
func (s *stage) drop() {
	for _, f := range s.files {
		_ = os.Remove(f.temp)
	}
	s.files = nil
}
