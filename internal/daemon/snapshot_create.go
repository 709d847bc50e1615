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

// A snapshot is a folder with all files that a node needs of a chain as of one block: the store,
// the signing journal, and the files of the home except the keys. The process that has the data
// folder open creates the snapshot while the node runs. The last file that this process writes
// contains the checksums of all other files. The folder gets its final name once everything is
// synced to disk.

// Snapshot is the content of snapshot.json.
type Snapshot struct {
	Format    int                  `json:"format"`
	ChainID   string               `json:"chain_id"`
	Genesis   primitives.Hash      `json:"genesis"` // the store's hash of the genesis files
	Numbering primitives.Numbering `json:"numbering"`
	Head      BlockName            `json:"head"`
	Final     BlockName            `json:"final"`
	FlatHead  BlockName            `json:"folded"` // the flat head, whose state is in the index
	Tail      primitives.Height    `json:"tail"`
	Time      string               `json:"time"`
	Build     string               `json:"build"`
	Files     []SnapshotFile       `json:"files"`
}

// BlockName is the height and hash of a block.
type BlockName struct {
	Height primitives.Height `json:"height"`
	Hash   primitives.Hash   `json:"hash"`
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name   string `json:"name"` // slash-separated path relative to the snapshot's folder
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

// Bytes returns the total size of all files.
func (s *Snapshot) Bytes() (n int64) {
	for i := range s.Files {
		n += s.Files[i].Size
	}
	return n
}

// BackupRequest is the request for a snapshot at the control socket.
type BackupRequest struct {
	Dir  string `json:"dir"`            // absolute path of the snapshot's folder, which must not exist
	Copy bool   `json:"copy,omitempty"` // copy complete segments of the store instead of hard-linking them
}

// errSnapshots is returned while another snapshot is being created.
var errSnapshots = errors.New("another snapshot of this node is being created; retry when it is done")

// Backup creates a snapshot of the running node.
func (h *Daemon) Backup(ctx context.Context, r *BackupRequest, progress func(done, all int64)) (*Snapshot, error) {
	if !h.backing.CompareAndSwap(false, true) {
		return nil, errSnapshots
	}
	defer h.backing.Store(false)
	return backUp(ctx, h.home, h.store, h.build, r, progress)
}

// backUp creates a snapshot of an open store.
func backUp(ctx context.Context, hm *home.Home, store *storage.Store, build string, r *BackupRequest,
	progress func(done, all int64)) (_ *Snapshot, err error) {
	dir := filepath.Clean(r.Dir)
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the snapshot's folder is %q, must be an absolute path", r.Dir)
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s already exists", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(hm.Paths.Dir, fork.PinFile)); err == nil {
		return nil, fmt.Errorf("%s is the home of a fork, which a snapshot cannot contain; stop the node and copy the "+
			"whole home folder", hm.Paths.Dir)
	}
	part := dir + unfinishedEnd
	if err := os.RemoveAll(part); err != nil { // remove what a killed process left
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
		return nil, fmt.Errorf("%s has changed since the node was started; restore the original file", hm.Paths.Genesis)
	}
	tip, err := store.Backup(ctx, filepath.Join(part, snapshotData), storage.BackupOptions{Link: !r.Copy, Progress: progress})
	if err != nil {
		return nil, err
	}
	// Copy the journal after the store, so that it covers all stored blocks.
	if err := backUpSigned(hm, filepath.Join(part, snapshotData)); err != nil {
		return nil, err
	}
	if err := backUpHome(ctx, hm, filepath.Join(part, snapshotHome)); err != nil {
		return nil, err
	}
	s := &Snapshot{Format: snapshotFormat, ChainID: id.ChainID, Genesis: id.Genesis, Numbering: id.Numbering,
		Head: blockName(tip.Head), Final: blockName(tip.Final),
		FlatHead: blockName(tip.FlatHead), Tail: tip.Tail, Time: time.Now().UTC().Format(time.RFC3339), Build: build}
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

// backUpSigned copies the signing journal. The node may be writing one of the journal's two files.
// If the copy contains no complete file of the two, backUpSigned copies both files again.
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
			return nil // the journal is empty
		}
	}
	return fmt.Errorf("%s.*: neither file of the signing journal could be copied completely; retry",
		filepath.Join(hm.Paths.Data, signedFile))
}

// backUpHome copies the files of the home folder except the keys.
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
		// config.json is optional
		if err != nil && (name != home.ConfigFile || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return syncFolder(to)
}

// sums returns the sizes and hashes of all files of a folder, sorted by name.
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

// notData returns whether a file is goleveldb's log or lock file. These contain no data.
func notData(name string) bool {
	switch filepath.Base(name) {
	case "LOG", "LOG.old", "LOCK":
		return true
	}
	return false
}

// ctxReader is an io.Reader whose Read fails when ctx has ended.
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

// copyLarge copies a file and syncs it. hash receives the data, and seen the lengths of the reads.
// hash and seen may be nil.
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

// backupReply is one line of the reply to a BackupRequest on the control socket. All lines but the
// last report progress. The last line contains the snapshot or an error.
type backupReply struct {
	Done  int64     `json:"done,omitempty"`
	All   int64     `json:"all,omitempty"`
	Made  *Snapshot `json:"made,omitempty"`
	Error string    `json:"error,omitempty"`
}

// progressPeriod is the time between two lines of progress. By writing these lines, the node also
// detects a closed connection.
const progressPeriod = 200 * time.Millisecond

// serveBackup creates a snapshot for a client of the control socket. If the client disconnects,
// serveBackup stops.
func (c *control) serveBackup(conn net.Conn, r *BackupRequest) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	_ = conn.SetReadDeadline(time.Time{})
	go func() { // the client sends nothing more, so Read returns only when the client disconnects
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	say := func(s backupReply) {
		if line, err := json.Marshal(s); err == nil {
			_, _ = deadlineWriter{conn}.Write(append(line, '\n'))
		}
	}
	last := time.Now()
	made, err := c.h.Backup(ctx, r, func(done, all int64) {
		if now := time.Now(); now.Sub(last) >= progressPeriod {
			last = now
			say(backupReply{Done: done, All: all})
		}
	})
	if err != nil {
		c.h.log.WithError(err).Warn("creating a snapshot failed")
		say(backupReply{Error: err.Error()})
		return
	}
	c.h.log.Infof("created a snapshot of block %d in %s", made.Head.Height, r.Dir)
	say(backupReply{Made: made})
}

// CreateSnapshot creates a snapshot of a home's chain. If a node runs on the home, the node creates
// the snapshot, and running is true. Otherwise CreateSnapshot uses the data folder.
func CreateSnapshot(ctx context.Context, hm *home.Home, build string, r *BackupRequest,
	progress func(done, all int64)) (s *Snapshot, running bool, err error) {
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
		return nil, false, fmt.Errorf("%s: no node has run here yet, so there is no chain but %s", hm.Paths.Data, hm.Paths.Genesis)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	store, err := openStore(hm, log, false)
	if err != nil {
		if isLocked(err) {
			err = fmt.Errorf("%w; that node does not answer at its control socket: %w", err, dialed)
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
			return nil, fmt.Errorf("the node stopped before the snapshot was complete: %w", err)
		}
		var says backupReply
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
