package anchor

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Queue. A witness in parts of the usual size fits; one of the largest may not.
const (
	MaxQueued      = 1024     // messages
	MaxQueuedBytes = 64 << 20 // bytes of their parts
	// share is the part of both bounds that the messages of one signer may take.
	share = 4
	// messageBytes is what a message counts besides its parts.
	messageBytes = 512
)

// Queue keeps messages that cannot be checked before their chunk's parent is known. nearcore drops
// them. Not safe for concurrent use.
//
// # Early messages
//
// Problem. At an epoch's end, after skipped heights, and on a node that is two blocks behind, the
// producer of a chunk is not known when its messages arrive. They are not sent again, so a chunk
// validator that drops them does not endorse the chunk. But what is kept is not checked either.
//
// Invariants.
//
//   - The caller queues only messages that some chunk producer of the shard has signed. So a peer
//     without such a key can fill nothing.
//   - One signer has at most a quarter. If the queue is full, the signer with the most bytes loses
//     its oldest messages, so that one cannot evict the few of another.
//   - A message waits once: the caller does not queue it again when it is taken.
//   - Nothing stays longer than until the final block reaches the height of its chunk.
//
// Rejected: a queue of unsigned messages by sending peer, since messages are routed and the relaying
// peer is not their author.
type Queue[M any] struct {
	// Counters count what becomes of the messages. Not nil.
	Counters *Counters

	waiting []queued[M] // oldest first
	bytes   int
}

type queued[M any] struct {
	Entry
	message M
}

// Entry describes a waiting message.
type Entry struct {
	Parent primitives.Hash      // the block that it waits for
	Height primitives.Height    // of the chunk
	Signer primitives.AccountID // the chunk producer that has signed it
	// Kind tells apart the messages of one signer about one chunk, for instance the parts of a
	// witness. A second one of a kind is not queued.
	Kind any
	Size int // bytes of its parts
}

// NewQueue returns an empty queue with Counters of its own.
func NewQueue[M any]() *Queue[M] { return &Queue[M]{Counters: new(Counters)} }

// Put queues a message. Errors: ErrEarly with the reason why it was not queued.
func (q *Queue[M]) Put(e Entry, m M) error {
	e.Size += messageBytes
	count, bytes := 0, e.Size
	for i := range q.waiting {
		x := &q.waiting[i].Entry
		if x.Signer != e.Signer {
			continue
		}
		if x.Parent == e.Parent && x.Height == e.Height && x.Kind == e.Kind {
			return fmt.Errorf("%w: it waits already", ErrEarly)
		}
		count++
		bytes += x.Size
	}
	if count >= MaxQueued/share || bytes > MaxQueuedBytes/share {
		q.Counters.Refused.Add(1)
		return fmt.Errorf("%w: %d messages of %s, with %d bytes in all, would be too many to wait", ErrEarly, count+1, e.Signer, bytes)
	}
	q.waiting = append(q.waiting, queued[M]{e, m})
	q.bytes += e.Size
	q.Counters.Queued.Add(1)
	for len(q.waiting) > MaxQueued || q.bytes > MaxQueuedBytes {
		q.evict()
	}
	q.publish()
	return nil
}

// evict drops the oldest message of the signer with the most bytes.
func (q *Queue[M]) evict() {
	taken, most := map[primitives.AccountID]int{}, 0
	for i := range q.waiting {
		x := &q.waiting[i].Entry
		taken[x.Signer] += x.Size
		most = max(most, taken[x.Signer])
	}
	i := slices.IndexFunc(q.waiting, func(x queued[M]) bool { return taken[x.Signer] == most })
	q.bytes -= q.waiting[i].Size
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.Counters.Evicted.Add(1)
}

// Take removes the messages that wait for a block and returns them, oldest first.
func (q *Queue[M]) Take(parent primitives.Hash) (out []M) {
	q.remove(func(x *queued[M]) bool {
		if x.Parent != parent {
			return false
		}
		out = append(out, x.message)
		return true
	})
	q.Counters.Taken.Add(uint64(len(out)))
	return out
}

// DropTo drops the messages about chunks of heights up to that of the final block.
func (q *Queue[M]) DropTo(final primitives.Height) {
	before := len(q.waiting)
	q.remove(func(x *queued[M]) bool { return x.Height <= final })
	q.Counters.Expired.Add(uint64(before - len(q.waiting)))
}

func (q *Queue[M]) remove(which func(x *queued[M]) bool) {
	if len(q.waiting) == 0 {
		return
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(x queued[M]) bool {
		gone := which(&x)
		if gone {
			q.bytes -= x.Size
		}
		return gone
	})
	q.publish()
}

// publish sets the gauges to what this queue has. A node has one queue of each kind of message, and
// each of them has Counters of its own.
func (q *Queue[M]) publish() {
	q.Counters.Waiting.Store(int64(len(q.waiting)))
	q.Counters.WaitingBytes.Store(int64(q.bytes))
}

// Len returns the number of waiting messages, and their bytes.
func (q *Queue[M]) Len() (messages, bytes int) { return len(q.waiting), q.bytes }
