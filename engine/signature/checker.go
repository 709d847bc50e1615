// Package signature checks transactions' signatures once: a few goroutines do the work in batches, and what was found good
// is remembered, so that applying a chunk does not do it again.
//
//	in      signed transactions, from any goroutine
//	out     whether the signature is the key's
//	state   Checker: a queue, workers, and the good ones of late
//	units   none
//	bound   one goroutine a core, and those who ask; a queue of QueueLen, beyond which callers wait; Memory transactions remembered
//	errors  none: a signature is good or not; a panic of the verifier is that of the caller whose check it was
//	source  our own; an ed25519 check takes 45 µs, a thousand times what asking a mailbox takes
package signature

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds.
const (
	QueueLen = 4096
	MaxBatch = 64      // signatures a worker takes at a time
	Memory   = 1 << 18 // good transactions remembered, at the most
	keys     = 8192    // public keys whose tables are kept
)

// Checker is safe for concurrent use.
type Checker struct {
	verify  func(primitives.Signature, []byte, primitives.PublicKey) bool
	queue   chan *job
	stop    chan struct{}
	done    sync.WaitGroup
	closing sync.Once

	allowed     atomic.Pointer[allowlist]       // nil: nobody is
	allowedOnce atomic.Pointer[primitives.Hash] // of Excuse
	mu          sync.RWMutex
	young, old  map[primitives.Hash]primitives.Signature // by transaction hash, which does not cover the signature
}

type job struct {
	tx    *primitives.SignedTransaction
	ok    bool
	panic any // of the verifier: it is whose check this is who shall fail, not the worker
	wg    *sync.WaitGroup
}

// check verifies one signature.
func (c *Checker) check(j *job) {
	defer func() { j.panic = recover() }()
	hash := j.tx.Hash()
	j.ok = c.unsigned(j.tx) || c.verify(j.tx.Signature, hash[:], j.tx.PublicKey)
}

// New starts a checker with a goroutine for each core.
func New() *Checker {
	c := &Checker{
		verify: primitives.NewVerifier(keys).Verify, queue: make(chan *job, QueueLen), stop: make(chan struct{}),
		young: map[primitives.Hash]primitives.Signature{},
	}
	for range runtime.GOMAXPROCS(0) {
		c.done.Add(1)
		go c.work()
	}
	return c
}

// Close ends the goroutines. Checks go on, on their callers' goroutines.
func (c *Checker) Close() {
	c.closing.Do(func() { close(c.stop) })
	c.done.Wait()
}

func (c *Checker) work() {
	defer c.done.Done()
	batch := make([]*job, 0, MaxBatch)
	for {
		select {
		case j := <-c.queue:
			batch = append(batch[:0], j)
		case <-c.stop:
			for { // nobody is left waiting
				select {
				case j := <-c.queue:
					c.run([]*job{j})
				default:
					return
				}
			}
		}
		share := len(c.queue)/runtime.GOMAXPROCS(0) + 1 // leaves the other workers theirs
	more:
		for len(batch) < min(share, MaxBatch) {
			select {
			case j := <-c.queue:
				batch = append(batch, j)
			default:
				break more
			}
		}
		c.run(batch)
	}
}

func (c *Checker) run(batch []*job) {
	for _, j := range batch {
		c.check(j)
	}
	c.remember(batch)
	for _, j := range batch {
		j.wg.Done()
	}
}

func (c *Checker) remember(batch []*job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range batch {
		if j.ok {
			c.young[j.tx.Hash()] = j.tx.Signature
		}
	}
	if len(c.young) >= Memory/2 {
		c.old, c.young = c.young, make(map[primitives.Hash]primitives.Signature, 1024)
	}
}

// Known tells whether this signature of this transaction was found good before.
func (c *Checker) Known(tx *primitives.SignedTransaction) bool {
	hash := tx.Hash()
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.young[hash]
	if !ok {
		s, ok = c.old[hash]
	}
	return ok && s == tx.Signature
}

// Check tells whether the signature is good; who asks does the work, as he would only wait for a worker. It is the
// verify.SignatureFunc of the door and of the engine.
func (c *Checker) Check(tx *primitives.SignedTransaction) bool {
	if c.Known(tx) {
		return true
	}
	var wg sync.WaitGroup
	j := job{tx: tx, wg: &wg}
	wg.Add(1)
	c.run([]*job{&j})
	if j.panic != nil {
		panic(j.panic)
	}
	return j.ok
}

// CheckAll checks many at once and reports for each whether it is good. Who asks does one by himself: of one transaction, as they come where a node is not busy, a
// worker would cost two changes of goroutines beside.
func (c *Checker) CheckAll(txs []*primitives.SignedTransaction) []bool {
	var wg sync.WaitGroup
	jobs := make([]job, len(txs))
	out := make([]bool, len(txs))
	var own *job
	for i, tx := range txs {
		if out[i] = c.Known(tx); out[i] {
			continue
		}
		jobs[i] = job{tx: tx, wg: &wg}
		wg.Add(1)
		if own != nil && !c.put(own) {
			c.run([]*job{own})
		}
		own = &jobs[i]
	}
	if own != nil {
		c.run([]*job{own})
	}
	wg.Wait()
	for i := range jobs {
		if jobs[i].panic != nil {
			panic(jobs[i].panic)
		}
		out[i] = out[i] || jobs[i].ok
	}
	return out
}

// put queues j; false if the workers are gone.
func (c *Checker) put(j *job) bool {
	select {
	case <-c.stop:
		return false
	default:
	}
	select {
	case c.queue <- j:
	case <-c.stop:
		return false
	}
	select {
	case <-c.stop: // the workers may have looked for the last time already
		select {
		case other := <-c.queue:
			c.run([]*job{other})
		default:
		}
	default:
	}
	return true
}

// Child returns a checker without workers or a queue: who asks checks. It has the same keys ready, exempts whom c does
// at first, and remembers and exempts by itself. There is nothing to close.
func (c *Checker) Child() *Checker {
	k := &Checker{verify: c.verify, stop: make(chan struct{}), young: map[primitives.Hash]primitives.Signature{}}
	k.Close()
	k.allowed.Store(c.allowed.Load())
	return k
}
