package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrStateSynced is delivered by Failed when the state of a later block was synced from peers. The
// node must be restarted to continue from that block.
var ErrStateSynced = errors.New("the state of a later block was synced: the node restarts with it")

// completeFile marks the result of a state sync as complete. State sync writes into a folder next
// to the data folder. The next start moves that folder into the place of the data folder, and
// removes the old data folder once the new one is open. So at any time one of the two is complete.
const completeFile = "ARRIVED"

// dataDir returns the data folder with symbolic links resolved. So a state sync replaces the folder
// and not the link. If the process was killed between two renames, the target of the link may be
// missing.
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

// maxLinks is the maximum number of symbolic links that dataDir follows, as in the system.
const maxLinks = 40

// newChainDir returns the folder in which the next chain will be: the present one, or the folder
// below it if it is a mount point.
func newChainDir(hm *home.Home) string {
	dir := dataDir(hm)
	if home.IsMounted(dir) {
		return filepath.Join(dir, home.BelowMount)
	}
	return dir
}

func incomingDir(hm *home.Home) string { return newChainDir(hm) + ".coming" }

// replacedDir returns the path of the replaced chain, which exists until the node has removed that
// chain. Users are unlikely to choose this name for a folder of their own.
func replacedDir(hm *home.Home) string { return newChainDir(hm) + replacedEnd }

const replacedEnd = ".before-arrival"

// installIncoming replaces the data folder by a completely synced one, if there is one. The signing
// journal and the known peers are carried over.
//
// The disk is often full at this moment, because it holds two chains. That does not stop the
// replacement: see carryOver. An error of a full disk says what to do, and the next start continues.
func installIncoming(hm *home.Home, log *logrus.Logger) (err error) {
	data, dir, old, to := dataDir(hm), incomingDir(hm), replacedDir(hm), newChainDir(hm)
	if _, err := os.Stat(filepath.Join(dir, completeFile)); err != nil { // there is no state sync, or it is incomplete
		return nil
	}
	defer func() {
		if storage.IsFull(err) {
			err = fmt.Errorf("%w; free a few megabytes on the disk of %s and start the node again, which then continues", err, to)
		}
	}()
	if storage.Exists(data) {
		// The old chain is moved only to a free name. Otherwise it could not get its final name. A
		// chain with that name was replaced by an earlier state sync; its removal also makes room.
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("the synced state in %s cannot replace %s: %w", dir, data, err)
		}
		if err := carryOver(hm, dir, log); err != nil {
			return err
		}
		if err := moving("carried over"); err != nil {
			return err
		}
		if err := moveChain(data, old); err != nil {
			return fmt.Errorf("the synced state in %s cannot replace %s: %w", dir, data, err)
		}
	}
	if err := moving("replaced"); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	if err := moving("installed"); err != nil {
		return err
	}
	// The old folder has the only other copy of the journal. So sync before the old folder is
	// removed.
	if err := syncNames(filepath.Dir(to)); err != nil {
		return err
	}
	if to != data {
		hm.FindChain()
	}
	log.Infof("installed the synced state; the old chain is removed once it is open")
	return os.Remove(filepath.Join(to, completeFile))
}

// removeReplaced removes the replaced chain, once the new one is open.
func removeReplaced(hm *home.Home, log *logrus.Logger) {
	if err := os.RemoveAll(replacedDir(hm)); err != nil {
		log.WithError(err).Warn("the replaced chain could not be removed")
	}
}

// withReplaced adds the path of the replaced chain to an error, if there is one.
func withReplaced(hm *home.Home, err error) error {
	if err == nil || !storage.Exists(replacedDir(hm)) {
		return err
	}
	if storage.IsFull(err) {
		return fmt.Errorf("%w; the previous chain is in %s: remove that folder to make room, and start the node again", err, replacedDir(hm))
	}
	return fmt.Errorf("%w; the previous chain is in %s", err, replacedDir(hm))
}

// kept lists the rows of the store that belong to the node and not to its chain.
var kept = []string{knownPeers}

// carryOver copies the kept rows and the signing journal into the incoming folder.
//
// On a full disk it opens both chains only for reading, keeps no rows, and links the files of the
// journal instead of copying them. So it needs no room but for names. Start then
// opens the new chain for reading only and removes the old one, which makes room, and the node
// restarts to write.
// Rejected: removing the old chain earlier, because it is kept until the new one is open.
func carryOver(hm *home.Home, dir string, log *logrus.Logger) error {
	batch, err := keptRows(hm, log)
	if err != nil {
		return err
	}
	store, err := openIncoming(hm, dir, log, true)
	if err != nil {
		return err
	}
	store.DiskSpace().CancelWaits()
	if store.Tip().Empty { // an empty store must not replace a chain
		return errors.Join(fmt.Errorf("%s is marked as complete, but is empty; remove it to continue with %s", dir, hm.Paths.Data), store.Close())
	}
	if now, full := store.DiskSpace().Full(); full {
		err = now.Err
	} else {
		err = store.Write(batch)
	}
	switch err = errors.Join(err, store.Close()); {
	case storage.IsFull(err):
		logUnkept(log, err)
	case err != nil:
		return err
	}
	for _, name := range []string{signedFile + ".0", signedFile + ".1"} {
		from, to := filepath.Join(hm.Paths.Data, name), filepath.Join(dir, name)
		err := copyFile(from, to)
		if storage.IsFull(err) {
			err = linkFile(from, to)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the signing journal cannot be carried over: %w", err)
		}
	}
	return syncNames(dir)
}

// keptRows returns the kept rows of the old chain. There are none if the disk has no room even to
// open the chain for reading, or if the chain is damaged.
func keptRows(hm *home.Home, log *logrus.Logger) (*storage.Batch, error) {
	var batch storage.Batch
	old, err := openStore(hm, log, true)
	if storage.IsFull(err) || errors.Is(err, storage.ErrDamaged) {
		logUnkept(log, err)
		return &batch, nil
	}
	if err != nil {
		return nil, err
	}
	old.DiskSpace().CancelWaits()
	for _, name := range kept {
		if raw, err := storage.Misc.Get(old.Reader(), name); err == nil {
			storage.Misc.Put(&batch, name, &raw)
		} else if !errors.Is(err, storage.ErrNotFound) {
			return nil, errors.Join(err, old.Close())
		}
	}
	if err := old.Close(); err != nil && !storage.IsFull(err) {
		return nil, err
	}
	return &batch, nil
}

func logUnkept(log *logrus.Logger, err error) {
	log.WithError(err).Warn("the known peers are not carried over to the synced state: the node begins with its boot nodes")
}

// linkFile gives a file a second name, which needs no room for its content.
func linkFile(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Link(from, to)
}

// copyFile copies a small file and syncs it.
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

// openIncoming opens the incoming folder as a store of the same chain. If reads is set and the disk
// is full, openIncoming opens the folder read-only.
func openIncoming(hm *home.Home, dir string, log *logrus.Logger, reads bool) (*storage.Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sums := readFingerprints(hm.Paths.Data)
	id, err := identity(hm, sums)
	if err != nil {
		return nil, err
	}
	o := storage.Options{ReadOnlyIfFull: reads, Identity: id, Converting: logConversion(log)}
	setCaches(&o, hm.Config)
	s, err := storage.Open(dir, o)
	if err != nil {
		return nil, err
	}
	if err := sums.save(dir); err != nil {
		log.WithError(err).Debug("the hashes of genesis files were not cached (genesis.sums)")
	}
	return s, nil
}

// bootstrapFolder is the folder in which state sync builds the store of the new chain.
type bootstrapFolder struct {
	h     *Daemon
	mu    sync.Mutex
	store *storage.Store // store of the running state sync; nil: none is open
	sync  *engine.BootstrapSync

	space atomic.Pointer[storage.DiskSpace] // of store
	full  atomic.Bool                       // the last Begin failed because the disk is full
}

// isFull returns whether the disk has no room for the state that is being synced. A nil receiver is
// allowed. It never waits.
func (a *bootstrapFolder) isFull() bool {
	if a == nil {
		return false
	}
	if s := a.space.Load(); s != nil {
		if _, is := s.Full(); is {
			return true
		}
	}
	return a.full.Load()
}

// Begin opens the incoming folder and starts or resumes state sync. If the contents of the folder do not
// fit, Begin tries once more with an empty folder. After any other error, such as a full disk or a failed
// read, the folder stays: it may have the download of many hours.
func (a *bootstrapFolder) Begin(b *engine.BootstrapInput) (*engine.BootstrapSync, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for again := false; ; again = true {
		came, err := a.begin(b)
		a.sync = came
		a.full.Store(storage.IsFull(err))
		if err == nil || again || !isUnfit(err) {
			return came, err
		}
		a.h.log.WithError(err).Warn("an unfinished state sync cannot be resumed: its data is removed")
		a.end()
		if err := os.RemoveAll(incomingDir(a.h.home)); err != nil {
			return nil, err
		}
	}
}

// isUnfit returns whether an error of begin means that the incoming folder is damaged, or of another
// format, chain, block or set of shards.
func isUnfit(err error) bool {
	if storage.IsFull(err) {
		return false
	}
	for _, e := range []error{storage.ErrDamaged, storage.ErrFormat, storage.ErrForeign, storage.ErrOrder,
		storage.ErrNotFound, storage.ErrGone} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (a *bootstrapFolder) begin(b *engine.BootstrapInput) (came *engine.BootstrapSync, err error) {
	a.end()
	dir := incomingDir(a.h.home)
	if a.store, err = openIncoming(a.h.home, dir, a.h.log, false); err != nil {
		return nil, err
	}
	a.space.Store(a.store.DiskSpace())
	h := a.h
	return engine.BeginBootstrap(engine.Options{Chain: h.Engine.Chain(), Store: a.store, VM: h.vm, Signature: h.checker.Check,
		Verify: h.signed.Verify, Snapshots: true, StateBytes: stateMemory(h.home.Config.StateMemory)}, b)
}

// end closes the incoming folder.
func (a *bootstrapFolder) end() {
	if a.store != nil {
		a.space.Store(nil)
		_ = a.store.Close() // parts that are not on disk are downloaded again
		a.store = nil
	}
}

// Ready marks the incoming folder as complete and requests a restart.
func (a *bootstrapFolder) Ready(came *engine.BootstrapSync) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Begin has been called for a different sync block since
	if came != a.sync || a.store == nil || a.store.Tip().Empty {
		return errors.New("the state sync that ended is not the current one, or stored no block")
	}
	a.space.Store(nil)
	err := a.store.Close()
	a.store = nil
	if err != nil {
		return err
	}
	if err := markComplete(incomingDir(a.h.home)); err != nil {
		return err
	}
	select {
	case a.h.failed <- ErrStateSynced:
	default: // the node is already stopping
	}
	return nil
}

// markComplete marks a folder as complete.
func markComplete(dir string) error {
	f, err := os.Create(filepath.Join(dir, completeFile))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// stop closes the incoming folder when the node stops. A nil receiver is allowed.
func (a *bootstrapFolder) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// limitSync sets the options that say when the node uses state sync. A horizon of 0 means that it
// never does. An archival node uses it only below a height, so that state sync never replaces its
// blocks. A node that needs every block requests old ones from archival peers, as nearcore's archival
// nodes do. Other nodes never need such blocks, and a peer that claims to be an archive and a false
// height must not attract their requests. Error: the error of needsStateSync.
func (h *Daemon) limitSync(hm *home.Home, o *blocksync.Options) error {
	if h.fork != nil {
		return nil
	}
	why := h.stateSyncObstacle(hm)
	if err := h.needsStateSync(why); err != nil {
		return err
	}
	if why != "" || hm.Config.Archive {
		o.Kept = primitives.Height(hm.Config.GCEpochsToKeep * hm.Genesis.EpochLength)
	}
	if why != "" {
		if !hm.Config.Archive && hm.Config.Network.HorizonEpochs > 0 {
			h.log.Warnf("this node does not use state sync but downloads every block: %s", why)
		}
		return nil
	}
	o.Horizon = primitives.Height(hm.Config.Network.HorizonEpochs * hm.Genesis.EpochLength)
	if hm.Config.Archive {
		o.ProofBelow = h.Engine.Chain().Height + 1
	}
	return nil
}

// needsStateSync returns an error if the chain can begin only by state sync, which the node does
// not use for the reason why. An empty why means that the node uses state sync.
func (h *Daemon) needsStateSync(why string) error {
	if why == "" || !h.Engine.GenesisOnly() {
		return nil
	}
	return fmt.Errorf("a node of %s begins by state sync, and this node does not use it: %s", h.home.Genesis.ChainID, why)
}

// stateSyncObstacle returns why a node does not use state sync. The result is empty if the node
// uses state sync.
//
// nearcore's archival nodes never use it: they begin with a copy of another archive's database. Here
// an archival node may begin by state sync, and does so by itself only where no other beginning is
// possible. So the archive of a chain that this program can execute from its genesis is complete.
func (h *Daemon) stateSyncObstacle(hm *home.Home) string {
	if hm.Config.Network.HorizonEpochs == 0 {
		return "epoch_sync.epoch_sync_horizon_num_epochs is 0"
	}
	start := hm.Config.ArchiveStart
	if start == "" && h.Engine.GenesisOnly() {
		start = config.StartStateSync
	}
	if hm.Config.Archive && start != config.StartStateSync {
		return "an archival node (archive) begins at the genesis, unless troupe.archive_start is state_sync"
	}
	return ""
}

// newBootstrap prepares state sync. newBootstrap removes the files of an earlier state sync that
// are no longer needed.
func (h *Daemon) newBootstrap() *bootstrapFolder {
	if apart, err := h.Engine.HeaderChain().IsApart(); err == nil && !apart {
		if err := os.RemoveAll(incomingDir(h.home)); err != nil {
			h.log.WithError(err).Warn("the remains of an earlier state sync could not be removed")
		}
	}
	return &bootstrapFolder{h: h}
}
