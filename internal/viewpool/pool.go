// Package viewpool runs read-only contract calls without slowing the chain down.
//
//	in      functions, from any goroutine, and the client of each; a function learns
//	        whether it runs as a short call, and gets an interrupt function that returns an
//	        error when its time is over
//	out     nothing once the function has returned; otherwise why it was not run or not finished
//	state   Pool: three queues, workers, counts
//	units   time
//	bound   Options.Short, Long and Aside concurrent calls, Options.Queue waiting for each,
//	        Options.Timeout for a call including its wait
//	errors  view.ErrTooManyRequests when a queue is full; view.ErrTimeout; ErrClosed; ErrGone;
//	        *PanicError, after which the worker continues
//	source  our own; neard has view_client_threads, and no bound
//
// There are three queues: of short calls, of long calls, and of simulations with traces. Each queue
// has its own limit of running calls. A call first runs as a short call, in its caller's goroutine.
// If the short call takes too long (ErrLong), the call starts again as a long call, on a worker.
// This is safe, because a view call changes nothing.
//
// The workers for long calls are threads with a low priority. These workers leave half of the cores
// free, because the kernel lets a running thread continue for some milliseconds, whatever its
// priority. Short calls have no threads of their own: a goroutine that is locked to a thread costs
// 10 µs more a call, and most calls take less than 50 µs. Simulations yield instead (simulate.go of
// internal/backend).
//
// As many short calls run at a time as there are cores. With one call at a time on two cores, each
// call would pass its place from a running caller to a sleeping one. The place would be unused
// until that caller has woken up.
//
// Within a queue, clients take turns. The next call to run is a call of the client that has used
// the least time in this queue (package fair). So a new client waits for running calls, but not for
// calls that were queued before its own.
package viewpool

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// Defaults of Options.
const (
	DefaultQueue   = 4096
	DefaultTimeout = 10 * time.Second
)

var (
	// ErrClosed rejects calls that arrive or still wait when the pool is closed.
	ErrClosed = errors.New("viewpool: the node is stopping")
	// ErrGone rejects a long call whose client has disconnected.
	ErrGone = errors.New("viewpool: the client disconnected before its call finished")
	// ErrLong is the result of a function that takes too long for a short call.
	ErrLong = errors.New("viewpool: the call does not fit into the queue of short calls")
)

// Options are the bounds of a Pool. Zero means the default given in the comment.
type Options struct {
	Short   int           // maximum number of running short calls: number of cores
	Long    int           // number of workers for long calls: half the number of cores, at least one
	Aside   int           // number of workers for simulations: one
	Queue   int           // maximum number of waiting calls in each queue
	Timeout time.Duration // maximum time from the arrival of a call to its end
	// Alarm is called by the worker with each *PanicError; nil: not called.
	Alarm func(*PanicError)
}

// Func is a call. If short is set, Func returns ErrLong instead of running for long. Func must call
// interrupt regularly. If interrupt returns an error (view.ErrTimeout or ErrClosed), Func returns
// that error.
type Func func(short bool, interrupt func() error) error

// Pool runs calls from three queues. Safe for concurrent use.
type Pool struct {
	o    Options
	mu   sync.Mutex // guards the fields below
	free int        // number of short calls that may still start
	// waiting contains the three queues. A client is charged for the time that its calls from a queue
	// took.
	waiting [queues]fair.Queue[*job]
	idle    [queues]*sync.Cond // signalled when a queue has a new job; nil for short calls
	closed  bool
	stop    chan struct{} // closed when closed is set
	all     sync.WaitGroup
	jobs    sync.Pool // finished jobs for reuse

	running                                       atomic.Int64
	done, went, refused, timedOut, gone, panicked atomic.Uint64
	nanos                                         atomic.Uint64
}

// The queues of a Pool, as indices: short calls, long calls, and simulations (see RunAside).
const (
	short = iota
	long
	aside
	queues
)

// Stats are counts since the start. Running and Waiting are current numbers instead.
type Stats struct {
	Running, Waiting int
	Done             uint64 // number of runs of short and long calls
	Long             uint64 // number of runs of long calls
	Refused          uint64
	TimedOut         uint64
	Gone             uint64 // long calls that were not run because the client had disconnected
	Panicked         uint64
	Busy             time.Duration // busy time of all workers together
}

// PanicError means that a function panicked.
type PanicError struct {
	Reason any
	Stack  []byte
}

// Error returns the reason without the stack, because clients get this text.
func (e *PanicError) Error() string { return fmt.Sprintf("viewpool: a call failed: %v", e.Reason) }

type job struct {
	f        Func
	start    time.Time // arrival time, later the start time
	who      fair.Client
	gone     func() bool
	deadline time.Time
	err      error
	turn     chan struct{} // capacity 1; signals that a short call may start, or that another call has ended
	stop     <-chan struct{}
	asked    uint32 // number of calls of interrupt
	begun    bool   // a worker has taken the call; guarded by Pool.mu
	left     bool   // the caller no longer waits for a worker; guarded by Pool.mu
}

// New starts a pool.
func New(o Options) *Pool {
	cores := runtime.GOMAXPROCS(0)
	o.Short, o.Long, o.Aside = cmp.Or(o.Short, cores), cmp.Or(o.Long, max(1, cores/2)), cmp.Or(o.Aside, 1)
	o.Queue, o.Timeout = cmp.Or(o.Queue, DefaultQueue), cmp.Or(o.Timeout, DefaultTimeout)
	p := &Pool{o: o, free: o.Short, stop: make(chan struct{})}
	p.jobs.New = func() any { return &job{turn: make(chan struct{}, 1)} }
	for queue := range queues {
		p.waiting[queue].Limit = o.Queue
		p.idle[queue] = sync.NewCond(&p.mu)
	}
	for queue, n := range map[int]int{long: o.Long, aside: o.Aside} {
		for range n {
			p.all.Go(func() {
				// The goroutine keeps its thread, so the low priority affects no other goroutine.
				// The thread ends with the goroutine. Simulations have no such threads: a trace
				// mostly runs Go code, and would hold one of Go's processors while the kernel
				// delays its low-priority thread. Simulations yield instead.
				if queue == long {
					runtime.LockOSThread()
					compiler.LowPriority()
				}
				p.work(queue)
			})
		}
	}
	return p
}

// Run runs f as a short call and returns its error. If f returns ErrLong, Run runs it again as a
// long call. gone returns whether the client has disconnected; it is called before the long call. A
// nil gone means that the client never disconnects.
func (p *Pool) Run(who fair.Client, f Func, gone func() bool) error {
	j := p.job(who, f, gone)
	err := p.runShort(j)
	if err == ErrLong {
		p.went.Add(1)
		err = p.runLong(long, j)
	}
	p.put(j)
	return err
}

// RunLong runs f as a long call at once, because the caller knows that f is long. The parameters
// are as in Run.
func (p *Pool) RunLong(who fair.Client, f Func, gone func() bool) error {
	j := p.job(who, f, gone)
	p.went.Add(1)
	err := p.runLong(long, j)
	p.put(j)
	return err
}

// RunAside runs f as a simulation. The parameters are as in Run.
func (p *Pool) RunAside(who fair.Client, f Func, gone func() bool) error {
	j := p.job(who, f, gone)
	err := p.runLong(aside, j)
	p.put(j)
	return err
}

func (p *Pool) job(who fair.Client, f Func, gone func() bool) *job {
	j := p.jobs.Get().(*job)
	j.start = time.Now()
	j.f, j.who, j.gone, j.deadline, j.err, j.stop, j.asked, j.begun = f, who, gone, j.start.Add(p.o.Timeout), nil, p.stop, 0, false
	return j
}

func (p *Pool) put(j *job) {
	if j.left { // the call is still in the queue
		return
	}
	j.f, j.gone = nil, nil
	p.jobs.Put(j)
}

// enter puts a call into a queue. enter fails if the pool is closed or the queue is full. The
// caller holds p.mu.
func (p *Pool) enter(queue int, j *job) error {
	switch {
	case p.closed:
		return ErrClosed
	case !p.waiting[queue].Push(j.who, j):
		p.refused.Add(1)
		return &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	return nil
}

// runShort runs a call in the caller's goroutine, once a short call may start.
func (p *Pool) runShort(j *job) error {
	p.mu.Lock()
	if p.closed || p.free == 0 {
		err := p.enter(short, j)
		p.mu.Unlock()
		if err != nil {
			return err
		}
		if <-j.turn; j.err != nil {
			return j.err
		}
		j.start = time.Now()
	} else {
		p.free--
		p.all.Add(1)
		p.mu.Unlock()
	}
	took, err := p.run(j, true)
	p.mu.Lock()
	p.waiting[short].Charge(j.who, int64(took))
	next, _, ok := p.waiting[short].Pop()
	if !ok { // no call waits, so the place becomes free
		p.free++
		p.all.Done()
	}
	p.mu.Unlock()
	if ok {
		next.turn <- struct{}{}
	}
	return err
}

// runLong runs a call on one of the workers of the given queue, and waits until the call has ended.
func (p *Pool) runLong(queue int, j *job) error {
	p.mu.Lock()
	err := p.enter(queue, j)
	if err == nil {
		p.idle[queue].Signal()
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(time.Until(j.deadline))
	defer late.Stop()
	select {
	case <-j.turn:
		return j.err
	case <-late.C:
	}
	p.mu.Lock()
	j.left = !j.begun // a running call ends when it next calls interrupt
	p.mu.Unlock()
	if j.left {
		p.timedOut.Add(1)
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	<-j.turn
	return j.err
}

// Close ends running calls at their next interrupt. Waiting calls fail with ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.stop)
	for queue := range queues {
		for {
			j, _, ok := p.waiting[queue].Pop()
			if !ok {
				break
			}
			j.end(ErrClosed)
		}
		p.idle[queue].Broadcast()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// Stats returns the counters since New and the current numbers.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	waiting := 0
	for queue := range queues {
		waiting += p.waiting[queue].Len()
	}
	p.mu.Unlock()
	return Stats{
		Running: int(p.running.Load()), Waiting: waiting, Done: p.done.Load(), Long: p.went.Load(),
		Refused: p.refused.Load(), TimedOut: p.timedOut.Load(), Gone: p.gone.Load(), Panicked: p.panicked.Load(),
		Busy: time.Duration(p.nanos.Load()),
	}
}

// work runs the calls of a queue one after another. work is the loop of a worker's goroutine.
func (p *Pool) work(queue int) {
	for {
		p.mu.Lock()
		j, who, ok := p.waiting[queue].Pop()
		for ; !ok && !p.closed; j, who, ok = p.waiting[queue].Pop() {
			p.idle[queue].Wait()
		}
		if ok {
			j.begun = !j.left
		}
		p.mu.Unlock()
		if !ok {
			return
		}
		if !j.begun {
			continue
		}
		j.start = time.Now()
		took, err := p.run(j, false)
		p.mu.Lock()
		p.waiting[queue].Charge(who, int64(took))
		p.mu.Unlock()
		j.end(err)
	}
}

func (p *Pool) run(j *job, short bool) (took time.Duration, err error) {
	if j.start.After(j.deadline) {
		p.timedOut.Add(1)
		return 0, &view.LookupError{Kind: view.ErrTimeout}
	}
	if !short && j.gone != nil && j.gone() {
		p.gone.Add(1)
		return 0, ErrGone
	}
	p.running.Add(1)
	defer func() {
		if r := recover(); r != nil {
			why := &PanicError{r, debug.Stack()}
			if err = why; p.o.Alarm != nil {
				p.o.Alarm(why)
			}
			p.panicked.Add(1)
		}
		p.running.Add(-1)
		took = time.Since(j.start)
		p.nanos.Add(uint64(took))
		p.done.Add(1)
		if errors.Is(err, view.ErrTimeout) {
			p.timedOut.Add(1)
		}
	}()
	return 0, j.f(short, j.interrupt)
}

func (j *job) end(err error) {
	j.err = err
	j.turn <- struct{}{}
}

// lookEvery is the number of calls of interrupt for each reading of the clock. A reading takes a
// quarter of the time of a host call. Gas bounds the work between two readings.
const lookEvery = 16

// interrupt returns an error if the job must end, else nil.
func (j *job) interrupt() error {
	if j.asked++; j.asked%lookEvery != 0 {
		return nil
	}
	select {
	case <-j.stop:
		return ErrClosed
	default:
	}
	if time.Now().After(j.deadline) {
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	return nil
}
