package txlog

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Options configure a Log.
type Options struct {
	Out io.Writer
	// Accounts selects transactions by account: one of Accounts is the signer, the receiver, or the
	// receiver of one of the transaction's receipts. Empty: all transactions.
	Accounts []primitives.AccountID
	// FailedOnly selects the transactions that failed, or of which a receipt failed.
	FailedOnly bool
	// Failed is called once, after a write to Out has failed. nil: it is not called.
	Failed func()
	// Queue is the maximum memory in bytes of the blocks that wait for the terminal. 0:
	// defaultQueue.
	Queue int
}

// defaultQueue is the memory of about three seconds of blocks at full load.
const defaultQueue = 64 << 20

// closeLimit is the maximum time for which Close waits for the terminal.
const closeLimit = time.Second

// Log writes transactions to a terminal. Observe never waits for the terminal: a goroutine formats
// and writes. Safe for concurrent use.
type Log struct {
	o       Options
	tracker *tracker // used only by the log's goroutine

	mu     sync.Mutex
	queue  []entry
	queued int // sum of the weights of the queued blocks
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{} // closed when the goroutine has ended
}

// entry is a block. If block is nil, the entry replaces dropped blocks, and lost is their number of
// transactions.
type entry struct {
	block *block
	lost  int
}

// block is the part of an accepted block that the log uses.
type block struct {
	hash, prev primitives.Hash
	height     primitives.Height
	head       bool
	shards     []shard
	weight     int // approximate bytes of memory
}

type shard struct {
	transactions []*primitives.SignedTransaction
	outcomes     []primitives.OutcomeWithID
	outgoing     []*primitives.Receipt
}

// transactions returns the number of transactions in the block.
func (b *block) transactions() (n int) {
	for i := range b.shards {
		n += len(b.shards[i].transactions)
	}
	return n
}

// New starts a log. Close ends it.
func New(o Options) *Log {
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	l := &Log{o: o, tracker: newTracker(&o), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// Observe queues a block that the node has accepted. Observe never waits. The log keeps parts of m,
// so the caller must not change m.
func (l *Log) Observe(m *messages.BlockAccepted) {
	b := &block{hash: m.Hash, prev: m.Block.Header.PrevHash, height: m.Height(), head: m.IsHead, weight: weightBlock}
	for i := range m.Shards {
		s := &m.Shards[i]
		if s.Chunk == nil && len(s.Outcomes) == 0 {
			continue
		}
		part := shard{outcomes: s.Outcomes, outgoing: s.Outgoing}
		if s.Chunk != nil {
			part.transactions = s.Chunk.Transactions
		}
		b.shards, b.weight = append(b.shards, part), b.weight+part.weight()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	last := len(l.queue) - 1
	switch {
	case last < 0 || l.queued+b.weight <= l.o.Queue && l.queue[last].block != nil:
		l.queue, l.queued = append(l.queue, entry{block: b}), l.queued+b.weight
	case l.queue[last].block == nil: // blocks are dropped until the goroutine has emptied the queue
		l.queue[last].lost += b.transactions()
	default:
		l.queue = append(l.queue, entry{lost: b.transactions()})
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close writes the queued blocks, for at most closeLimit, and ends the log.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.wake)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(closeLimit): // the terminal does not accept output
	}
}

func (l *Log) run() {
	defer close(l.done)
	var out bytes.Buffer
	for open := true; open; {
		_, open = <-l.wake
		l.mu.Lock()
		list := l.queue
		l.queue, l.queued = nil, 0
		l.mu.Unlock()
		for i := range list {
			out.Reset()
			if b := list[i].block; b != nil {
				l.tracker.accept(b, &out)
			} else if n := list[i].lost + l.tracker.forget(); n > 0 {
				fmt.Fprintf(&out, "%s not shown: the terminal is slower than the chain\n", count(n, "transaction"))
			}
			list[i] = entry{}
			if out.Len() == 0 {
				continue
			}
			if _, err := l.o.Out.Write(out.Bytes()); err != nil {
				l.mu.Lock()
				l.closed, l.queue = true, nil
				l.mu.Unlock()
				if l.o.Failed != nil {
					l.o.Failed()
				}
				return
			}
		}
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
