package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrArrived says that the state of a later block has come from other nodes: the node is to be stopped and started again, and goes on from there.
var ErrArrived = errors.New("the state of a later block has come: the node begins again with it")

// A state comes into a folder beside the node's. When all is there a file says so; the next start puts that folder in the place of the other. So whatever
// ends at any time, one of both is whole.
const arrivedFile = "ARRIVED"

func comingDir(hm *home.Home) string { return hm.Paths.Data + ".coming" }

// takeArrived puts a chain that has come in the place of the one that was there, if there is one that is whole. What the node has said and whom it knew
// goes over.
func takeArrived(hm *home.Home, log *logrus.Logger) error {
	dir, old := comingDir(hm), hm.Paths.Data+".old"
	if _, err := os.Stat(filepath.Join(dir, arrivedFile)); err != nil { // none, or one that is on its way
		if storage.Exists(hm.Paths.Data) {
			return os.RemoveAll(old)
		}
		return nil
	}
	if storage.Exists(hm.Paths.Data) {
		if err := carryOver(hm, dir, log); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(old), os.Rename(hm.Paths.Data, old)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(hm.Paths.Data), os.Rename(dir, hm.Paths.Data)); err != nil {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(hm.Paths.Data, arrivedFile)), os.RemoveAll(old))
}

// kept are rows of the node's folder that are about the node, and not about its chain.
var kept = []string{knownPeers, largestTarget}

// largestTarget is the height up to which a validator has said something: it never says anything else about one of those.
const largestTarget = "doomslug_largest_target_height"

// carryOver copies them, and the files of what a validator has signed.
func carryOver(hm *home.Home, dir string, log *logrus.Logger) error {
	old, err := openStore(hm, log)
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
	return nil
}

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
	h     *Host
	mu    sync.Mutex
	store *storage.Store // of the one that comes; nil: none is open
}

// Begin opens the folder beside the node's.
func (a *arrivals) Begin(b *engine.Beginning) (*engine.Arrival, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for again := false; ; again = true {
		came, err := a.begin(b)
		if err == nil || again || errors.Is(err, storage.ErrLocked) || errors.As(err, new(chain.Invalid)) { // what came has nothing to do with the folder
			return came, err
		}
		a.h.log.WithError(err).Debug("what had come of a state is given up")
		a.end()
		if err := os.RemoveAll(comingDir(a.h.home)); err != nil {
			return nil, err
		}
	}
}

func (a *arrivals) begin(b *engine.Beginning) (came *engine.Arrival, err error) {
	a.end()
	dir := comingDir(a.h.home)
	if a.store, err = openComing(a.h.home, dir, a.h.log); err != nil {
		return nil, err
	}
	if !a.store.Tip().Empty {
		return nil, fmt.Errorf("%s: it has a chain already", dir)
	}
	return engine.Arrive(engine.Options{Chain: a.h.Engine.Chain(), Store: a.store}, b)
}

// end closes the folder.
func (a *arrivals) end() {
	if a.store != nil {
		_ = a.store.Close() // what is not there comes again
		a.store = nil
	}
}

// Ready says that the next start takes the folder.
func (a *arrivals) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil || a.store.Tip().Empty { // another has begun since
		return errors.New("there is no state that has come")
	}
	err := a.store.Close()
	a.store = nil
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(comingDir(a.h.home), arrivedFile))
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	select {
	case a.h.failed <- ErrArrived:
	default: // it ends anyway
	}
	return nil
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

// horizon is how far a node may be behind before it begins with the state of a later block; 0: it never does: an archive has all blocks, and a
// state comes with all shards.
func (h *Host) horizon(hm *home.Home, track engine.Track) primitives.Height {
	if hm.Config.Archive || track != nil || h.fork != nil {
		return 0
	}
	return primitives.Height(hm.Config.Network.HorizonEpochs * hm.Genesis.EpochLength)
}

// comes has a node begin in the middle of its chain where it is far behind. What came of a state before, and is not needed any more, goes.
func (h *Host) comes() *arrivals {
	if apart, err := h.Engine.HeadersApart(); err == nil && !apart {
		if err := os.RemoveAll(comingDir(h.home)); err != nil {
			h.log.WithError(err).Warn("what has come of a state is in the way")
		}
	}
	return &arrivals{h: h}
}
