package node

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// Halted describes why a node no longer accepts blocks. The node still serves reads up to its head.
type Halted struct {
	Since  time.Time
	Actor  string // actor that failed or found the failure; empty: no actor
	Reason string
	// Height, Block and Shard identify the block that could not be applied. Zero: no block caused
	// the failure.
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	// Full means that a full disk is the reason. If Full is set and Actor is empty, the halt ends
	// by itself once there is disk space.
	Full bool
	// patched means that the chain has one validator, whose outcome differs from this node's. Most
	// likely the validator has patched the state.
	patched bool
	// File is the path of the file with the chunk that could not be applied, for troupe verify. The
	// node sets it some time after the halt. File is empty if the node wrote no file.
	File string
}

// HaltedError is the error of requests that need new blocks, while the node is halted.
type HaltedError struct {
	Halted
	view *view.Halted
}

// Error returns the text for clients.
func (e *HaltedError) Error() string {
	if e.Full && e.Actor == "" {
		return fmt.Sprintf(
			"the disk is full: the node takes no blocks and no transactions until there is room, then it goes on by itself: %s",
			e.Reason,
		)
	}
	if e.Height == 0 {
		return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: %s failed: %s", e.Actor, e.Reason)
	}
	return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: shard %d of block %d could not "+
		"be applied: %s", e.Shard, e.Height, e.Reason)
}

// Halted returns whether the node takes no more blocks, and why.
func (n *Node) Halted() (Halted, bool) {
	if h := n.halted.Load(); h != nil {
		return h.Halted, true
	}
	return Halted{}, false
}

// Full returns whether the disk is full, so that nothing is written, and the details.
func (n *Node) Full() (Halted, bool) {
	if h := n.full.Load(); h != nil {
		return h.Halted, true
	}
	return Halted{}, false
}

// HaltedView returns the state of Halted or Full for the RPC's status, or nil if the node takes
// blocks. HaltedView returns the same pointer until the state changes.
func (n *Node) HaltedView() *view.Halted {
	if h := n.haltReason(); h != nil {
		return h.view
	}
	return nil
}

// haltReason returns the error of a halt or of a full disk, or nil if the node takes blocks.
func (n *Node) haltReason() *HaltedError {
	if h := n.halted.Load(); h != nil {
		return h
	}
	return n.full.Load()
}

// The store calls diskRoom with the details when the disk is full, and with nil when there is space
// again. While the disk is full, writes wait, and requests that depend on these writes fail.
func (n *Node) diskRoom(f *storage.Full) {
	n.haltMu.Lock()
	defer n.haltMu.Unlock()
	if f == nil {
		if n.full.Swap(nil) != nil && n.halted.Load() == nil {
			n.haltedNow = make(chan struct{})
		}
	} else if n.full.Load() == nil {
		h := haltedError(Halted{Since: f.Since, Reason: f.Err.Error(), Full: true})
		n.wasFull.Store(h)
		if n.full.Store(h); n.halted.Load() == nil {
			close(n.haltedNow)
		}
	}
	// Reopen the store, because the failed actor's state is lost.
	if h := n.halted.Load(); f == nil && h != nil && h.Full {
		f = &storage.Full{Since: h.Since, Err: h, Reopen: true}
	}
	if n.o.Room != nil {
		n.o.Room(f)
	}
}

// haltedCh returns a channel that is closed when the node halts or the disk is full.
func (n *Node) haltedCh() <-chan struct{} {
	n.haltMu.Lock()
	defer n.haltMu.Unlock()
	return n.haltedNow
}

// haltedErr returns why the channel of haltedCh was closed. haltedErr returns that reason even if
// the disk has space again.
func (n *Node) haltedErr() error {
	if err := n.refuseRequests(); err != nil {
		return err
	}
	return n.wasFull.Load()
}

// EndWaits makes writes fail that wait for disk space. The caller must call it before Stop.
func (n *Node) EndWaits() {
	n.stopping.Store(true)
	n.engine.Store().DiskSpace().CancelWaits()
}

// haltedError returns the error of a halt.
func haltedError(h Halted) *HaltedError {
	e := &HaltedError{Halted: h}
	e.view = &view.Halted{Since: uint64(h.Since.UnixNano()), Reason: e.Error(), Height: h.Height, File: h.File}
	return e
}

// refuseRequests returns why the node accepts no new requests, or nil if the node accepts them.
func (n *Node) refuseRequests() error {
	select {
	case <-n.ended:
		return ErrStopped
	default:
	}
	if h := n.haltReason(); h != nil {
		return h
	}
	return nil
}

// refuseBlocks returns why the node accepts no blocks, or nil if the node accepts blocks. On a full
// disk, the node accepts blocks, and they wait for disk space.
func (n *Node) refuseBlocks() error {
	if err := n.refuseRequests(); err != nil && (n.halted.Load() != nil || errors.Is(err, ErrStopped)) {
		return err
	}
	return nil
}

// halt ends all work on blocks, and wakes requests that wait for blocks. halt returns false if the
// node was already halted.
func (n *Node) halt(h Halted) (first bool) {
	h.Since = time.Now()
	n.haltMu.Lock()
	if !n.halted.CompareAndSwap(nil, haltedError(h)) {
		n.haltMu.Unlock()
		return false
	}
	if n.full.Load() == nil {
		close(n.haltedNow)
	}
	n.haltMu.Unlock()
	close(n.haltedForGood)
	m := messages.ChainHalted{Err: n.halted.Load()}
	n.tell(n.producer, m)
	n.tell(n.chain, m)
	return true
}

// chainHalted handles a ChainHalted of the chain actor. chainHalted halts the node or, if the disk
// failed, ends the process.
func (n *Node) chainHalted(m messages.ChainHalted) {
	h := Halted{Actor: "chain", Reason: m.Err.Error(), Height: m.Height, Block: m.Block}
	var f *engine.ApplyFailure
	if errors.As(m.Err, &f) {
		h.Shard, h.Reason, h.patched = f.Shard, f.Err.Error(), errors.As(m.Err, new(*engine.OutcomeMismatch)) &&
			n.hasOneValidator()
	} else if n.haltIfFull("chain", m.Err) {
		m.Drop()
		return
	} else if isDiskFailure(m.Err) {
		n.o.Exit("chain", m.Err, nil)
		return
	}
	if !n.halt(h) {
		m.Drop()
		return
	}
	n.goBackground("keeping the chunk", func() { // in the background, because this takes as long as applying the chunk
		defer m.Drop()
		defer n.logHalted()
		if f == nil || !f.HasInput() || n.o.Failed == "" {
			return
		}
		path, err := writeBadChunk(f, n.o.FailedBuild, n.o.Failed)
		if err != nil {
			n.o.Log.WithError(err).Error("the file with the input of the chunk that failed could not be written")
			return
		}
		h := n.halted.Load().Halted
		h.File = path
		n.halted.Store(haltedError(h))
	})
}

// hasOneValidator returns whether the epoch of the next block has one validator.
func (n *Node) hasOneValidator() (one bool) {
	err := n.engine.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(n.engine.Head().Hash)
		if err != nil {
			return err
		}
		info, err := m.EpochInfo(id)
		one = err == nil && len(info.Validators) == 1
		return err
	})
	return err == nil && one
}

// writeBadChunk writes a chunk that could not be applied to a file in dir. The result is the path
// of that file.
func writeBadChunk(f *engine.ApplyFailure, build, dir string) (path string, err error) {
	err = engine.Catch(func() error {
		file, err := badchunk.Capture(f)
		if err != nil {
			return err
		}
		file.Time, file.Build = time.Now().UTC(), build
		path, err = badchunk.Write(dir, file)
		return err
	})
	return path, err
}

// logHalted logs why the node has halted, and what to do.
func (n *Node) logHalted() {
	h := n.halted.Load()
	e := n.o.Log.WithField("actor", h.Actor)
	if h.Height != 0 {
		e = e.WithField("height", h.Height).WithField("block", h.Block).WithField("shard", h.Shard)
	}
	next := "Reads go on. Restart the node to try again; if it halts again, use a program that fixes the failure"
	if h.patched {
		next = fmt.Sprintf("Reads go on. The chain has one validator, so block %d is most likely one that carries a patch of the state "+
			"(sandbox_patch_state and its like), which no other node can execute; that validator's node names the last such block when it starts. "+
			"Start after it from a copy of that node: `troupe snapshot create` there, `troupe snapshot restore` here. "+
			"If no patch was made, restart this node with a newer program", h.Height)
	}
	if h.File != "" {
		next += fmt.Sprintf("; `troupe verify %s` runs what failed without the node", h.File)
	}
	e.Errorf("%v. %s.", h, next)
}

// failed handles the failure of an actor that the chain needs. failed halts the node. If the disk
// failed, it ends the process instead.
func (n *Node) failed(who string, reason any, stack []byte) {
	if err, ok := reason.(error); ok && n.haltIfFull(who, err) {
		return
	} else if ok && isDiskFailure(err) {
		n.o.Exit(who, reason, stack)
		return
	}
	n.o.Log.WithField("actor", who).Errorf("actor failed: %v\n%s", reason, stack)
	if n.halt(Halted{Actor: who, Reason: fmt.Sprint(reason)}) {
		n.logHalted()
	}
}

// haltIfFull returns whether err means that an actor failed because the disk is full. In that case
// haltIfFull halts the node, because the actor's state is lost. The caller of Start restarts the
// node once there is disk space. While the node stops, nothing is logged.
func (n *Node) haltIfFull(who string, err error) bool {
	if !errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrFailed) {
		return false
	}
	if n.halt(Halted{Actor: who, Reason: err.Error(), Full: true}) && !n.stopping.Load() {
		n.o.Log.WithField("actor", who).Errorf("%v. The node still answers reads.", n.halted.Load())
	}
	return true
}

// isDiskFailure returns whether an error comes from the disk. After such an error reads fail too.
// Only a restart determines what is on disk.
func isDiskFailure(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, storage.ErrFailed) || errors.As(err, &errno)
}

// goBackground runs f on a new goroutine that Stop waits for. A panic in f is logged; what names f
// in the log.
func (n *Node) goBackground(what string, f func()) {
	n.background.Go(func() {
		err := engine.Catch(func() error { f(); return nil })
		var p *engine.Panic
		if errors.As(err, &p) {
			n.o.Log.Errorf("%s failed: %v\n%s", what, p.Reason, p.Stack)
		}
	})
}
