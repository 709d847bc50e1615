// Package signature verifies the signatures of transactions, each signature only once. Batches are
// spread over several goroutines. Valid signatures are remembered, so that applying a chunk does
// not verify these signatures again. The package also caches the signatures of validators.
//
//	in      signed transactions, from any goroutine
//	out     whether the signature is valid
//	state   Checker: a queue, workers, recent valid transactions; CachedVerifier: a table of hashes
//	units   none
//	bound   one worker goroutine per core; QueueLen queued transactions, after which callers wait;
//	        Memory remembered transactions
//	errors  none: a signature is valid or not; a panic of the verifier is raised in its caller
//	source  our own; verifying an ed25519 signature takes 45 µs, a thousand times as long as
//	        sending a message to a mailbox
package signature

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Checker.
const (
	QueueLen = 4096
	MaxBatch = 64      // maximum number of transactions that a worker takes at a time
	Memory   = 1 << 18 // maximum number of valid transactions that are remembered
	keys     = 8192    // number of public keys whose tables the verifier caches
)

// Checker verifies signatures of transactions and remembers the valid ones. Safe for concurrent
// use.
type Checker struct {
	verify  func(primitives.Signature, []byte, primitives.PublicKey) bool
	queue   chan *job
	stop    chan struct{}
	done    sync.WaitGroup
	closing sync.Once

	allowed     atomic.Pointer[allowlist]       // accounts that need not sign; nil: none
	allowedOnce atomic.Pointer[primitives.Hash] // hash of the transaction that AllowOnce named; nil: none
	mu          sync.RWMutex
	// young and old have the valid signatures by transaction hash. The maps contain the signature
	// because the hash does not cover it. When young has Memory/2 entries, it replaces old.
	young, old map[primitives.Hash]primitives.Signature
}

type job struct {
	tx    *primitives.SignedTransaction
	ok    bool
	panic *parallel.Panic // panic of the verifier, which the caller raises again
	wg    *sync.WaitGroup
}

// check verifies one transaction and sets j.ok or j.panic.
func (c *Checker) check(j *job) {
	defer func() { j.panic = parallel.Recovered(recover()) }()
	hash := j.tx.Hash()
	j.ok = c.unsigned(j.tx) || c.verify(j.tx.Signature, hash[:], j.tx.PublicKey)
}

// New returns a checker with one worker goroutine per core. The caller has to call Close.
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

// Close ends the workers. Checks after Close run on their callers' goroutines. Further calls do
// nothing.
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
			for { // finish the queued jobs
				select {
				case j := <-c.queue:
					c.run([]*job{j})
				default:
					return
				}
			}
		}
		share := len(c.queue)/runtime.GOMAXPROCS(0) + 1 // take only this worker's share of the queue
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

// Known reports whether exactly this signature of the transaction was found valid before.
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

// Check reports whether the signature of a transaction is valid. Check verifies on the caller's
// goroutine, because handing the transaction to a worker would take longer. Check is the
// verify.SignatureFunc of the RPC and of the engine.
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

// CheckAll verifies transactions and reports for each whether its signature is valid. The caller
// verifies one transaction; the workers verify the rest. With a single transaction, the usual case
// on a node with little load, a worker would cost two goroutine switches.
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

// put queues j. put returns false, without queueing j, if the workers have ended.
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
	case <-c.stop: // run a job here, because the workers may have ended before one of them took j
		select {
		case other := <-c.queue:
			c.run([]*job{other})
		default:
		}
	default:
	}
	return true
}

// Child returns a checker without workers and queue, whose callers verify on their own goroutines.
// The child shares c's tables of decoded keys. The child's allowlist starts as a copy of c's
// allowlist. The child has its own memory of valid transactions, and need not be closed.
func (c *Checker) Child() *Checker {
	k := &Checker{verify: c.verify, stop: make(chan struct{}), young: map[primitives.Hash]primitives.Signature{}}
	k.Close()
	k.allowed.Store(c.allowed.Load())
	return k
}
