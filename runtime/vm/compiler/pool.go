package compiler

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Options configure a pool.
type Options struct {
	Command Command // starts a child; empty Path: compile in this process
	Version string  // the version that children must report
	// Compile compiles in this process. The pool uses Compile if Command is empty or no child can
	// be started.
	Compile func(wasm []byte) ([]byte, error)
	// Total is the number of compilations that may run at a time; 0: one per core, at least 2. At
	// most half of Total, but at least 1, may be background compilations.
	Total int
	Idle  time.Duration // time after which an idle child is ended; 0: DefaultIdle
	Hang  time.Duration // a child that uses no processor time for this long is ended; 0: DefaultHang
	Pause time.Duration // first pause before a retry, if a block waits and the machine failed; 0: DefaultPause
	Dir   string        // folder of the quarantine; empty: memory only
	Build string        // identifies this binary; the quarantine drops the marks of other binaries
	Alarm func(error)   // receives unexpected events; nil: they are dropped
	// Limits returns the limits for a contract of size bytes. See LimitsOf about again. nil:
	// LimitsOf.
	Limits func(size int, again bool) Limits
}

// Defaults of Options.
const (
	DefaultIdle = 30 * time.Second
	DefaultHang = time.Minute
	// DefaultPause makes all retries together wait 6 s if memory is short, and 34 s if children are
	// killed.
	DefaultPause = 200 * time.Millisecond
)

// Pool compiles modules. Safe for concurrent use.
type Pool struct {
	o     Options
	gate  gate
	marks *Quarantine

	starts   chan chan<- started // requests to the starter thread
	starting sync.Once

	mu     sync.Mutex
	idle   []*process // least recently used first
	all    map[*process]struct{}
	closed chan struct{}
	stats  Stats

	// Alarm was called because no child could be started; the pool calls Alarm only once for this
	// reason
	unstartable atomic.Bool
}

type started struct {
	p   *process
	err error
}

// Stats are counts since the start, except for Running, Children and Quarantined.
type Stats struct {
	Running     int
	Children    int
	Started     uint64 // started children
	Retired     uint64 // children ended because their memory had grown
	Deaths      uint64 // children that died during a compilation, except those that the pool ended
	Retries     uint64 // attempts of all jobs, without the first attempt of each
	Failed      uint64 // compilations without success after all attempts
	Refused     uint64 // compilations not attempted because the code is in quarantine
	Cancelled   uint64
	InProcess   uint64 // compilations in this process
	OverBound   uint64 // compilations that exceeded BoundOf
	Quarantined int
}

// New returns a pool. New starts no child.
func New(o Options) *Pool {
	o.Total = cmp.Or(o.Total, max(runtime.GOMAXPROCS(0), 2))
	o.Pause = cmp.Or(o.Pause, DefaultPause)
	o.Idle, o.Hang = cmp.Or(o.Idle, DefaultIdle), cmp.Or(o.Hang, DefaultHang)
	if o.Alarm == nil {
		o.Alarm = func(error) {}
	}
	if o.Limits == nil {
		o.Limits = LimitsOf
	}
	return &Pool{
		o: o, gate: gate{total: o.Total, maxBackground: max(o.Total/2, 1), memory: inBackground}, marks: OpenQuarantine(o.Dir, o.Build),
		starts: make(chan chan<- started), all: map[*process]struct{}{}, closed: make(chan struct{}),
	}
}

// Apart returns whether child processes compile.
func (p *Pool) Apart() bool { return p.o.Command.Path != "" }

// Background returns how many background compilations can run at a time.
func (p *Pool) Background() int { return p.gate.maxBackground }

// Job is a compilation.
type Job struct {
	Name       string          // identifies the code, the rules and the form of the module; valid as a file name
	Code       primitives.Hash // hash of the contract
	Size       int             // length of the contract's code
	Background bool            // no block waits for the job
	Placed     bool            // the caller has called Ahead for this job, so Compile does not enter the gate
	Cancel     <-chan struct{} // closed when the caller no longer needs the result
	// Prepare makes the module when the job begins. A panic counts as a failure of the compiler. An
	// error is returned to the caller of Compile.
	Prepare func() (wasm []byte, err error)
	// File, if not nil, creates an empty file for the artifact and returns its name; empty if there
	// is no file. Compile calls File at most once. If a child has written the artifact to the file,
	// Compile calls Wrote and returns no code. Otherwise the caller removes the file.
	File  func() string
	Wrote func(path string, w Written)
}

// Compile runs the job and returns the artifact. It returns nil without an error if Prepare returns
// nil without an error, or if Wrote was called.
func (p *Pool) Compile(j *Job) ([]byte, error) {
	if err := p.barred(j); err != nil {
		return nil, err
	}
	if !j.Placed {
		weight := weightOf(j.Size)
		if !p.gate.enter(j.Background, weight, j.Cancel) {
			return nil, p.stopped()
		}
		defer p.gate.leave(j.Background, weight)
	}
	p.count(func(s *Stats) { s.Running++ })
	defer p.count(func(s *Stats) { s.Running-- })
	if err := p.barred(j); err != nil { // another job may have failed on this code while this job waited
		return nil, err
	}
	wasm, err := prepare(j)
	var e *Error
	if err == nil && wasm == nil || err != nil && !errors.As(err, &e) {
		return nil, err
	}
	var code []byte
	if err == nil {
		code, err = p.compile(j, wasm)
	}
	switch {
	case err == nil:
		p.marks.Clear(j.Name)
	case errors.As(err, &e):
		p.marks.Bar(j.Name, e.Reason)
		p.count(func(s *Stats) { s.Failed++ })
	default: // the error says nothing about the code
		p.marks.Unmark(j.Name)
	}
	return code, err
}

// Ahead waits until a compilation that a block will soon need may begin (see gate). size is the
// length of the code. After Ahead, the caller compiles with Job.Placed, and calls leave. ok is
// false if the pool was closed. During Ahead, the caller has not yet started the build in the
// cache. So a block that needs the code in the meantime compiles the code and does not wait for
// Ahead.
func (p *Pool) Ahead(size int) (leave func(), ok bool) {
	weight := weightOf(size)
	if !p.gate.enterAhead(weight) {
		return nil, false
	}
	return func() { p.gate.leaveAhead(weight) }, true
}

// barred returns an error if j is a background job whose code is in quarantine.
func (p *Pool) barred(j *Job) error {
	why, barred := p.marks.Barred(j.Name)
	if !barred || !j.Background {
		return nil
	}
	p.count(func(s *Stats) { s.Refused++ })
	return &Error{Reason: why}
}

func prepare(j *Job) (wasm []byte, err error) {
	defer func() {
		if why := recover(); why != nil {
			stack := make([]byte, 2048)
			wasm, err = nil, &Error{Reason: fmt.Sprintf("prepare: %v\n%s", why, stack[:runtime.Stack(stack, false)]), Attempts: 1}
		}
	}()
	return j.Prepare()
}

func (p *Pool) stopped() error {
	select {
	case <-p.closed:
		return ErrClosed
	default:
		p.count(func(s *Stats) { s.Cancelled++ })
		return ErrCancelled
	}
}

// attempts is the maximum number of attempts per kind of failure: first for background jobs, then
// for jobs that a block waits for.
var attempts = [kinds][2]int{crashed: {2, 3}, limited: {1, 2}, refused: {1, 2}, killedByOther: {5, 20}, starved: {1, 6}, badFile: {2, 2}}

// wait pauses before another attempt. wait pauses only for a job that a block waits for, and only
// after a failure of the machine, which may recover. Giving up would stop the node. wait returns
// false if the job was cancelled or the pool closed.
func (p *Pool) wait(j *Job, f *failure, tried int) bool {
	if j.Background || f.kind != killedByOther && f.kind != starved {
		return true
	}
	pause := time.NewTimer(p.o.Pause * time.Duration(min(1<<min(tried-1, 10), 10)))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-j.Cancel:
	case <-p.closed:
	}
	return false
}

func (p *Pool) compile(j *Job, wasm []byte) ([]byte, error) {
	if p.o.Command.Path == "" {
		return p.compileInProcess(j, wasm)
	}
	p.marks.Mark(j.Name, InChild)
	most := 1
	if j.Background {
		most = 0
	}
	var tried [kinds]int
	file := ""
	if j.File != nil {
		file = j.File()
	}
	for n := 1; ; n++ {
		reply, err := p.attempt(j, &Request{Background: j.Background, Code: j.Code,
			Limits: p.o.Limits(j.Size, tried[limited]+tried[starved] > 0), File: file, Wasm: wasm})
		if err == nil {
			if p.reportOverBound(j, reply); reply.InFile {
				j.Wrote(file, reply.written())
				return nil, nil
			}
			return reply.Body, nil
		}
		if p.isClosed() {
			return nil, ErrClosed
		}
		var no *startError
		if errors.As(err, &no) {
			if !p.unstartable.Swap(true) {
				p.o.Alarm(fmt.Errorf("compiler: no compiler process can be started, so contracts are compiled in "+
					"the node's process: %w", err))
			}
			return p.compileInProcess(j, wasm)
		}
		var f *failure
		if !errors.As(err, &f) {
			p.count(func(s *Stats) { s.Cancelled++ })
			return nil, err
		}
		p.count(func(s *Stats) { s.Deaths++ })
		if tried[f.kind]++; tried[f.kind] >= attempts[f.kind][most] {
			return nil, &Error{Reason: f.reason, Attempts: n, Limits: f.kind == limited || f.kind == starved}
		}
		p.count(func(s *Stats) { s.Retries++ })
		if f.kind == badFile { // the disk failed, or another process removed the file; the next attempt uses the pipe
			file = ""
		}
		if !p.wait(j, f, tried[f.kind]) {
			return nil, p.stopped()
		}
	}
}

// attempt makes one attempt to compile r in a child.
func (p *Pool) attempt(j *Job, r *Request) (*Reply, error) {
	c, err := p.take(j.Background)
	if err != nil {
		return nil, err
	}
	reply, err := c.do(r, j.Cancel, p.o.Hang)
	if err != nil {
		p.drop(c)
		return nil, err
	}
	p.give(c, reply.Retire || c.killed())
	return reply, nil
}

// compileInProcess compiles in this process, without limits.
func (p *Pool) compileInProcess(j *Job, wasm []byte) ([]byte, error) {
	p.count(func(s *Stats) { s.InProcess++ })
	p.marks.Mark(j.Name, InProcess)
	code, err := p.o.Compile(wasm)
	if err == nil || errors.Is(err, ErrClosed) {
		return code, err
	}
	return nil, &Error{Reason: err.Error(), Attempts: 1}
}

// reportOverBound counts a compilation that exceeded BoundOf. reportOverBound also raises an alarm
// if the artifact exceeded BoundOf.
func (p *Pool) reportOverBound(j *Job, r *Reply) {
	b := BoundOf(j.Size)
	if r.CPU <= b.CPU && r.size() <= b.Output {
		return
	}
	p.count(func(s *Stats) { s.OverBound++ })
	if r.size() > b.Output { // unlike processor time, the size does not depend on the machine
		p.o.Alarm(fmt.Errorf("compiler: contract %v of %d bytes compiled to %d bytes, more than the bound of %d",
			j.Code, j.Size, r.size(), b.Output))
	}
}

// take returns a live child: an idle child, or a new child. A background job never shares a child
// with a job of another kind, because background children have a low priority.
func (p *Pool) take(low bool) (*process, error) {
	for {
		p.mu.Lock()
		n := len(p.idle) - 1
		for n >= 0 && p.idle[n].low != low {
			n--
		}
		if n < 0 {
			p.mu.Unlock()
			break
		}
		c := p.idle[n]
		p.idle = slices.Delete(p.idle, n, n+1)
		c.idle.Stop()
		p.mu.Unlock()
		if c.alive() {
			return c, nil
		}
		p.drop(c) // the child died while it was idle
	}
	var err error
	for range 3 {
		var c *process
		if c, err = p.begin(); err == nil {
			c.low = low
			return c, nil
		}
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		var f *failure
		if errors.As(err, &f) && f.kind == killedByOther { // another child may still be started
			return nil, err
		}
	}
	return nil, &startError{err}
}

// startError means that no child can be started.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

// begin starts a child on the starter's thread.
func (p *Pool) begin() (*process, error) {
	p.starting.Do(func() { go p.starter() })
	answer := make(chan started, 1)
	select {
	case p.starts <- answer:
	case <-p.closed:
		return nil, ErrClosed
	}
	s := <-answer
	if s.err != nil {
		return nil, s.err
	}
	if err := s.p.greet(p.o.Version); err != nil {
		p.drop(s.p)
		if p.isClosed() {
			err = ErrClosed
		}
		return nil, err
	}
	return s.p, nil
}

// starter starts all children on one thread that lives as long as the pool, because a child dies
// with the thread that started it.
func (p *Pool) starter() {
	runtime.LockOSThread()
	for {
		select {
		case <-p.closed:
			return
		case answer := <-p.starts:
			c, err := start(p.o.Command)
			if err == nil {
				p.mu.Lock()
				p.all[c] = struct{}{}
				p.stats.Started++
				p.mu.Unlock()
				if p.isClosed() {
					c.kill(ErrClosed)
				}
			}
			answer <- started{c, err}
		}
	}
}

// give returns an idle child to the pool. If retire is set, give ends the child instead.
func (p *Pool) give(c *process, retire bool) {
	p.mu.Lock()
	if retire || p.isClosed() {
		if retire {
			p.stats.Retired++
		}
		p.mu.Unlock()
		p.drop(c)
		return
	}
	c.idle = time.AfterFunc(p.o.Idle, func() { p.expire(c) })
	p.idle = append(p.idle, c)
	p.mu.Unlock()
}

// expire ends a child if the child is still idle.
func (p *Pool) expire(c *process) {
	p.mu.Lock()
	for i, other := range p.idle {
		if other == c {
			p.idle = append(p.idle[:i:i], p.idle[i+1:]...)
			p.mu.Unlock()
			p.drop(c)
			return
		}
	}
	p.mu.Unlock()
}

// drop removes a child from the pool and ends the child.
func (p *Pool) drop(c *process) {
	c.end()
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
}

func (p *Pool) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *Pool) count(f func(*Stats)) {
	p.mu.Lock()
	f(&p.stats)
	p.mu.Unlock()
}

// Stats returns the counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	s := p.stats
	s.Children = len(p.all)
	p.mu.Unlock()
	s.Quarantined = p.marks.Len()
	return s
}

// Children returns the process ids of all live children.
func (p *Pool) Children() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int
	for c := range p.all {
		out = append(out, c.cmd.Process.Pid)
	}
	return out
}

// Close kills the children and makes all waiting jobs fail. Close does not wait for the children to
// end.
func (p *Pool) Close() {
	p.mu.Lock()
	if p.isClosed() {
		p.mu.Unlock()
		return
	}
	close(p.closed)
	for c := range p.all {
		c.kill(ErrClosed)
		if c.idle != nil {
			c.idle.Stop()
		}
	}
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	p.gate.close()
	for _, c := range idle {
		p.drop(c)
	}
}
