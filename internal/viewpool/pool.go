// Package viewpool runs read-only contract calls without slowing the chain down.
//
//	in      functions, from any goroutine, and the client of each; a function gets its lane, and
//	        an interrupt function that returns an error when its time is over
//	out     nothing once the function has returned; otherwise why it was not run or not finished
//	state   Pool: three queues, workers, counts
//	units   time
//	bound   Options.Short, Long and Aside concurrent calls, Options.Queue waiting for each,
//	        Options.Timeout for a call including its wait
//	errors  view.ErrTooManyRequests when a queue is full; view.ErrTimeout; ErrClosed; ErrGone;
//	        *PanicError, after which the worker continues
//	source  our own; neard has view_client_threads, and no bound
//
// Every call begins in the short lane, in the goroutine of its caller. A call that turns out to be
// long (ErrLong) starts again in the long lane, which is safe since it changed nothing. The threads
// of the long lane have a low priority and leave half of the cores free: the kernel lets a running
// thread continue for some milliseconds, whatever its priority. Only the long lane has threads of
// its own, because a goroutine locked to a thread costs 10 µs more a call, and most calls take less
// than 50 µs.
//
// The short lane has a place for each core. With one place for two cores, the place would pass from
// a running caller to a sleeping one at each call, and stay empty until that caller has woken up.
// Simulations and traces have a lane of their own, and yield (simulate.go of internal/backend).
//
// Within a lane clients take turns: the next call is that of the client that has used the least of
// the lane's time (package fair). A new client therefore waits for the calls that run, and not for
// those that are queued.
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
	// ErrClosed is returned for calls that arrive or still wait when the pool is closed.
	ErrClosed = errors.New("viewpool: the node is stopping")
	// ErrGone is returned for a long call whose client has gone.
	ErrGone = errors.New("viewpool: the client disconnected before its call finished")
	// ErrLong is returned by a function in the short lane that needs the long one.
	ErrLong = errors.New("viewpool: the call does not fit into the queue of short calls")
)

// Options are the bounds of a Pool. A zero takes the default in the comment.
type Options struct {
	Short   int           // calls at a time in the short lane: as many as cores
	Long    int           // workers of the long lane: half as many as cores, at least one
	Aside   int           // workers of the lane for simulations: one
	Queue   int           // calls that wait for a worker, in each lane
	Timeout time.Duration // from when a call comes to when it must be over
	// Alarm is called by the worker with each *PanicError; nil: not called.
	Alarm func(*PanicError)
}

// Func is a call. If short is set it returns ErrLong instead of running for long. Func calls
// interrupt regularly. If interrupt returns an error (view.ErrTimeout or ErrClosed), Func returns
// that error.
type Func func(short bool, interrupt func() error) error

// Pool runs calls in three lanes. Safe for concurrent use.
type Pool struct {
	o    Options
	mu   sync.Mutex // of what follows
	free int        // places in the short lane
	// waiting are the queued calls by lane. A client is charged the time it used in the lane.
	waiting [lanes]fair.Queue[*job]
	idle    [lanes]*sync.Cond // workers of the long lanes
	closed  bool
	stop    chan struct{} // closed with it
	all     sync.WaitGroup
	jobs    sync.Pool // used ones

	running                                       atomic.Int64
	done, went, refused, timedOut, gone, panicked atomic.Uint64
	nanos                                         atomic.Uint64
}

// The lanes.
const (
	short = iota
	long
	aside
	lanes
)

// Stats are counts since the start, except Running and Waiting, which are current.
type Stats struct {
	Running, Waiting int
	Done             uint64 // runs in the short lane, and in the long one
	Long             uint64 // of them
	Refused          uint64
	TimedOut         uint64
	Gone             uint64 // long calls that were not run because the client had gone
	Panicked         uint64
	Busy             time.Duration // of all workers together
}

// PanicError is returned for a function that panicked.
type PanicError struct {
	Reason any
	Stack  []byte
}

// Error returns the reason without the stack, because clients see it.
func (e *PanicError) Error() string { return fmt.Sprintf("viewpool: a call failed: %v", e.Reason) }

type job struct {
	f        Func
	start    time.Time // when it arrived; later, when its turn came
	who      fair.Client
	gone     func() bool
	deadline time.Time
	err      error
	turn     chan struct{} // capacity 1; short lane: its turn has come; other lanes: it has ended
	stop     <-chan struct{}
	asked    uint32 // calls of interrupt
	begun    bool   // a worker of a long lane has it; under the pool's lock
	left     bool   // its caller did not wait for a worker any longer; under the pool's lock
}

// New starts a pool.
func New(o Options) *Pool {
	cores := runtime.GOMAXPROCS(0)
	o.Short, o.Long, o.Aside = cmp.Or(o.Short, cores), cmp.Or(o.Long, max(1, cores/2)), cmp.Or(o.Aside, 1)
	o.Queue, o.Timeout = cmp.Or(o.Queue, DefaultQueue), cmp.Or(o.Timeout, DefaultTimeout)
	p := &Pool{o: o, free: o.Short, stop: make(chan struct{})}
	p.jobs.New = func() any { return &job{turn: make(chan struct{}, 1)} }
	for lane := range lanes {
		p.waiting[lane].Limit = o.Queue
		p.idle[lane] = sync.NewCond(&p.mu)
	}
	for lane, n := range map[int]int{long: o.Long, aside: o.Aside} {
		for range n {
			p.all.Go(func() {
				// The goroutine keeps its thread, so the low priority affects nothing else; the
				// thread ends with it. Simulations do not get one: a trace mostly runs Go code, and
				// would hold one of Go's processors while the kernel keeps its low-priority thread
				// waiting. They yield instead.
				if lane == long {
					runtime.LockOSThread()
					compiler.LowPriority()
				}
				p.work(lane)
			})
		}
	}
	return p
}

// Run runs f and returns its error. f starts in the short lane as soon as there is a place. If it
// returns ErrLong it is run again in the long lane. gone returns whether the client has gone; it is
// called before f runs in the long lane. A nil gone means that the client always waits.
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

// RunLong is Run for a call that is known to be long: it starts in the long lane.
func (p *Pool) RunLong(who fair.Client, f Func, gone func() bool) error {
	j := p.job(who, f, gone)
	p.went.Add(1)
	err := p.runLong(long, j)
	p.put(j)
	return err
}

// RunAside is Run in the lane for simulations.
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
	if j.left { // it is in the queue
		return
	}
	j.f, j.gone = nil, nil
	p.jobs.Put(j)
}

// enter queues a call. p.mu is held.
func (p *Pool) enter(lane int, j *job) error {
	switch {
	case p.closed:
		return ErrClosed
	case !p.waiting[lane].Push(j.who, j):
		p.refused.Add(1)
		return &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	return nil
}

// runShort runs a call in the caller's goroutine, once it has a place.
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
	if !ok { // the place is free; else it is the next one's
		p.free++
		p.all.Done()
	}
	p.mu.Unlock()
	if ok {
		next.turn <- struct{}{}
	}
	return err
}

// runLong runs a call on a worker of a lane.
func (p *Pool) runLong(lane int, j *job) error {
	p.mu.Lock()
	err := p.enter(lane, j)
	if err == nil {
		p.idle[lane].Signal()
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
	j.left = !j.begun // a running call ends by calling interrupt
	p.mu.Unlock()
	if j.left {
		p.timedOut.Add(1)
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	<-j.turn
	return j.err
}

// Close ends running calls at their next interrupt, and fails waiting ones with ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.stop)
	for lane := range lanes {
		for {
			j, _, ok := p.waiting[lane].Pop()
			if !ok {
				break
			}
			j.end(ErrClosed)
		}
		p.idle[lane].Broadcast()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// Stats returns the counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	waiting := 0
	for lane := range lanes {
		waiting += p.waiting[lane].Len()
	}
	p.mu.Unlock()
	return Stats{
		Running: int(p.running.Load()), Waiting: waiting, Done: p.done.Load(), Long: p.went.Load(),
		Refused: p.refused.Load(), TimedOut: p.timedOut.Load(), Gone: p.gone.Load(), Panicked: p.panicked.Load(), Busy: time.Duration(p.nanos.Load()),
	}
}

// work is the loop of a worker.
func (p *Pool) work(lane int) {
	for {
		p.mu.Lock()
		j, who, ok := p.waiting[lane].Pop()
		for ; !ok && !p.closed; j, who, ok = p.waiting[lane].Pop() {
			p.idle[lane].Wait()
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
		p.waiting[lane].Charge(who, int64(took))
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

// lookEvery is the number of calls of interrupt per reading of the clock, which takes a quarter of
// the time of a host call. Gas bounds the work between two readings.
const lookEvery = 16

// interrupt returns an error if the job has to end, else nil.
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
