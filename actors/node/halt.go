package node

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/failed"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// Halted says why a node takes no blocks any more. It goes on serving reads, of blocks up to its head.
type Halted struct {
	Since  time.Time
	Actor  string // that noticed
	Reason string
	// Of the block that could not be applied; zero: it was no block's doing.
	Height primitives.Height
	Block  primitives.Hash
	Shard  primitives.ShardID
	// File has the chunk that could not be applied, for troupe verify. It comes some time after the halt. Empty: there is none.
	File string
}

// HaltedError is what is said to those who want something of the chain while the node is halted.
type HaltedError struct {
	Halted
	view *view.Halted
}

// Error says it to a client.
func (e *HaltedError) Error() string {
	if e.Height == 0 {
		return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: %s failed: %s", e.Actor, e.Reason)
	}
	return fmt.Sprintf("the node has halted and takes no blocks until it is restarted: shard %d of block %d could not be applied: %s", e.Shard, e.Height, e.Reason)
}

// Halted tells whether the node takes no blocks any more, and why.
func (n *Node) Halted() (Halted, bool) {
	if h := n.halted.Load(); h != nil {
		return h.Halted, true
	}
	return Halted{}, false
}

// HaltedView is Halted as status shows it, nil if the node takes blocks. The same is the same value.
func (n *Node) HaltedView() *view.Halted {
	if h := n.halted.Load(); h != nil {
		return h.view
	}
	return nil
}

// haltedError makes what is told of a halt.
func haltedError(h Halted) *HaltedError {
	e := &HaltedError{Halted: h}
	e.view = &view.Halted{Since: uint64(h.Since.UnixNano()), Reason: e.Error(), Height: h.Height, File: h.File}
	return e
}

// refusal is why nothing new is taken, nil if it is.
func (n *Node) refusal() error {
	select {
	case <-n.ended:
		return ErrStopped
	default:
	}
	if h := n.halted.Load(); h != nil {
		return h
	}
	return nil
}

// halt ends all work on blocks; first tells whether nobody has before. Whoever waits for blocks is told.
func (n *Node) halt(h Halted) (first bool) {
	h.Since = time.Now()
	if !n.halted.CompareAndSwap(nil, haltedError(h)) {
		return false
	}
	close(n.still)
	m := messages.ChainHalted{Err: n.halted.Load()}
	n.tell(n.producer, m)
	n.tell(n.chain, m)
	return true
}

// chainHalted is told by the chain of a block that it could not apply.
func (n *Node) chainHalted(m messages.ChainHalted) {
	h := Halted{Actor: "chain", Reason: m.Err.Error(), Height: m.Height, Block: m.Block}
	var f *engine.Fault
	if errors.As(m.Err, &f) {
		h.Shard, h.Reason = f.Shard, f.Err.Error()
	} else if broken(m.Err) {
		n.o.Exit("chain", m.Err, nil)
		return
	}
	if !n.halt(h) {
		m.Drop()
		return
	}
	n.aside("keeping the chunk", func() { // it may take as long as the chunk did
		defer m.Drop()
		defer n.sayHalted()
		if f == nil || !f.HasInput() || n.o.Failed == "" {
			return
		}
		path, err := keep(f, n.o.FailedBuild, n.o.Failed)
		if err != nil {
			n.o.Log.WithError(err).Error("the chunk that failed could not be kept")
			return
		}
		h := n.halted.Load().Halted
		h.File = path
		n.halted.Store(haltedError(h))
	})
}

// keep writes the file of a chunk that failed.
func keep(f *engine.Fault, build, dir string) (path string, err error) {
	err = engine.Catch(func() error {
		file, err := failed.Capture(f)
		if err != nil {
			return err
		}
		file.Time, file.Build = time.Now().UTC(), build
		path, err = failed.Write(dir, file)
		return err
	})
	return path, err
}

// sayHalted puts it into the log, with what to do.
func (n *Node) sayHalted() {
	h := n.halted.Load()
	e := n.o.Log.WithField("actor", h.Actor)
	if h.Height != 0 {
		e = e.WithField("height", h.Height).WithField("block", h.Block).WithField("shard", h.Shard)
	}
	next := "Reads go on. Restart the node to try again, with a program that is mended if this comes again"
	if h.File != "" {
		next += fmt.Sprintf("; `troupe verify %s` runs what failed without the node", h.File)
	}
	e.Errorf("%v. %s.", h, next)
}

// failed is told by the supervisor of an actor of whose state the chain needs what is lost.
func (n *Node) failed(who string, reason any, stack []byte) {
	if err, ok := reason.(error); ok && broken(err) {
		n.o.Exit(who, reason, stack)
		return
	}
	n.o.Log.WithField("actor", who).Errorf("actor failed: %v\n%s", reason, stack)
	if n.halt(Halted{Actor: who, Reason: fmt.Sprint(reason)}) {
		n.sayHalted()
	}
}

// broken tells whether an error is of the disk: then reads can't go on either, and a restart finds what is on it.
func broken(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrFailed) || errors.As(err, &errno)
}

// aside runs f beside the actors. Stop waits for it; a panic of it is logged, and nothing more.
func (n *Node) aside(what string, f func()) {
	n.asides.Go(func() {
		err := engine.Catch(func() error { f(); return nil })
		var p *engine.Panic
		if errors.As(err, &p) {
			n.o.Log.Errorf("%s failed: %v\n%s", what, p.Reason, p.Stack)
		}
	})
}
