package vm

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
)

// rulesOf names the part of a config that prep reads.
type rulesOf struct {
	w    *parameters.Wasm
	hash primitives.Hash
}

// rules returns the hash of what code is prepared by: configs that differ in prices of host
// functions only share what was compiled.
func (v *VM) rules(w *parameters.Wasm) primitives.Hash {
	if r := v.seen.Load(); r != nil && r.w == w {
		return r.hash
	}
	hash := primitives.HashBytes(fmt.Appendf(nil, "%d %d %d %d %v %v %+v", w.RegularOpCost, w.GrowMemCost, w.LinearOpBaseCost,
		w.LinearOpUnitCost, w.ReftypesBulkMemory, w.DiscardCustomSections, w.Limits))
	v.seen.Store(&rulesOf{w, hash})
	return hash
}

// get returns a module. In the background: nothing in a block waits for it.
func (v *VM) get(hash primitives.Hash, code []byte, w *parameters.Wasm, background bool) (*cache.Entry[*module], error) {
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

func (v *VM) key(code primitives.Hash, w *parameters.Wasm) cache.Key {
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

// Ready tells whether code is compiled by the rules of a config, so that calling it takes no longer
// than loading it.
func (v *VM) Ready(code primitives.Hash, w *parameters.Wasm) bool {
	return v.cache.Has(v.key(code, w))
}

// Hasten compiles code by the rules of a config as a call would, ahead of the call: what a block is
// about to call is compiled side by side, not one after the other as its receipts run. No call
// waits for its turn, be it of this code or another. What fails is told by the call.
func (v *VM) Precompile(code []byte, w *parameters.Wasm) {
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

// warmer compiles in the background what will be called: at most as many at a time as may be built
// for calls. A call that comes before it is done compiles for itself. Submitters take turns: whose
// code is next is who has had least of the compilers' time, so that one with much that is hard to
// compile does not keep others waiting. What waits is bounded, in all and for each submitter.
type warmer struct {
	all   sync.WaitGroup
	open  sync.WaitGroup // what was taken in and is not compiled
	apart bool           // processes of their own compile

	mu    sync.Mutex
	come  *sync.Cond // something waits, or it is the end
	queue fair.Queue[warm]
	has   map[fair.Client]warmLoad
	load  warmLoad // of all
	ended bool
}

type warm struct {
	of   fair.Client
	code []byte
	w    *parameters.Wasm
	done chan struct{}
}

// warmLoad is what waits or is compiled.
type warmLoad struct{ number, bytes int }

func (l warmLoad) with(number, bytes int) warmLoad {
	return warmLoad{l.number + number, l.bytes + bytes}
}

// What waits to be compiled is bounded in number and bytes. A submitter has at most a quarter of
// that, and no more than is left free, so that n submitters who take all that they get leave an
// n-th part for the next one. What does not fit is compiled when it is called.
const (
	warmQueue = 256
	warmBytes = 64 << 20
	warmShare = 4
)

func (q *warmer) start(v *VM, workers int) {
	q.queue.Limit = warmQueue
	q.come, q.has, q.apart = sync.NewCond(&q.mu), map[fair.Client]warmLoad{}, v.compiler.Apart()
	for range workers {
		q.all.Go(func() { q.run(v) })
	}
}

func (q *warmer) run(v *VM) {
	// Where this process compiles, the thread is this goroutine's alone, and so is its low
	// priority; it ends with it. Where others do, what is left here is short, and a thread of low
	// priority would keep one of Go's processors, and locks, from the others while the system keeps
	// it waiting.
	if !q.apart {
		runtime.LockOSThread()
		compiler.LowPriority()
	}
	for {
		w, ok := q.pop()
		if !ok {
			return
		}
		begun := time.Now()
		// Failures of the compiler were told where they arose; a call that needs the code tries
		// again.
		if e, err := v.get(primitives.HashBytes(w.code), w.code, w.w, true); err == nil {
			e.Release()
			if v.large.Swap(false) {
				v.collector.run()
			}
		} else if !errors.Is(err, ErrCompiler) && !closed(err) {
			v.fault("vm: compile in advance: %w", err)
		}
		close(w.done)
		q.compiled(&w, time.Since(begun))
	}
}

// push takes code in; false: there is no room.
func (q *warmer) push(w warm) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, own := q.load.with(1, len(w.code)), q.has[w.of].with(1, len(w.code))
	if q.ended || own.number > min(warmQueue/warmShare, warmQueue-q.load.number) || own.bytes > min(warmBytes/warmShare, warmBytes-q.load.bytes) ||
		!q.queue.Push(w.of, w) {
		return false
	}
	q.load, q.has[w.of] = all, own
	q.open.Add(1)
	q.come.Signal()
	return true
}

// pop waits for code; false: it is the end.
func (q *warmer) pop() (w warm, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended {
		if w, _, ok = q.queue.Pop(); ok {
			return w, true
		}
		q.come.Wait()
	}
	return w, false
}

// compiled ends what pop gave, and charges its submitter.
func (q *warmer) compiled(w *warm, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Charge(w.of, int64(took))
	q.load = q.load.with(-1, -len(w.code))
	if q.has[w.of] = q.has[w.of].with(-1, -len(w.code)); q.has[w.of].number == 0 {
		delete(q.has, w.of)
	}
	q.open.Done()
}

// closed tells whether an error is only that the VM was closed.
func closed(err error) bool {
	return errors.Is(err, cache.ErrClosed) || errors.Is(err, engine.ErrClosed) || errors.Is(err, compiler.ErrClosed)
}

// stopWait is how long stop waits for a compilation that runs. One that takes longer holds what it
// needs, and its result is lost.
const stopWait = 300 * time.Millisecond

func (q *warmer) stop() {
	q.mu.Lock()
	q.ended = true
	q.come.Broadcast()
	q.mu.Unlock()
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

// drain waits until nothing is to be compiled.
func (q *warmer) drain() { q.open.Wait() }

// Warm has code compiled in the background, by the rules of a config, unless it is. It never waits.
// Code is copied: it may lie in a state that is dropped before its turn comes, and what is compiled
// must be what was hashed. submitter is whose turn it takes.
//
// The channel is closed when it is done, or will not be.
func (v *VM) Warm(submitter primitives.AccountID, code []byte, w *parameters.Wasm) <-chan struct{} {
	x := warm{code: bytes.Clone(code), w: w, done: make(chan struct{})}
	hash := primitives.HashBytes([]byte(submitter))
	copy(x.of.Address[:], hash[:])
	if !v.warmer.push(x) {
		close(x.done)
	}
	return x.done
}
