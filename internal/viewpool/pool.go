// Package viewpool runs contract calls that change nothing, beside the chain and never in its way.
//
//	in      functions, from any goroutine, and whose they are; each is told in which lane it runs,
//	        and gets a way to ask whether its time is over
//	out     nothing, once the function has returned; or why it was not run or not finished
//	state   Pool: three queues, workers, counts
//	units   time
//	bound   Options.Short, Long and Aside at a time, Options.Queue waiting for each,
//	        Options.Timeout for all of it together
//	errors  view.ErrTooManyRequests when a queue is full; view.ErrTimeout; ErrClosed; ErrGone;
//	        *PanicError, and the worker goes on
//	source  our own; neard has view_client_threads, and no bound
//
// Every call begins in the short lane, in its own goroutine. One that turns out to be long
// (ErrLong) starts again, which it may since it changed nothing, in the long lane, whose threads
// have a low priority and leave half of the cores alone: the system lets a thread that runs go on
// for some milliseconds, however low it is. Only there, since a goroutine that has a thread of its
// own costs 10 µs more a call, and most calls take less than 50. The short lane has a place for
// each core: where there is one for two, it goes at each call from one that runs to one that
// sleeps, and stands empty until that has been woken. Simulations and traces have a lane of their
// own, and yield (simulate.go of internal/backend). In each lane clients take turns: whose call has
// the turn is who has had least of the lane's time (package fair), so that one who comes anew waits
// for the calls that run, and not for those that wait.
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
	// ErrClosed is the error of calls that come, or still wait, when the pool is closed.
	ErrClosed = errors.New("viewpool: the node is stopping")
	// ErrGone is the error of a long call for whose answer nobody waits.
	ErrGone = errors.New("viewpool: the client is gone")
	// ErrLong is what a function in the short lane returns to be run in the long one.
	ErrLong = errors.New("viewpool: a long call")
)

// Options are the bounds of a Pool; zeros are replaced by the defaults.
type Options struct {
	Short   int           // calls at a time in the short lane: as many as cores
	Long    int           // workers of the long lane: half as many as cores, at least one
	Aside   int           // workers of the lane for simulations: one
	Queue   int           // calls that wait for a worker, in each lane
	Timeout time.Duration // from when a call comes to when it must be over
	// Alarm is told of each *PanicError, by the worker; nil: nobody.
	Alarm func(*PanicError)
}

// Func is a call. Not short: it may take its time; else it returns ErrLong rather than that. It
// asks interrupt now and then and ends with its error, if there is one: view.ErrTimeout or
// ErrClosed.
type Func func(short bool, interrupt func() error) error

// Pool is safe for concurrent use.
type Pool struct {
	o    Options
	mu   sync.Mutex // of what follows
	free int        // places in the short lane
	// waiting are the calls that wait, by lane. A client's time is that of the lane.
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

// Stats count since the start, but for Running and Waiting.
type Stats struct {
	Running, Waiting int
	Done             uint64 // runs in the short lane, and in the long one
	Long             uint64 // of them
	Refused          uint64
	TimedOut         uint64
	Gone             uint64 // long calls that were not run, as nobody waited
	Panicked         uint64
	Busy             time.Duration // of all workers together
}

// PanicError is a function that panicked.
type PanicError struct {
	Reason any
	Stack  []byte
}

// Error returns the reason alone: clients see it.
func (e *PanicError) Error() string { return fmt.Sprintf("viewpool: a call failed: %v", e.Reason) }

type job struct {
	f        Func
	start    time.Time // when it came, or its turn did
	who      fair.Client
	gone     func() bool
	deadline time.Time
	err      error
	turn     chan struct{} // one element: its turn has come, in the short lane; or it has ended, in the others
	stop     <-chan struct{}
	asked    uint32 // how often interrupt was
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
				// The thread is this goroutine's alone, and so is its low priority; it ends with
				// it. Not for simulations: a trace runs in Go for the most part, and would keep one
				// of Go's processors from the others while the system keeps its thread waiting. It
				// yields instead.
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

// Run runs f and returns its error: in the short lane at once, if there is a place, and in the long
// one if it says ErrLong. gone tells whether nobody waits for it any more, which is asked before it
// runs in the long lane; nil: somebody does.
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

// RunLong runs f in the long lane at once: of a call that is known to be long.
func (p *Pool) RunLong(who fair.Client, f Func, gone func() bool) error {
	j := p.job(who, f, gone)
	p.went.Add(1)
	err := p.runLong(long, j)
	p.put(j)
	return err
}

// RunAside runs f in the lane of simulations.
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

// enter queues a call; the lock is held.
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

// runShort runs a call in its own goroutine, when it has a place.
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

// runLong has a worker run a call.
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
	j.left = !j.begun // what has begun ends by its own questions
	p.mu.Unlock()
	if j.left {
		p.timedOut.Add(1)
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	<-j.turn
	return j.err
}

// Close lets the calls that run end, at their next question, and answers the others.
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

// work is a worker of a long lane.
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

// lookEvery is how many questions have one answer, since looking at the clock takes a quarter of a
// host call. Gas bounds what lies between.
const lookEvery = 16

// interrupt tells whether the job has to end.
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
