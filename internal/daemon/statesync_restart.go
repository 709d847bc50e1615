package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrArrived says that the state of a later block has come from other nodes: the node is to be
// stopped and started again, and goes on from there.
var ErrArrived = errors.New("the state of a later block has come: the node begins again with it")

// A state comes into a folder beside the node's. When all is there a file says so; the next start
// puts that folder in the place of the other, which goes once the new one is open. So whatever ends
// at any time, one of both is whole.
const arrivedFile = "ARRIVED"

// dataDir is the node's folder, also where config names a link to it: the link stays, and may lead
// to nothing behind a kill between two renames.
func dataDir(hm *home.Home) string {
	dir := hm.Paths.Data
	for range maxLinks {
		if to, err := filepath.EvalSymlinks(dir); err == nil {
			return to
		}
		to, err := os.Readlink(dir)
		if err != nil {
			return dir
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(dir), to)
		}
		dir = to
	}
	return hm.Paths.Data
}

// maxLinks is how many links may lead to each other: as the system has it.
const maxLinks = 40

func comingDir(hm *home.Home) string { return dataDir(hm) + ".coming" }

// oldDir has a name that nobody gives by hand: what is there goes.
func oldDir(hm *home.Home) string { return dataDir(hm) + ".before-arrival" }

// takeArrived puts a chain that has come in the place of the one that was there, if there is one
// that is whole. What the node has said and whom it knew goes over.
func takeArrived(hm *home.Home, log *logrus.Logger) error {
	data, dir, old := dataDir(hm), comingDir(hm), oldDir(hm)
	if _, err := os.Stat(filepath.Join(dir, arrivedFile)); err != nil { // none, or one that is on its way
		return nil
	}
	if storage.Exists(data) {
		if err := carryOver(hm, dir, log); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(old), os.Rename(data, old)); err != nil {
			return fmt.Errorf("the state that has come in %s can't take the place of %s: %w; if that is the root of a disk, have the chain in a folder on it", dir, data, err)
		}
	}
	if err := errors.Join(os.RemoveAll(data), os.Rename(dir, data)); err != nil {
		return err
	}
	// before the old one goes, with the only other copy of what was signed
	if err := syncNames(filepath.Dir(data)); err != nil {
		return err
	}
	log.Infof("a state that has come is in the place of the chain that was there, which goes when it is open")
	return os.Remove(filepath.Join(data, arrivedFile))
}

// dropOld removes the chain in whose place another is, now that this is open.
func dropOld(hm *home.Home, log *logrus.Logger) {
	if err := os.RemoveAll(oldDir(hm)); err != nil {
		log.WithError(err).Warn("the chain that was there before is not removed")
	}
}

// withOld says with an error where the chain is that was there before, if there is one.
func withOld(hm *home.Home, err error) error {
	if err == nil || !storage.Exists(oldDir(hm)) {
		return err
	}
	return fmt.Errorf("%w; the chain that was there before is in %s", err, oldDir(hm))
}

// mounts is where the system lists what is mounted; none elsewhere.
const mounts = "/proc/self/mountinfo"

// mounted tells whether a folder is the root of a disk, in whose place no other can be put.
func mounted(dir string) bool {
	list, err := os.ReadFile(mounts)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	return isMount(list, dir)
}

// isMount looks a folder up in the system's list, whose fifth field is where something is mounted,
// with odd characters as \ooo.
func isMount(list []byte, dir string) bool {
	for line := range bytes.Lines(list) {
		fields := bytes.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := fields[4]
		var name []byte
		for i := 0; i < len(at); i++ {
			if at[i] == '\\' && i+3 < len(at) {
				if c, err := strconv.ParseUint(string(at[i+1:i+4]), 8, 8); err == nil {
					name, i = append(name, byte(c)), i+3
					continue
				}
			}
			name = append(name, at[i])
		}
		if string(name) == dir {
			return true
		}
	}
	return false
}

// kept are rows of the node's folder that are about the node, and not about its chain.
var kept = []string{knownPeers, largestTarget}

// largestTarget is the height up to which a validator has said something: it never says anything
// else about one of those.
const largestTarget = "doomslug_largest_target_height"

// carryOver copies them, and the files of what a validator has signed.
func carryOver(hm *home.Home, dir string, log *logrus.Logger) error {
	old, err := openStore(hm, log, false)
	if err != nil {
		return err
	}
	var batch storage.Batch
	for _, name := range kept {
		if raw, err := storage.Misc.Get(old.Reader(), name); err == nil {
			storage.Misc.Put(&batch, name, &raw)
		} else if !errors.Is(err, storage.ErrNotFound) {
			return errors.Join(err, old.Close())
		}
	}
	if err := old.Close(); err != nil {
		return err
	}
	store, err := openComing(hm, dir, log)
	if err != nil {
		return err
	}
	if store.Tip().Empty { // never in the place of a chain
		return errors.Join(fmt.Errorf("%s says that a state has come, and has none; remove it to go on with %s", dir, hm.Paths.Data), store.Close())
	}
	if err := errors.Join(store.Write(&batch), store.Close()); err != nil {
		return err
	}
	for _, name := range []string{signedFile + ".0", signedFile + ".1"} {
		if err := copyFile(filepath.Join(hm.Paths.Data, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncNames(dir)
}

// syncNames is syncFolder; a variable for tests.
var syncNames = syncFolder

// copyFile copies a small file, to the disk.
func copyFile(from, to string) error {
	in, err := os.ReadFile(filepath.Clean(from))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Clean(to), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(in)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// openComing opens a folder beside the node's, of the same chain.
func openComing(hm *home.Home, dir string, log *logrus.Logger) (*storage.Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sums := readFingerprints(hm.Paths.Data)
	id, err := identity(hm, sums)
	if err != nil {
		return nil, err
	}
	s, err := storage.Open(dir, storage.Options{Identity: id, WriteBuffer: int(hm.Config.WriteBuffer), BlockCache: blockCache(hm.Config)})
	if err != nil {
		return nil, err
	}
	if err := sums.save(dir); err != nil {
		log.WithError(err).Debug("fingerprints of the genesis not remembered")
	}
	return s, nil
}

// arrivals is the place for a chain that begins in its middle.
type arrivals struct {
	h     *Daemon
	mu    sync.Mutex
	store *storage.Store // of the one that comes; nil: none is open
	came  *engine.BootstrapSync
}

// Begin opens the folder beside the node's.
func (a *arrivals) Begin(b *engine.BootstrapInput) (*engine.BootstrapSync, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for again := false; ; again = true {
		came, err := a.begin(b)
		a.came = came
		// what came has nothing to do with the folder
		if err == nil || again || errors.Is(err, storage.ErrLocked) || errors.As(err, new(chain.Invalid)) {
			return came, err
		}
		a.h.log.WithError(err).Debug("what had come of a state is given up")
		a.end()
		if err := os.RemoveAll(comingDir(a.h.home)); err != nil {
			return nil, err
		}
	}
}

func (a *arrivals) begin(b *engine.BootstrapInput) (came *engine.BootstrapSync, err error) {
	a.end()
	dir := comingDir(a.h.home)
	if a.store, err = openComing(a.h.home, dir, a.h.log); err != nil {
		return nil, err
	}
	if !a.store.Tip().Empty {
		return nil, fmt.Errorf("%s: it has a chain already", dir)
	}
	return engine.BeginBootstrap(engine.Options{Chain: a.h.Engine.Chain(), Store: a.store}, b)
}

// end closes the folder.
func (a *arrivals) end() {
	if a.store != nil {
		_ = a.store.Close() // what is not there comes again
		a.store = nil
	}
}

// Ready says that the next start takes the folder.
func (a *arrivals) Ready(came *engine.BootstrapSync) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if came != a.came || a.store == nil || a.store.Tip().Empty { // another has begun since
		return errors.New("there is no state that has come")
	}
	err := a.store.Close()
	a.store = nil
	if err != nil {
		return err
	}
	if err := markArrived(comingDir(a.h.home)); err != nil {
		return err
	}
	select {
	case a.h.failed <- ErrArrived:
	default: // it ends anyway
	}
	return nil
}

// markArrived says of a folder that all is there.
func markArrived(dir string) error {
	f, err := os.Create(filepath.Join(dir, arrivedFile))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// stop closes the folder of a node that stops.
func (a *arrivals) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// horizon is how far a node may be behind before it begins with the state of a later block; 0: it
// never does: an archive has all blocks, and a state comes with all shards.
func (h *Daemon) horizon(hm *home.Home, track engine.Track) primitives.Height {
	if hm.Config.Archive || track != nil || h.fork != nil {
		return 0
	}
	if dir := dataDir(hm); mounted(dir) {
		h.log.Warnf("%s is the root of a disk: no state of a later block can take its place, so this node gets each block, also if it is far behind; a folder on it would do", dir)
		return 0
	}
	return primitives.Height(hm.Config.Network.HorizonEpochs * hm.Genesis.EpochLength)
}

// comes has a node begin in the middle of its chain where it is far behind. What came of a state
// before, and is not needed any more, goes.
func (h *Daemon) comes() *arrivals {
	if apart, err := h.Engine.HeadersApart(); err == nil && !apart {
		if err := os.RemoveAll(comingDir(h.home)); err != nil {
			h.log.WithError(err).Warn("what has come of a state is in the way")
		}
	}
	return &arrivals{h: h}
}
