package vm

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
)

// rulesOf names the part of a config that prep reads.
type rulesOf struct {
	w    *config.Wasm
	hash primitives.Hash
}

// rules returns the hash of what code is prepared by: configs that differ in prices of host functions only share what was
// compiled.
func (v *VM) rules(w *config.Wasm) primitives.Hash {
	if r := v.seen.Load(); r != nil && r.w == w {
		return r.hash
	}
	hash := primitives.HashBytes(fmt.Appendf(nil, "%d %d %d %d %v %v %+v", w.RegularOpCost, w.GrowMemCost, w.LinearOpBaseCost,
		w.LinearOpUnitCost, w.ReftypesBulkMemory, w.DiscardCustomSections, w.Limits))
	v.seen.Store(&rulesOf{w, hash})
	return hash
}

// get returns a module. In the background: nothing in a block waits for it.
func (v *VM) get(hash primitives.Hash, code []byte, w *config.Wasm, background bool) (*cache.Entry[*module], error) {
	return v.make(&task{hash: hash, code: code, rules: w, background: background})
}

// make is get of a task.
func (v *VM) make(t *task) (*cache.Entry[*module], error) {
	get := v.cache.Get
	if t.background {
		get = v.cache.GetInBackground
	}
	e, err := get(v.key(t.hash, t.rules), func(cancel <-chan struct{}) (cache.Artifact, error) {
		t.cancel, t.file = cancel, true
		return v.build(t)
	})
	return e, v.notLoaded(t.hash, err)
}

func (v *VM) key(code primitives.Hash, w *config.Wasm) cache.Key {
	return cache.Key{Code: code, Rules: v.rules(w)}
}

// notLoaded makes a CompilerError of machine code that does not load.
func (v *VM) notLoaded(hash primitives.Hash, err error) error {
	var load *loadError
	if !errors.As(err, &load) || closed(err) { // what ends meanwhile loads nothing, and is no fault
		return err
	}
	v.fault("vm: code %v does not load: %w", hash, err)
	return &CompilerError{hash, load.Error(), err}
}

// Ready tells whether code is compiled by the rules of a config, so that calling it takes no longer than loading it.
func (v *VM) Ready(code primitives.Hash, w *config.Wasm) bool {
	return v.cache.Has(v.key(code, w))
}

// Hasten compiles code by the rules of a config as a call would, ahead of the call: what a block is about to call is compiled side by side,
// not one after the other as its receipts run. No call waits for its turn, be it of this code or another. What fails is told by the call.
func (v *VM) Hasten(code []byte, w *config.Wasm) {
	leave, ok := v.compiler.Ahead(len(code))
	if !ok {
		return
	}
	defer leave()
	hash := primitives.HashBytes(code)
	if v.cache.Making(v.key(hash, w)) {
		return
	}
	if e, err := v.make(&task{hash: hash, code: code, rules: w, placed: true}); err == nil {
		e.Release()
	}
}

// warmer compiles in the background what will be called: at most as many at a time as may be built for calls. A call that comes
// before it is done compiles for itself.
type warmer struct {
	queue chan warm
	end   chan struct{}
	all   sync.WaitGroup
	open  sync.WaitGroup // what was taken in and is not compiled
	bytes atomic.Int64   // of that
}

type warm struct {
	code []byte
	w    *config.Wasm
	done chan struct{}
}

// What waits to be compiled is bounded in number and bytes; what does not fit is compiled when it is called.
const (
	warmQueue = 256
	warmBytes = 64 << 20
)

func (q *warmer) start(v *VM, workers int) {
	q.queue, q.end = make(chan warm, warmQueue), make(chan struct{})
	for range workers {
		q.all.Go(func() { q.run(v) })
	}
}

func (q *warmer) run(v *VM) {
	// The thread is this goroutine's alone, and so is its low priority; it ends with it.
	runtime.LockOSThread()
	compiler.LowPriority()
	for {
		select {
		case <-q.end:
			return
		case w := <-q.queue:
			// Failures of the compiler were told where they arose; a call that needs the code tries again.
			if e, err := v.get(primitives.HashBytes(w.code), w.code, w.w, true); err == nil {
				e.Release()
				if v.large.Swap(false) {
					v.collector.run()
				}
			} else if !errors.Is(err, ErrCompiler) && !closed(err) {
				v.fault("vm: compile in advance: %w", err)
			}
			close(w.done)
			q.done(w.code)
		}
	}
}

// closed tells whether an error is only that the VM was closed.
func closed(err error) bool {
	return errors.Is(err, cache.ErrClosed) || errors.Is(err, engine.ErrClosed) || errors.Is(err, compiler.ErrClosed)
}

// stopWait is how long stop waits for a compilation that runs. One that takes longer holds what it needs, and its result is lost.
const stopWait = 300 * time.Millisecond

func (q *warmer) stop() {
	close(q.end)
	ended := make(chan struct{})
	go func() {
		q.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopWait):
	}
}

func (q *warmer) done(code []byte) {
	q.bytes.Add(-int64(len(code)))
	q.open.Done()
}

// drain waits until nothing is to be compiled.
func (q *warmer) drain() { q.open.Wait() }

// Warm has code compiled in the background, by the rules of a config, unless it is. It never waits. Code is copied: it may lie in
// a state that is dropped before its turn comes, and what is compiled must be what was hashed.
//
// The channel is closed when it is done, or will not be.
func (v *VM) Warm(code []byte, w *config.Wasm) <-chan struct{} {
	q, done := &v.warmer, make(chan struct{})
	q.open.Add(1)
	if q.bytes.Add(int64(len(code))) > warmBytes {
		q.done(code)
		close(done)
		return done
	}
	code = bytes.Clone(code)
	select {
	case q.queue <- warm{code, w, done}:
	default:
		q.done(code)
		close(done)
	}
	return done
}
