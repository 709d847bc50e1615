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
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
)

// rulesOf holds a config with the hashes that rules returns for it.
type rulesOf struct {
	w           *parameters.Wasm
	shared, own primitives.Hash
}

// rules returns two hashes of everything in w that affects how code is prepared. `own` includes
// MinContractSizePerLocal, shared leaves it out. The two hashes are equal if w has no such limit.
// Configs that differ only in prices of host functions, or in limits that do not concern code,
// share compiled code.
func (v *VM) rules(w *parameters.Wasm) (shared, own primitives.Hash) {
	if r := v.seen.Load(); r != nil && r.w == w {
		return r.shared, r.own
	}
	limits := w.Limits
	limits.MinContractSizePerLocal, limits.MaxStateInitEntries, limits.MaxUniversalStateInitKeys = 0, 0, 0
	shared = primitives.HashBytes(fmt.Appendf(nil, "%d %d %d %d %v %v %+v", w.RegularOpCost, w.GrowMemCost, w.LinearOpBaseCost,
		w.LinearOpUnitCost, w.ReftypesBulkMemory, w.DiscardCustomSections, limits))
	own = shared
	if n := w.Limits.MinContractSizePerLocal; n != 0 {
		own = primitives.HashBytes(fmt.Appendf(shared[:], "%d", n))
	}
	v.seen.Store(&rulesOf{w, shared, own})
	return shared, own
}

// get returns the module of code; the caller must release it. background means that no block waits
// for the module.
func (v *VM) get(
	from action.CodeFrom,
	hash primitives.Hash,
	code []byte,
	w *parameters.Wasm,
	background bool,
) (*cache.Entry[*module], error) {
	return v.make(&task{from: from, hash: hash, code: code, rules: w, background: background})
}

// make does the same as get, for a task.
//
// The problem: MinContractSizePerLocal is new in protocol version 87. If all contracts had to be
// compiled again for it, blocks would wait after the upgrade. But nearly no contract breaks that
// rule, and the machine code of a contract that does not break it stays unchanged.
//
// So a valid module is stored under the shared key (see keys), whether or not the rule was checked.
// The module contains its number of locals, from which allowed can check the rule when the module
// is used. If code breaks any rule, the error is stored under the code's own key, because the
// broken rule may be MinContractSizePerLocal.
func (v *VM) make(t *task) (*cache.Entry[*module], error) {
	shared, own := v.keys(t.hash, t.rules)
	e, err := v.load(t, shared, own)
	if own != shared && (errors.Is(err, cache.ErrElsewhere) || err == nil && !e.Value.allowed(len(t.code), t.rules)) {
		if err == nil {
			e.Release()
		}
		e, err = v.load(t, own, own)
	}
	return e, v.notLoaded(t.hash, err)
}

// load returns the module with the given key, which is either own or the shared key (see make).
// load returns cache.ErrElsewhere if key is the shared key and the module belongs under own.
func (v *VM) load(t *task, key, own cache.Key) (*cache.Entry[*module], error) {
	get := v.cache.Get
	if t.background {
		get = v.cache.GetInBackground
	}
	return get(key, func(cancel <-chan struct{}) (cache.Artifact, error) {
		switch {
		case key != own && v.cache.Has(own):
			return cache.Artifact{}, cache.ErrElsewhere
		case key == own && t.refusal != nil:
			return *t.refusal, nil
		}
		t.cancel, t.file = cancel, true
		a, err := v.build(t)
		if key != own && err == nil && isNegative(&a) {
			t.refusal = &a
			return cache.Artifact{}, cache.ErrElsewhere
		}
		return a, err
	})
}

// keys returns the cache keys of code. The key shared is the same for all rules that differ from
// the rules of w only in MinContractSizePerLocal. The key `own` is for the rules of w alone. See
// make.
func (v *VM) keys(code primitives.Hash, w *parameters.Wasm) (shared, own cache.Key) {
	s, o := v.rules(w)
	return cache.Key{Code: code, Rules: s}, cache.Key{Code: code, Rules: o}
}

// notLoaded converts a loadError to a CompilerError and returns other errors unchanged.
func (v *VM) notLoaded(hash primitives.Hash, err error) error {
	var load *loadError
	// While the VM is being closed, a module may fail to load although the node is not at fault.
	if !errors.As(err, &load) || closed(err) {
		return err
	}
	v.fault("vm: code %v does not load: %w", hash, err)
	return &CompilerError{hash, load.Error(), err}
}

// Ready returns whether code is already compiled by the rules of w, so that a call only has to load
// the machine code.
func (v *VM) Ready(code primitives.Hash, w *parameters.Wasm) bool {
	shared, own := v.keys(code, w)
	return v.cache.Has(shared) || own != shared && v.cache.Has(own)
}

// Precompile compiles code by the rules of w before a block calls it, with the priority of a call.
// The engine calls Precompile in parallel for all code that a block is about to call. Otherwise the
// code would be compiled one after the other as the receipts run. Precompile returns at once if the
// VM is closed or a call is compiling this code. Precompile reports no failures; the call of the
// code does. Safe for concurrent use.
func (v *VM) Precompile(from action.CodeFrom, code []byte, w *parameters.Wasm) {
	leave, ok := v.compiler.Ahead(len(code))
	if !ok {
		return
	}
	defer leave()
	hash := primitives.HashBytes(code)
	if shared, _ := v.keys(hash, w); v.cache.Making(shared) {
		return
	}
	if e, err := v.make(&task{from: from, hash: hash, code: code, rules: w, placed: true}); err == nil {
		e.Release()
	}
}

// precompileQueue is the queue of code to compile in the background.
//
// The problem: compiling a contract can take seconds. Code that is deployed will probably be
// called, so this queue compiles the code before the first call. But any account can deploy, and
// contracts that are hard to compile are cheap to make.
//
// Invariants:
//   - A call never waits for the queue. If the code of a call is not compiled yet, the call
//     compiles the code itself (cache.Get and GetInBackground have separate builds).
//   - One submitter cannot delay the other submitters by much. The next code to compile belongs to
//     the submitter that has used the least compiler time (fair.Queue, charged in compiled).
//   - Memory is bounded: maxQueued codes and maxQueuedBytes bytes in all. A submitter may queue at
//     most a quarter of each bound, and at most as much as is still free. So if n submitters fill
//     the queue, a further submitter still gets an n-th part.
//   - Code that does not fit is dropped, and compiled at its first call. Results never depend on
//     the queue.
//
// Outline: push copies the code into the submitter's queue. Workers, half as many as compilations
// may run at a time, pop in fair order, compile through the cache, and charge the time to the
// submitter.
//
// Rejected: first come, first served. One account that deploys a hundred hard contracts would
// occupy the queue for minutes. The first calls of all other new contracts would then compile
// inside blocks.
type precompileQueue struct {
	all   sync.WaitGroup
	open  sync.WaitGroup // counts entries that are queued or being compiled
	apart bool           // child processes compile

	mu    sync.Mutex
	come  *sync.Cond // signalled when an entry is queued, and when ended is set
	queue fair.Queue[queuedCode]
	has   map[fair.Client]queueLoad // load of each submitter
	load  queueLoad                 // load of all submitters together
	ended bool
}

type queuedCode struct {
	from action.CodeFrom
	of   fair.Client // the submitter's key in precompileQueue.queue
	code []byte
	w    *parameters.Wasm
	done chan struct{}
}

// queueLoad is the size of the entries that are queued or being compiled.
type queueLoad struct{ number, bytes int }

func (l queueLoad) with(number, bytes int) queueLoad {
	return queueLoad{l.number + number, l.bytes + bytes}
}

// Bounds of the queue: number of codes, and bytes of all codes. A submitter may use at most
// 1/queueShare of each bound.
const (
	maxQueued      = 256
	maxQueuedBytes = 64 << 20
	queueShare     = 4
)

func (q *precompileQueue) start(v *VM, workers int) {
	q.queue.Limit = maxQueued
	q.come, q.has, q.apart = sync.NewCond(&q.mu), map[fair.Client]queueLoad{}, v.compiler.Apart()
	for range workers {
		q.all.Go(func() { q.run(v) })
	}
}

func (q *precompileQueue) run(v *VM) {
	// If this process compiles, the goroutine gets its own thread with a low priority, which ends
	// with the goroutine. If children compile, the goroutine has little work and keeps the normal
	// priority: a low-priority thread that the system does not run could hold a processor of Go's
	// scheduler and locks that other threads need.
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
		// Other code has already reported failures of the compiler. A call that needs this code
		// compiles it again.
		hash := primitives.HashBytes(w.code)
		if e, err := v.get(w.from, hash, w.code, w.w, true); err == nil {
			if v.unlinked != nil {
				if missing := e.Value.linkError(w.w); missing != nil {
					v.unlinked(w.from.Submitter, hash, missing)
				}
			}
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

// push queues code. push returns false if a bound would be exceeded or the queue has ended.
func (q *precompileQueue) push(w queuedCode) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, own := q.load.with(1, len(w.code)), q.has[w.of].with(1, len(w.code))
	if q.ended || own.number > min(maxQueued/queueShare, maxQueued-q.load.number) ||
		own.bytes > min(maxQueuedBytes/queueShare, maxQueuedBytes-q.load.bytes) ||
		!q.queue.Push(w.of, w) {
		return false
	}
	q.load, q.has[w.of] = all, own
	q.open.Add(1)
	q.come.Signal()
	return true
}

// pop waits for code and returns the code. ok is false if the queue has ended.
func (q *precompileQueue) pop() (w queuedCode, ok bool) {
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

// compiled subtracts an entry that pop returned from the queue's load, and charges the compilation
// time to the entry's submitter.
func (q *precompileQueue) compiled(w *queuedCode, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Charge(w.of, int64(took))
	q.load = q.load.with(-1, -len(w.code))
	if q.has[w.of] = q.has[w.of].with(-1, -len(w.code)); q.has[w.of].number == 0 {
		delete(q.has, w.of)
	}
	q.open.Done()
}

// closed returns whether an error only means that the VM was closed.
func closed(err error) bool {
	return errors.Is(err, cache.ErrClosed) || errors.Is(err, engine.ErrClosed) || errors.Is(err, compiler.ErrClosed)
}

// stopWait is how long stop waits for running compilations. A longer compilation keeps its memory
// until the compilation ends, and its result is lost.
const stopWait = 300 * time.Millisecond

func (q *precompileQueue) stop() {
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

// drain waits until the queue is empty and nothing is being compiled.
func (q *precompileQueue) drain() { q.open.Wait() }

// Warm queues code for compilation in the background, by the rules of w. Warm never waits. Warm
// copies code, because the caller may reuse the memory of code before the compilation begins.
// Submitters take turns.
//
// The returned channel is closed when the code is compiled or the VM has given up compiling it.
func (v *VM) Warm(from action.CodeFrom, code []byte, w *parameters.Wasm) <-chan struct{} {
	x := queuedCode{from: from, code: bytes.Clone(code), w: w, done: make(chan struct{})}
	hash := primitives.HashBytes([]byte(from.Submitter))
	copy(x.of.Address[:], hash[:])
	if !v.precompiles.push(x) {
		close(x.done)
	}
	return x.done
}
