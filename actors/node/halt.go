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

// Halted is why a node takes no more blocks. It still serves reads up to its head.
type Halted struct {
	Since  time.Time
	Actor  string // the actor that noticed; empty: none failed
	Reason string
	// Height, Block and Shard identify the block that could not be applied. Zero: it was no block.
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	// Full: a full disk is the reason. It ends by itself, unless Actor names an actor that has
	// failed on it.
	Full bool
	// patched: the chain has one validator and its outcome differs, so that it may have patched
	// the state.
	patched bool
	// File is the file with the chunk that could not be applied, for troupe verify. It is set some
	// time after the halt. Empty: none.
	File string
}

// HaltedError is the error of requests that need the chain while the node is halted.
type HaltedError struct {
	Halted
	view *view.Halted
}

// Error is the text that clients get.
func (e *HaltedError) Error() string {
	if e.Full && e.Actor == "" {
		return fmt.Sprintf("the disk is full: the node takes no blocks and no transactions until there is room, then it goes on by itself: %s", e.Reason)
	}
	if e.Height == 0 {
		return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: %s failed: %s", e.Actor, e.Reason)
	}
	return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: shard %d of block %d could not be applied: %s", e.Shard, e.Height, e.Reason)
}

// Halted returns whether the node takes no more blocks, and why.
func (n *Node) Halted() (Halted, bool) {
	if h := n.halted.Load(); h != nil {
		return h.Halted, true
	}
	return Halted{}, false
}

// Full returns whether nothing is written because the disk is full, and why.
func (n *Node) Full() (Halted, bool) {
	if h := n.full.Load(); h != nil {
		return h.Halted, true
	}
	return Halted{}, false
}

// HaltedView returns Halted or Full as status shows it, or nil if the node takes blocks. Equal
// states give the same pointer.
func (n *Node) HaltedView() *view.Halted {
	if h := n.haltReason(); h != nil {
		return h.view
	}
	return nil
}

// haltReason returns why no blocks are taken, for good or until the disk has room, or nil.
func (n *Node) haltReason() *HaltedError {
	if h := n.halted.Load(); h != nil {
		return h
	}
	return n.full.Load()
}

// diskRoom is called by the store when the disk is full, and with nil when it has room again.
// Writes wait meanwhile, and requests that depend on them fail.
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
	if h := n.halted.Load(); f == nil && h != nil && h.Full { // the state of the actor that failed on it is lost
		f = &storage.Full{Since: h.Since, Err: h, Reopen: true}
	}
	if n.o.Room != nil {
		n.o.Room(f)
	}
}

// haltedCh returns a channel that is closed while no blocks are taken.
func (n *Node) haltedCh() <-chan struct{} {
	n.haltMu.Lock()
	defer n.haltMu.Unlock()
	return n.haltedNow
}

// haltedErr returns why a wait on haltedCh has ended, even if the disk has room again.
func (n *Node) haltedErr() error {
	if err := n.refuseRequests(); err != nil {
		return err
	}
	return n.wasFull.Load()
}

// EndWaits gives up writes that wait for room on a full disk. Call it before Stop.
func (n *Node) EndWaits() {
	n.stopping.Store(true)
	n.engine.Store().CancelSpaceWaits()
}

// haltedError returns the error of a halt.
func haltedError(h Halted) *HaltedError {
	e := &HaltedError{Halted: h}
	e.view = &view.Halted{Since: uint64(h.Since.UnixNano()), Reason: e.Error(), Height: h.Height, File: h.File}
	return e
}

// refuseRequests returns why nothing new is taken, or nil.
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

// refuseBlocks returns why no block is taken, or nil. On a full disk blocks are taken, and
// wait.
func (n *Node) refuseBlocks() error {
	if err := n.refuseRequests(); err != nil && (n.halted.Load() != nil || errors.Is(err, ErrStopped)) {
		return err
	}
	return nil
}

// halt ends all work on blocks and wakes requests that wait for blocks. It returns whether this
// was the first call.
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

// chainHalted handles a failure to apply a block.
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
	n.goBackground("keeping the chunk", func() { // it may take as long as the chunk did
		defer m.Drop()
		defer n.logHalted()
		if f == nil || !f.HasInput() || n.o.Failed == "" {
			return
		}
		path, err := writeBadChunk(f, n.o.FailedBuild, n.o.Failed)
		if err != nil {
			n.o.Log.WithError(err).Error("write the file of the chunk that failed")
			return
		}
		h := n.halted.Load().Halted
		h.File = path
		n.halted.Store(haltedError(h))
	})
}

// hasOneValidator returns whether the next block's epoch has one validator.
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

// writeBadChunk writes the file of a chunk that could not be applied.
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

// logHalted logs the halt and what to do about it.
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

// failed handles the failure of an actor with state that the chain needs.
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

// haltIfFull halts the node if an actor failed on a full disk, and returns whether it did. The
// actor's state is lost; the caller of Start restarts the node once there is room. While the
// node stops, nothing is logged.
func (n *Node) haltIfFull(who string, err error) bool {
	if !errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrFailed) {
		return false
	}
	if n.halt(Halted{Actor: who, Reason: err.Error(), Full: true}) && !n.stopping.Load() {
		n.o.Log.WithField("actor", who).Errorf("%v. Reads go on.", n.halted.Load())
	}
	return true
}

// isDiskFailure returns whether an error comes from the disk. Then reads fail too, and only a
// restart finds what is on disk.
func isDiskFailure(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, storage.ErrFailed) || errors.As(err, &errno)
}

// goBackground runs f on a goroutine of its own. Stop waits for it. A panic of f is only
// logged.
func (n *Node) goBackground(what string, f func()) {
	n.background.Go(func() {
		err := engine.Catch(func() error { f(); return nil })
		var p *engine.Panic
		if errors.As(err, &p) {
			n.o.Log.Errorf("%s failed: %v\n%s", what, p.Reason, p.Stack)
		}
	})
}
