// Package signature verifies signatures of transactions once: a few goroutines work in batches, and
// valid ones are remembered, so that applying a chunk does not verify them again. It also caches
// validators' signatures.
//
//	in      signed transactions, from any goroutine
//	out     whether the signature is the key's
//	state   Checker: a queue, workers, recent valid transactions; CachedVerifier: a table of hashes
//	units   none
//	bound   one goroutine a core, and the callers'; a queue of QueueLen, beyond which callers
//	        wait; Memory transactions
//	errors  none: a signature is valid or not; a panic of the verifier is raised in its caller
//	source  our own; an ed25519 check takes 45 µs, a thousand times a message to a mailbox
package signature

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Checker.
const (
	QueueLen = 4096
	MaxBatch = 64      // signatures that a worker takes at a time
	Memory   = 1 << 18 // valid transactions remembered at most
	keys     = 8192    // public keys with cached tables
)

// Checker verifies and remembers signatures of transactions. Safe for concurrent use.
type Checker struct {
	verify  func(primitives.Signature, []byte, primitives.PublicKey) bool
	queue   chan *job
	stop    chan struct{}
	done    sync.WaitGroup
	closing sync.Once

	allowed     atomic.Pointer[allowlist]       // nil: every transaction must be signed
	allowedOnce atomic.Pointer[primitives.Hash] // of AllowOnce; nil: none
	mu          sync.RWMutex
	// By transaction hash, which does not cover the signature. When young is half of Memory, it
	// becomes old.
	young, old map[primitives.Hash]primitives.Signature
}

type job struct {
	tx    *primitives.SignedTransaction
	ok    bool
	panic any // of the verifier: raised in the caller, not in the worker
	wg    *sync.WaitGroup
}

// check verifies one signature.
func (c *Checker) check(j *job) {
	defer func() { j.panic = recover() }()
	hash := j.tx.Hash()
	j.ok = c.unsigned(j.tx) || c.verify(j.tx.Signature, hash[:], j.tx.PublicKey)
}

// New starts a checker with one worker goroutine for each core. The caller calls Close.
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

// Close ends the workers. Later checks run on their callers' goroutines. It may be called more than
// once.
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
			for { // finish what is queued
				select {
				case j := <-c.queue:
					c.run([]*job{j})
				default:
					return
				}
			}
		}
		share := len(c.queue)/runtime.GOMAXPROCS(0) + 1 // leave the other workers their share
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

// Known reports whether this signature of this transaction was verified before.
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

// Check reports whether the signature is valid. It verifies on the caller's goroutine, which would
// otherwise only wait for a worker. It is the verify.SignatureFunc of the RPC and the engine.
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

// CheckAll verifies many transactions and reports for each whether its signature is valid. The
// caller verifies one of them itself: for a single transaction, the usual case on an idle node, a
// worker would cost two goroutine switches.
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

// put queues j and returns false if the workers have ended.
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

// Child returns a checker without workers or queue: callers verify. It shares the verifier's key
// tables, starts with c's allowlist, and has its own memory and allowlist. It needs no Close.
func (c *Checker) Child() *Checker {
	k := &Checker{verify: c.verify, stop: make(chan struct{}), young: map[primitives.Hash]primitives.Signature{}}
	k.Close()
	k.allowed.Store(c.allowed.Load())
	return k
}
