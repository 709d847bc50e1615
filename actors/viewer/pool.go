// Package viewer runs contract calls that change nothing, beside the chain and never in its way.
//
//	in      functions, from any goroutine; each is told in which lane it runs, and gets a way to ask whether its time is over
//	out     nothing, once the function has returned; or why it was not run or not finished
//	state   Pool: two queues, workers, counts
//	units   time
//	bound   Options.Short and Options.Long at a time, Options.Queue waiting for each, Options.Timeout for all of it together
//	errors  view.ErrTooManyRequests when a queue is full; view.ErrTimeout; ErrClosed; ErrGone; *PanicError, and the worker
//	        goes on
//	source  our own; neard has view_client_threads, and no bound
//
// Every call begins in the short lane, on half of the cores. One that turns out to be long (ErrLong) starts again, which
// it may since it changed nothing, in the long lane, whose threads have a low priority and leave half of the cores alone:
// the system lets a thread that runs go on for some milliseconds, however low it is. Only there, since a goroutine that has
// a thread of its own costs 10 µs more a call, and most calls take less than 50.
package viewer

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// Defaults of Options.
const (
	DefaultQueue   = 4096
	DefaultTimeout = 10 * time.Second
)

var (
	// ErrClosed is the error of calls that come, or still wait, when the pool is closed.
	ErrClosed = errors.New("viewer: the node is stopping")
	// ErrGone is the error of a long call for whose answer nobody waits.
	ErrGone = errors.New("viewer: the client is gone")
	// ErrLong is what a function in the short lane returns to be run in the long one.
	ErrLong = errors.New("viewer: a long call")
)

// Options are the bounds of a Pool; zeros are replaced by the defaults.
type Options struct {
	Short   int           // workers of the short lane: half as many as cores, at least one
	Long    int           // workers of the long lane: half as many as cores, at least one
	Queue   int           // calls that wait for a worker, in each lane
	Timeout time.Duration // from when a call comes to when it must be over
	// Alarm is told of each *PanicError, by the worker; nil: nobody.
	Alarm func(*PanicError)
}

// Func is a call. Not short: it may take its time; else it returns ErrLong rather than that. It asks interrupt now and then and
// ends with its error, if there is one: view.ErrTimeout or ErrClosed.
type Func func(short bool, interrupt func() error) error

// Pool is safe for concurrent use.
type Pool struct {
	o           Options
	short, long chan *job
	stop        chan struct{}
	all         sync.WaitGroup
	jobs        sync.Pool // used ones

	running                                       atomic.Int64
	done, went, refused, timedOut, gone, panicked atomic.Uint64
	nanos                                         atomic.Uint64
}

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
func (e *PanicError) Error() string { return fmt.Sprintf("viewer: a call failed: %v", e.Reason) }

type job struct {
	f        Func
	gone     func() bool
	deadline time.Time
	err      error
	ended    chan struct{} // one element
	stop     <-chan struct{}
	asked    uint32 // how often interrupt was
}

// New starts a pool.
func New(o Options) *Pool {
	cores := runtime.GOMAXPROCS(0)
	o.Short, o.Long = cmp.Or(o.Short, max(1, cores/2)), cmp.Or(o.Long, max(1, cores/2))
	o.Queue, o.Timeout = cmp.Or(o.Queue, DefaultQueue), cmp.Or(o.Timeout, DefaultTimeout)
	p := &Pool{o: o, short: make(chan *job, o.Queue), long: make(chan *job, o.Queue), stop: make(chan struct{})}
	p.jobs.New = func() any { return &job{ended: make(chan struct{}, 1)} }
	for range o.Short {
		p.all.Go(func() { p.work(p.short, true) })
	}
	for range o.Long {
		p.all.Go(func() {
			// The thread is this goroutine's alone, and so is its low priority; it ends with it.
			runtime.LockOSThread()
			lowPriority()
			p.work(p.long, false)
		})
	}
	return p
}

// Run runs f on a worker and returns its error. gone tells whether nobody waits for it any more, which is asked before it runs in
// the long lane; nil: somebody does.
func (p *Pool) Run(f Func, gone func() bool) error {
	select {
	case <-p.stop:
		return ErrClosed
	default:
	}
	j := p.jobs.Get().(*job)
	j.f, j.gone, j.deadline, j.err, j.stop, j.asked = f, gone, time.Now().Add(p.o.Timeout), nil, p.stop, 0
	select {
	case p.short <- j:
	default:
		p.refused.Add(1)
		return &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	select {
	case <-j.ended:
	case <-p.stop: // Close empties the queues, unless j came behind its back
		p.all.Wait()
		p.drain()
		<-j.ended
	}
	err := j.err
	j.f, j.gone = nil, nil
	p.jobs.Put(j)
	return err
}

// Close lets the calls that run end, at their next question, and answers the others.
func (p *Pool) Close() {
	close(p.stop)
	p.all.Wait()
	p.drain()
}

// drain answers what nobody will run.
func (p *Pool) drain() {
	for {
		select {
		case j := <-p.short:
			j.end(ErrClosed)
		case j := <-p.long:
			j.end(ErrClosed)
		default:
			return
		}
	}
}

// Stats returns the counts.
func (p *Pool) Stats() Stats {
	return Stats{
		Running: int(p.running.Load()), Waiting: len(p.short) + len(p.long), Done: p.done.Load(), Long: p.went.Load(),
		Refused: p.refused.Load(), TimedOut: p.timedOut.Load(), Gone: p.gone.Load(), Panicked: p.panicked.Load(), Busy: time.Duration(p.nanos.Load()),
	}
}

func (p *Pool) work(queue chan *job, short bool) {
	for {
		select {
		case <-p.stop:
			return
		case j := <-queue:
			err := p.run(j, short)
			if !short || err != ErrLong {
				j.end(err)
				continue
			}
			p.went.Add(1)
			select {
			case p.long <- j:
			default:
				p.refused.Add(1)
				j.end(&view.LookupError{Kind: view.ErrTooManyRequests})
			}
		}
	}
}

func (p *Pool) run(j *job, short bool) (err error) {
	start := time.Now()
	if start.After(j.deadline) {
		p.timedOut.Add(1)
		return &view.LookupError{Kind: view.ErrTimeout}
	}
	if !short && j.gone != nil && j.gone() {
		p.gone.Add(1)
		return ErrGone
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
		p.nanos.Add(uint64(time.Since(start)))
		p.done.Add(1)
		if errors.Is(err, view.ErrTimeout) {
			p.timedOut.Add(1)
		}
	}()
	return j.f(short, j.interrupt)
}

func (j *job) end(err error) {
	j.err = err
	j.ended <- struct{}{}
}

// lookEvery is how many questions have one answer, since looking at the clock takes a quarter of a host call. Gas bounds what
// lies between.
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
