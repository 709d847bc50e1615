package daemon

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// A snapshot is a folder with all that a node needs of a chain, as of one block: the store, what
// its validator has signed, and the files of the home but the keys. It is made by the process that
// has the data folder open, while that goes on; a file with the sums of all others comes last, and
// the folder gets its name when all is on disk.

// Snapshot is what snapshot.json says.
type Snapshot struct {
	Format    int                  `json:"format"`
	ChainID   string               `json:"chain_id"`
	Genesis   primitives.Hash      `json:"genesis"` // what the store knows the genesis files by
	Numbering primitives.Numbering `json:"numbering"`
	Head      BlockName            `json:"head"`
	Final     BlockName            `json:"final"`
	Folded    BlockName            `json:"folded"` // whose state lies in the index
	Tail      primitives.Height    `json:"tail"`
	Time      string               `json:"time"`
	Build     string               `json:"build"`
	Files     []SnapshotFile       `json:"files"`
}

// BlockName is a block's.
type BlockName struct {
	Height primitives.Height `json:"height"`
	Hash   primitives.Hash   `json:"hash"`
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name   string `json:"name"` // below the snapshot's folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	snapshotFile   = "snapshot.json"
	snapshotFormat = 1
	snapshotData   = "data"
	snapshotHome   = "home"
	homeGenesis    = "genesis.json"
	homeRecords    = "records.json"
	homeEpochs     = "epoch_configs"
	unfinishedEnd  = ".unfinished-snapshot"
)

func blockName(r storage.BlockRef) BlockName { return BlockName{r.Height, r.Hash} }

// Bytes is what all files have together.
func (s *Snapshot) Bytes() (n int64) {
	for i := range s.Files {
		n += s.Files[i].Size
	}
	return n
}

// BackupRequest is what the socket of a node that runs is asked for a snapshot.
type BackupRequest struct {
	Dir  string `json:"dir"`            // absolute, and not there yet
	Copy bool   `json:"copy,omitempty"` // whole segments too; else they may be second names of the node's own files
}

// errSnapshots is said to whoever wants a second snapshot while one is being made.
var errSnapshots = errors.New("another snapshot of this node is being made")

// Backup makes a snapshot of the node while it runs.
func (h *Daemon) Backup(ctx context.Context, r *BackupRequest, progress func(done, all int64)) (*Snapshot, error) {
	if !h.backing.CompareAndSwap(false, true) {
		return nil, errSnapshots
	}
	defer h.backing.Store(false)
	return backUp(ctx, h.home, h.store, h.build, r, progress)
}

// backUp makes a snapshot of an open store.
func backUp(ctx context.Context, hm *home.Home, store *storage.Store, build string, r *BackupRequest, progress func(done, all int64)) (_ *Snapshot, err error) {
	dir := filepath.Clean(r.Dir)
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the snapshot's folder is %q, must be absolute", r.Dir)
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s is there already", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(hm.Paths.Dir, fork.PinFile)); err == nil {
		return nil, fmt.Errorf("%s is the home of a fork: what it has of the other chain is in no snapshot; stop the node and copy the whole home", hm.Paths.Dir)
	}
	part := dir + unfinishedEnd
	if err := os.RemoveAll(part); err != nil { // what a kill has left
		return nil, err
	}
	if err := os.MkdirAll(part, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	id := store.Identity()
	if now, err := identity(hm, readFingerprints(hm.Paths.Data)); err != nil {
		return nil, err
	} else if now != id {
		return nil, fmt.Errorf("%s has changed since the node was started; put back what it was", hm.Paths.Genesis)
	}
	tip, err := store.Backup(ctx, filepath.Join(part, snapshotData), storage.BackupOptions{Link: !r.Copy, Progress: progress})
	if err != nil {
		return nil, err
	}
	// behind the store: it says more, never less
	if err := backUpSigned(hm, filepath.Join(part, snapshotData)); err != nil {
		return nil, err
	}
	if err := backUpHome(ctx, hm, filepath.Join(part, snapshotHome)); err != nil {
		return nil, err
	}
	s := &Snapshot{Format: snapshotFormat, ChainID: id.ChainID, Genesis: id.Genesis, Numbering: id.Numbering, Head: blockName(tip.Head), Final: blockName(tip.Final),
		Folded: blockName(tip.FlatHead), Tail: tip.Tail, Time: time.Now().UTC().Format(time.RFC3339), Build: build}
	if s.Files, err = sums(ctx, part); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeSynced(filepath.Join(part, snapshotFile), append(text, '\n'), 0o600); err != nil {
		return nil, err
	}
	if err := syncFolder(part); err != nil {
		return nil, err
	}
	if err := os.Rename(part, dir); err != nil {
		return nil, err
	}
	return s, syncFolder(filepath.Dir(dir))
}

// backUpSigned copies what the validator has signed. The node may be writing one of the two files:
// a copy of which neither is whole is made again.
func backUpSigned(hm *home.Home, to string) error {
	if !hasSigned(hm) {
		return nil
	}
	const tries = 100
	for range tries {
		for _, name := range []string{signedFile + ".0", signedFile + ".1"} {
			if err := copyFile(filepath.Join(hm.Paths.Data, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if seq, err := validator.Signed(filepath.Join(to, signedFile)); err != nil {
			return err
		} else if seq > 0 {
			return nil
		}
		if seq, err := validator.Signed(filepath.Join(hm.Paths.Data, signedFile)); err == nil && seq == 0 {
			return nil // nothing was signed yet
		}
	}
	return fmt.Errorf("%s.*: neither file could be copied whole", filepath.Join(hm.Paths.Data, signedFile))
}

// backUpHome copies the files that a home needs, but the keys.
func backUpHome(ctx context.Context, hm *home.Home, to string) error {
	files := map[string]string{home.ConfigFile: hm.Paths.Config, homeGenesis: hm.Paths.Genesis}
	if r := hm.Paths.Records; r != "" && r != hm.Paths.Genesis {
		files[homeRecords] = r
	}
	for name := range hm.EpochConfigFiles {
		files[filepath.Join(homeEpochs, name)] = filepath.Join(hm.Paths.EpochConfigs, name)
	}
	for name, from := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return err
		}
		err := copyLarge(ctx, from, filepath.Join(to, name), nil, nil)
		// a node may be started without the file
		if err != nil && (name != home.ConfigFile || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return syncFolder(to)
}

// sums reads all files of a folder.
func sums(ctx context.Context, dir string) (out []SnapshotFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || notData(name) {
			return err
		}
		f, err := os.Open(filepath.Clean(path))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h := sha256.New()
		n, err := io.Copy(h, ctxReader{ctx, f})
		out = append(out, SnapshotFile{filepath.ToSlash(name), n, hex.EncodeToString(h.Sum(nil))})
		return err
	})
	slices.SortFunc(out, func(a, b SnapshotFile) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// notData tells whether a file of the index is goleveldb's diary or lock, which say nothing.
func notData(name string) bool {
	switch filepath.Base(name) {
	case "LOG", "LOG.old", "LOCK":
		return true
	}
	return false
}

// ctxReader ends with its context.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// copyLarge copies a file to the disk, and shows hash and seen what it reads, where they are not
// nil.
func copyLarge(ctx context.Context, from, to string, hash io.Writer, seen func(n int64)) (err error) {
	in, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Clean(to), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	piece := make([]byte, 1<<20)
	for r := (ctxReader{ctx, in}); ; {
		n, rerr := r.Read(piece)
		if _, err := out.Write(piece[:n]); err != nil {
			return err
		}
		if hash != nil {
			_, _ = hash.Write(piece[:n])
		}
		if seen != nil {
			seen(int64(n))
		}
		if rerr == io.EOF {
			return out.Sync()
		}
		if rerr != nil {
			return rerr
		}
	}
}

func writeSynced(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncFolder(dir string) error {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// backupSays is a line of what the socket answers: how far it is, and at the end what was made, or
// why not.
type backupSays struct {
	Done  int64     `json:"done,omitempty"`
	All   int64     `json:"all,omitempty"`
	Made  *Snapshot `json:"made,omitempty"`
	Error string    `json:"error,omitempty"`
}

// sayEvery is the time between two lines about progress. They also show that who asked is still
// there.
const sayEvery = 200 * time.Millisecond

// serveBackup makes a snapshot for whoever asked for it at the socket; it is given up when they go.
func (c *control) serveBackup(conn net.Conn, r *BackupRequest) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	_ = conn.SetReadDeadline(time.Time{})
	go func() { // nothing more is asked: what ends it is that the other side closes
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	say := func(s backupSays) {
		if line, err := json.Marshal(s); err == nil {
			_, _ = patient{conn}.Write(append(line, '\n'))
		}
	}
	last := time.Now()
	made, err := c.h.Backup(ctx, r, func(done, all int64) {
		if now := time.Now(); now.Sub(last) >= sayEvery {
			last = now
			say(backupSays{Done: done, All: all})
		}
	})
	if err != nil {
		c.h.log.WithError(err).Warn("no snapshot was made")
		say(backupSays{Error: err.Error()})
		return
	}
	c.h.log.Infof("a snapshot of block %d is in %s", made.Head.Height, r.Dir)
	say(backupSays{Made: made})
}

// CreateSnapshot makes a snapshot of the chain of a home: by the node that runs on it, else of its
// folder. running says which.
func CreateSnapshot(ctx context.Context, hm *home.Home, build string, r *BackupRequest, progress func(done, all int64)) (s *Snapshot, running bool, err error) {
	conn, dialed := dialControl(hm.Paths.Data, struct {
		Backup *BackupRequest `json:"backup"`
	}{r})
	if dialed == nil {
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		defer func() { _ = conn.Close() }()
		s, err := awaitSnapshot(conn, progress)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return s, true, err
	}
	if !storage.Exists(hm.Paths.Data) {
		return nil, false, fmt.Errorf("%s: no node has run here yet, so there is nothing but %s", hm.Paths.Data, hm.Paths.Genesis)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	store, err := openStore(hm, log, false)
	if err != nil {
		if isLocked(err) {
			err = fmt.Errorf("%w, and does not answer there: %w", err, dialed)
		}
		return nil, false, err
	}
	s, err = backUp(ctx, hm, store, build, r, progress)
	return s, false, errors.Join(err, store.Close())
}

func awaitSnapshot(conn net.Conn, progress func(done, all int64)) (*Snapshot, error) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the node has stopped in the middle, and no snapshot was made: %w", err)
		}
		var says backupSays
		switch err := json.Unmarshal(line, &says); {
		case err != nil:
			return nil, err
		case says.Error != "":
			return nil, errors.New(says.Error)
		case says.Made != nil:
			return says.Made, nil
		case progress != nil:
			progress(says.Done, says.All)
		}
	}
}
