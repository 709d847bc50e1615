package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// RestoreOptions say where a snapshot goes.
type RestoreOptions struct {
	Home     string // the home folder; what it has of a snapshot's files stays as it is
	Snapshot string
	Replace  bool                    // a chain that is there is put aside
	Progress func(done, all int64)   // bytes; nil: nobody is told
	check    func(step string) error // of tests: called between steps
}

// Restored is what came of it.
type Restored struct {
	Snapshot
	Data  string   // the folder of the chain
	Aside string   // where the old one is now; empty: there was none
	Made  []string // files of the home that were not there
	// where what the validator has signed is known from; empty: it has signed nothing together with
	// others
	Signed []string
	NoKey  bool // there is no node key in the home: snapshots have no keys
}

const (
	restoringEnd = ".restoring"
	asideEnd     = ".replaced-"
)

// ErrSnapshot says that a snapshot is not one, or not as it was made.
var ErrSnapshot = errors.New("the snapshot is not whole")

func brokenSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSnapshot, fmt.Errorf(format, args...))
}

// ReadSnapshot reads what a snapshot says of itself.
func ReadSnapshot(dir string) (*Snapshot, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Clean(dir), snapshotFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, brokenSnapshot("%s has no %s", dir, snapshotFile)
	}
	if err != nil {
		return nil, err
	}
	s := new(Snapshot)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, brokenSnapshot("%s: %w", filepath.Join(dir, snapshotFile), err)
	}
	if s.Format != snapshotFormat {
		return nil, fmt.Errorf("%s has format %d, this program reads %d", dir, s.Format, snapshotFormat)
	}
	for _, f := range s.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || !strings.HasPrefix(f.Name, snapshotData+"/") && !strings.HasPrefix(f.Name, snapshotHome+"/") {
			return nil, brokenSnapshot("%s names %q", snapshotFile, f.Name)
		}
	}
	return s, nil
}

// RestoreSnapshot makes the chain of a snapshot that of a home. Every file is checked as it is
// copied, and the copy is opened once, before it takes the place of what is there; until then that
// stays as it is.
func RestoreSnapshot(ctx context.Context, o RestoreOptions) (_ *Restored, err error) {
	s, err := ReadSnapshot(o.Snapshot)
	if err != nil {
		return nil, err
	}
	if o.check == nil {
		o.check = func(string) error { return nil }
	}
	r := &Restored{Snapshot: *s}
	copied := false
	defer func() {
		if err == nil || copied {
			return
		}
		// Without the chain the home would begin another one from the genesis.
		for _, path := range slices.Backward(r.Made) {
			if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}()
	paths, err := o.home(ctx, r)
	if err != nil {
		return nil, err
	}
	hm := &home.Home{Paths: *paths}
	if paths.Data = dataDir(hm); mounted(paths.Data) {
		return nil, fmt.Errorf("%s is the root of a disk: no copy can take its place; have the chain in a folder on it", paths.Data)
	}
	r.Data = paths.Data
	there, err := o.there(paths.Data)
	if err != nil {
		return nil, err
	}
	dir := paths.Data + restoringEnd
	if err := emptied(dir); err != nil { // what a kill has left
		return nil, err
	}
	drop := func() error {
		// the folder stays, and says so to who starts a node
		if places, err := asides(paths.Data); err != nil || !there && len(places) > 0 {
			return errors.Join(err, emptied(dir))
		}
		return os.RemoveAll(dir)
	}
	if err := o.copyData(ctx, s, dir); err != nil {
		return nil, errors.Join(err, drop())
	}
	if err := opens(dir, s); err != nil {
		return nil, errors.Join(err, drop())
	}
	if r.Signed, err = joinSigned(paths.Data, dir, o.Snapshot); err != nil {
		return nil, errors.Join(err, drop())
	}
	copied = true
	if err := o.check("copied"); err != nil {
		return nil, err
	}
	// what has come of a later block would be taken at the next start
	if err := os.RemoveAll(comingDir(hm)); err != nil {
		return nil, err
	}
	if there {
		r.Aside = paths.Data + asideEnd + time.Now().UTC().Format("20060102-150405.000")
		if err := storage.InUse(paths.Data); err != nil {
			return nil, err
		}
		if err := os.Rename(paths.Data, r.Aside); err != nil {
			return nil, err
		}
	}
	if err := o.check("aside"); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, paths.Data); err != nil {
		if there {
			err = errors.Join(err, os.Rename(r.Aside, paths.Data))
		}
		return nil, err
	}
	_, err = os.Stat(paths.NodeKey)
	r.NoKey = errors.Is(err, fs.ErrNotExist)
	return r, syncFolder(filepath.Dir(paths.Data))
}

// there tells whether there is a chain, which no node runs on and which may be put aside.
func (o *RestoreOptions) there(data string) (bool, error) {
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := storage.InUse(data); err != nil {
		return false, fmt.Errorf("%s: %w; stop the node first", data, err)
	}
	if len(entries) > 0 && !o.Replace {
		return false, fmt.Errorf("%s is there already; --replace puts it aside, as %s%s... ", data, data, asideEnd)
	}
	return true, nil
}

// home writes the files of a home that are not there. A home of another chain is an error.
func (o *RestoreOptions) home(ctx context.Context, r *Restored) (*home.Paths, error) {
	if err := os.MkdirAll(o.Home, 0o755); err != nil {
		return nil, err
	}
	write := func(name, to string) error {
		if _, err := os.Lstat(to); err == nil || r.find(name) == nil {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		temp := to + restoringEnd
		if err := o.copyFile(ctx, r.find(name), temp, nil); err != nil {
			return errors.Join(err, os.Remove(temp))
		}
		r.Made = append(r.Made, to)
		return os.Rename(temp, to)
	}
	if err := write(snapshotHome+"/"+home.ConfigFile, filepath.Join(o.Home, home.ConfigFile)); err != nil {
		return nil, err
	}
	c, _, err := home.LoadConfig(o.Home)
	if err != nil {
		return nil, err
	}
	paths := home.PathsOf(o.Home, c)
	// nobody here has said where files may go
	if at := filepath.Join(o.Home, home.ConfigFile); slices.Contains(r.Made, at) {
		if err := below(o.Home, &paths); err != nil {
			return nil, errors.Join(err, os.Remove(at))
		}
	}
	if err := write(snapshotHome+"/"+homeGenesis, paths.Genesis); err != nil {
		return nil, err
	}
	if r.find(snapshotHome+"/"+homeRecords) != nil && paths.Records == "" { // the genesis names them
		paths.Records = filepath.Join(filepath.Dir(paths.Genesis), homeRecords)
	}
	if err := write(snapshotHome+"/"+homeRecords, paths.Records); err != nil {
		return nil, err
	}
	for i := range r.Files {
		if name, ok := strings.CutPrefix(r.Files[i].Name, snapshotHome+"/"+homeEpochs+"/"); ok {
			if err := write(r.Files[i].Name, filepath.Join(paths.EpochConfigs, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
	}
	if hm, err := home.Load(o.Home); err == nil { // without keys it is not one yet, and the node looks when it starts
		id, err := identity(hm, readFingerprints(paths.Data))
		if err != nil {
			return nil, err
		}
		if want := (storage.Identity{ChainID: r.ChainID, Genesis: r.Genesis, Numbering: r.Numbering}); id != want {
			return nil, fmt.Errorf("%s is of chain %q, genesis %v, numbering %q; the snapshot of %q, %v, %q", hm.Paths.Genesis,
				id.ChainID, id.Genesis, id.Numbering, want.ChainID, want.Genesis, want.Numbering)
		}
	}
	return &paths, nil
}

// below wants all that a restore writes to lie below a home.
func below(dir string, p *home.Paths) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, path := range []string{p.Genesis, p.Records, p.Data, p.EpochConfigs} {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(dir, abs); err != nil || rel == "." || !filepath.IsLocal(rel) {
			return fmt.Errorf("the snapshot's %s names %s, which is not below %s; put a %s of your own there first: the snapshot's, with the places that are meant here",
				home.ConfigFile, path, dir, home.ConfigFile)
		}
	}
	return nil
}

func (s *Snapshot) find(name string) *SnapshotFile {
	for i := range s.Files {
		if s.Files[i].Name == name {
			return &s.Files[i]
		}
	}
	return nil
}

// copyFile copies a file of the snapshot, and wants it to be as it was.
func (o *RestoreOptions) copyFile(ctx context.Context, f *SnapshotFile, to string, seen func(int64)) error {
	h := sha256.New()
	n := int64(0)
	err := copyLarge(ctx, filepath.Join(o.Snapshot, filepath.FromSlash(f.Name)), to, h, func(k int64) {
		if n += k; seen != nil {
			seen(k)
		}
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return brokenSnapshot("%s is missing", f.Name)
	case err != nil:
		return err
	case n != f.Size || hex.EncodeToString(h.Sum(nil)) != f.SHA256:
		return brokenSnapshot("%s is not as it was made", f.Name)
	}
	return nil
}

// copyData copies the store. The marker that makes it one comes last.
func (o *RestoreOptions) copyData(ctx context.Context, s *Snapshot, dir string) error {
	const last = snapshotData + "/FORMAT"
	done, all := int64(0), s.Bytes()
	seen := func(n int64) {
		if done += n; o.Progress != nil {
			o.Progress(done, all)
		}
	}
	folders := map[string]bool{dir: true}
	put := func(f *SnapshotFile) error {
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(f.Name, snapshotData+"/")))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		folders[filepath.Dir(to)] = true
		return o.copyFile(ctx, f, to, seen)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range s.Files {
		if f := &s.Files[i]; strings.HasPrefix(f.Name, snapshotData+"/") && f.Name != last {
			if err := put(f); err != nil {
				return err
			}
			if err := o.check(f.Name); err != nil {
				return err
			}
		}
	}
	f := s.find(last)
	if f == nil {
		return brokenSnapshot("it has no %s", last)
	}
	for d := range folders {
		if err := syncFolder(d); err != nil {
			return err
		}
	}
	return errors.Join(put(f), syncFolder(dir))
}

// opens wants a copy to open and to stand where the snapshot says.
func opens(dir string, s *Snapshot) error {
	store, err := storage.Open(dir, storage.Options{Identity: storage.Identity{ChainID: s.ChainID, Genesis: s.Genesis, Numbering: s.Numbering}})
	if err != nil {
		return brokenSnapshot("%w", err)
	}
	tip := store.Tip()
	if err := store.Close(); err != nil {
		return err
	}
	if tip.Empty || blockName(tip.Head) != s.Head || blockName(tip.Final) != s.Final {
		return brokenSnapshot("its head is block %v, it says %v", tip.Head, s.Head)
	}
	return nil
}

// joinSigned sees to it that what the validator has signed is forgotten in no case: what the folder
// that is replaced knows, those that were put aside before, and the snapshot, comes together. from:
// who knows of something.
func joinSigned(data, dir, snapshot string) (from []string, err error) {
	its, err := validator.ReadRow(filepath.Join(dir, signedFile))
	if err != nil {
		return nil, err
	}
	places, err := asides(data)
	if err != nil {
		return nil, err
	}
	all := its
	for _, place := range append([]string{data}, places...) {
		row, err := validator.ReadRow(filepath.Join(place, signedFile))
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		from = append(from, place)
		if all, err = consensus.MergeSignatures(all, row); err != nil {
			return nil, fmt.Errorf("%s.*: %w", filepath.Join(place, signedFile), err)
		}
	}
	if its != nil {
		from = append(from, snapshot)
	}
	if bytes.Equal(all, its) {
		return from, nil
	}
	f, err := validator.OpenJournal(filepath.Join(dir, signedFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return from, f.Write(all)
}

// asides are the folders that a restore has put aside: one that was killed behind that has left
// none in their place.
func asides(data string) (dirs []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(data)+asideEnd) {
			dirs = append(dirs, filepath.Join(filepath.Dir(data), e.Name()))
		}
	}
	return dirs, err
}
