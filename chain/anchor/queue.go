package anchor

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Queue. All parts of a witness of usual size fit into it. The parts of a witness of
// the maximum size may not fit.
const (
	MaxQueued      = 1024     // maximum number of messages
	MaxQueuedBytes = 64 << 20 // maximum size of the messages' parts, in bytes
	// share is the divisor of MaxQueued and MaxQueuedBytes for one signer: the signer's messages
	// may take a quarter of each bound.
	share = 4
	// messageBytes is an overhead that is counted for each message in addition to its parts.
	messageBytes = 512
)

// Queue contains messages that cannot be checked before their chunk's parent is known. nearcore
// drops such messages. A Queue is not safe for concurrent use.
//
// # Early messages
//
// Problem. At the end of an epoch, after skipped heights, and on a node that is two blocks behind,
// the producer of a chunk cannot be determined when its messages arrive. These messages are not
// sent again, so a chunk validator that drops them cannot endorse the chunk. But messages that are
// queued instead have not been checked, so an attacker could fill the queue.
//
// Invariants.
//
//   - The caller queues only messages that a chunk producer of the shard has signed. So a peer
//     without such a key cannot fill the queue.
//   - One signer's messages take at most a quarter of the queue. If the queue is full, the oldest
//     message of the signer with the most bytes is evicted. So a signer with many messages cannot
//     evict the few messages of another signer.
//   - A message is queued once: the caller does not queue a message again after Take returned it.
//   - A message is dropped at the latest when the final block reaches the height of its chunk.
//
// Rejected: accepting unsigned messages and bounding their number for each sending peer. Peers
// route messages of other nodes, so the sending peer is usually not the author.
type Queue[M any] struct {
	// Counters count the outcomes of the messages. The pointer must not be nil.
	Counters *Counters

	waiting []queued[M] // oldest first
	bytes   int
}

type queued[M any] struct {
	Entry
	message M
}

// Entry describes a queued message.
type Entry struct {
	Parent primitives.Hash      // the unknown block that the message waits for
	Height primitives.Height    // height of the chunk
	Signer primitives.AccountID // the chunk producer that has signed it
	// Kind distinguishes the messages of one signer about one chunk, for instance the parts of a
	// witness. Its value must be comparable. Put refuses a second message of the signer about the
	// chunk with an equal Kind.
	Kind any
	Size int // bytes of the message's parts
}

// NewQueue returns an empty queue with its own Counters.
func NewQueue[M any]() *Queue[M] { return &Queue[M]{Counters: new(Counters)} }

// Put queues a message. If the message cannot be queued, the error is ErrEarly with the reason.
func (q *Queue[M]) Put(e Entry, m M) error {
	e.Size += messageBytes
	count, bytes := 0, e.Size
	for i := range q.waiting {
		x := &q.waiting[i].Entry
		if x.Signer != e.Signer {
			continue
		}
		if x.Parent == e.Parent && x.Height == e.Height && x.Kind == e.Kind {
			return fmt.Errorf("%w: a message of %s of the same kind, parent and height waits for it already", ErrEarly, e.Signer)
		}
		count++
		bytes += x.Size
	}
	if count >= MaxQueued/share || bytes > MaxQueuedBytes/share {
		q.Counters.Refused.Add(1)
		return fmt.Errorf("%w: with this message %s would have %d waiting messages of %d bytes, the limits are %d and %d",
			ErrEarly, e.Signer, count+1, bytes,
			MaxQueued/share, MaxQueuedBytes/share)
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

// evict removes the oldest message of the signer with the most bytes.
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

// Take removes the messages that wait for the block parent and returns them, oldest first.
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

// DropTo removes the messages about chunks up to the height of the final block.
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

// publish sets the Waiting gauges of Counters to the current length of the queue. Queues must not
// share Counters, because each would overwrite the gauges of the other.
func (q *Queue[M]) publish() {
	q.Counters.Waiting.Store(int64(len(q.waiting)))
	q.Counters.WaitingBytes.Store(int64(q.bytes))
}

// Len returns the number of waiting messages, and the sum of their bytes.
func (q *Queue[M]) Len() (messages, bytes int) { return len(q.waiting), q.bytes }
