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
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage"
)

// RestoreOptions are the options of RestoreSnapshot.
type RestoreOptions struct {
	Home     string                // home folder, whose existing files are not changed
	Snapshot string                // folder of the snapshot
	Replace  bool                  // move an existing chain to another folder instead of failing
	Progress func(done, all int64) // receives numbers of bytes; nil: not called
}

// Restored is the result of RestoreSnapshot.
type Restored struct {
	Snapshot
	Data  string   // path of the data folder
	Aside string   // folder to which the previous chain was moved; empty: there was none
	Made  []string // files created in the home folder
	// Signed lists the folders whose signing journals were merged. Signed is empty if none of these
	// folders has a journal.
	Signed []string
	NoKey  bool // the home has no node key, because snapshots contain no keys
}

const (
	restoringEnd = ".restoring"
	asideEnd     = ".replaced-"
)

// ErrSnapshot is wrapped by errors about a folder that is no snapshot, or a damaged one.
var ErrSnapshot = errors.New("the snapshot is damaged")

func brokenSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSnapshot, fmt.Errorf(format, args...))
}

// ReadSnapshot reads and checks snapshot.json.
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
		return nil, fmt.Errorf("%s has format %d, this program reads %d: use a matching version of troupe", dir, s.Format, snapshotFormat)
	}
	for _, f := range s.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || !strings.HasPrefix(f.Name, snapshotData+"/") &&
			!strings.HasPrefix(f.Name, snapshotHome+"/") {
			return nil, brokenSnapshot("%s names %q", snapshotFile, f.Name)
		}
	}
	return s, nil
}

// RestoreSnapshot replaces the chain of a home by the chain of a snapshot. RestoreSnapshot checks
// every file as it copies it, and opens the complete copy once. It does not change the existing
// chain before the copy has been opened.
func RestoreSnapshot(ctx context.Context, o RestoreOptions) (_ *Restored, err error) {
	s, err := ReadSnapshot(o.Snapshot)
	if err != nil {
		return nil, err
	}
	r := &Restored{Snapshot: *s}
	copied := false
	defer func() {
		if err == nil || copied {
			return
		}
		// Without the chain, the home would start a new chain from the genesis, so remove the
		// created files.
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
	paths.Data = dataDir(hm)
	if err := finishMove(paths.Data); err != nil {
		return nil, err
	}
	to := newChainDir(hm) // differs from paths.Data if that is a mount point
	r.Data = to
	there, err := o.dataExists(paths.Data, to)
	if err != nil {
		return nil, err
	}
	dir := to + restoringEnd
	if err := clearDir(dir); err != nil { // remove what a killed restore left
		return nil, err
	}
	drop := func() error {
		// Keep the empty folder, so that a start of the node reports the unfinished restore.
		if places, err := replacedDirs(to); err != nil || !there && len(places) > 0 {
			return errors.Join(err, clearDir(dir))
		}
		return os.RemoveAll(dir)
	}
	if err := o.copyData(ctx, s, dir); err != nil {
		return nil, errors.Join(err, drop())
	}
	if err := checkOpens(dir, s); err != nil {
		return nil, errors.Join(err, drop())
	}
	if r.Signed, err = mergeSigned(paths.Data, to, dir, o.Snapshot); err != nil {
		return nil, errors.Join(err, drop())
	}
	copied = true
	if err := restoring("copied"); err != nil {
		return nil, err
	}
	// Otherwise the next start would install an unfinished state sync.
	if err := os.RemoveAll(incomingDir(hm)); err != nil {
		return nil, err
	}
	if there {
		r.Aside = to + asideEnd + time.Now().UTC().Format("20060102-150405.000")
		if err := storage.InUse(paths.Data); err != nil {
			return nil, err
		}
		if err := moveChain(paths.Data, r.Aside); err != nil {
			return nil, err
		}
	}
	if err := restoring("aside"); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, to); err != nil {
		if there {
			err = errors.Join(err, os.Rename(r.Aside, to))
		}
		return nil, err
	}
	_, err = os.Stat(paths.NodeKey)
	r.NoKey = errors.Is(err, fs.ErrNotExist)
	return r, syncFolder(filepath.Dir(to))
}

// dataExists returns whether the data folder has a chain. It returns an error if a node runs on the
// chain or Replace is false. to is the folder that the restore creates.
func (o *RestoreOptions) dataExists(data, to string) (bool, error) {
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
		return false, fmt.Errorf("%s already exists; --replace moves it aside, to a folder named %s%s with the time", data, to, asideEnd)
	}
	return true, nil
}

// home creates the missing files of the home folder. Method home returns an error if the folder
// belongs to a chain other than the snapshot's.
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
	// The snapshot's config.json is not trusted. So it must not name files outside of the home.
	if at := filepath.Join(o.Home, home.ConfigFile); slices.Contains(r.Made, at) {
		if err := checkBelow(o.Home, &paths); err != nil {
			return nil, errors.Join(err, os.Remove(at))
		}
	}
	if err := write(snapshotHome+"/"+homeGenesis, paths.Genesis); err != nil {
		return nil, err
	}
	if r.find(snapshotHome+"/"+homeRecords) != nil && paths.Records == "" { // named by the genesis
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
	// The home does not load without its keys. In that case, the next start of the node checks the
	// home.
	if hm, err := home.Load(o.Home); err == nil {
		if hm.Config.Numbering == "" {
			hm.Numbering = r.Numbering // numbering of the restored data folder
		}
		id, err := identity(hm, readFingerprints(paths.Data))
		if err != nil {
			return nil, err
		}
		if want := (storage.Identity{ChainID: r.ChainID, Genesis: r.Genesis, Numbering: r.Numbering}); id != want {
			return nil, fmt.Errorf("%s is of chain %q, genesis %v, numbering %q, but the snapshot is of %q, %v, %q: restore "+
				"into another home folder", hm.Paths.Genesis,
				id.ChainID, id.Genesis, id.Numbering, want.ChainID, want.Genesis, want.Numbering)
		}
	}
	return &paths, nil
}

// checkBelow returns an error unless all paths that a restore writes are below dir.
func checkBelow(dir string, p *home.Paths) error {
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
			return fmt.Errorf("the snapshot's %[1]s sets the path %[2]s, which is not inside the home folder %[3]s; "+
				"before you restore, put a %[1]s with paths for this machine into %[3]s",
				home.ConfigFile, path, dir)
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

// copyFile copies a file of the snapshot and compares size and hash of the copy with the snapshot's
// list.
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
		return brokenSnapshot("%s has another size or hash than listed", f.Name)
	}
	return nil
}

// copyData copies the store. It copies the FORMAT file last, because the store does not open
// without that file.
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
			if err := restoring(f.Name); err != nil {
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

// checkOpens opens a copy and compares its head with the snapshot's.
func checkOpens(dir string, s *Snapshot) error {
	store, err := storage.Open(dir,
		storage.Options{Identity: storage.Identity{ChainID: s.ChainID, Genesis: s.Genesis, Numbering: s.Numbering}})
	if err != nil {
		return brokenSnapshot("%w", err)
	}
	tip := store.Tip()
	if err := store.Close(); err != nil {
		return err
	}
	if tip.Empty || blockName(tip.Head) != s.Head || blockName(tip.Final) != s.Final {
		return brokenSnapshot("its head is block %v, listed is %v", tip.Head, s.Head)
	}
	return nil
}

// mergeSigned merges signing journals into dir, so that no signature of a validator is forgotten.
// It merges the journals of the replaced folder, of folders that earlier restores and synced states
// have moved away, and of the snapshot. A key that only the snapshot's journal has is new to the
// result: it may have signed on another machine after the snapshot. to is the folder whose name dir
// will get. from lists the folders that had a journal.
func mergeSigned(data, to, dir, snapshot string) (from []string, err error) {
	its, err := validator.ReadRow(filepath.Join(dir, signedFile))
	if err != nil {
		return nil, err
	}
	places, err := replacedDirs(to)
	if err != nil {
		return nil, err
	}
	all, err := consensus.WithoutKeys(its)
	if err != nil {
		return nil, fmt.Errorf("%s.*: %w", filepath.Join(dir, signedFile), err)
	}
	// The last folder exists if a start that installed a synced state was killed.
	for _, place := range append([]string{data}, append(places, to+replacedEnd)...) {
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

// replacedDirs returns the data folders that restores have moved away. After a restore that was
// killed, the data folder itself may be missing.
func replacedDirs(data string) (dirs []string, err error) {
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
