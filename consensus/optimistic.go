package consensus

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// maxOptimisticAhead is the maximum number of heights by which an optimistic block may be above the
// height that this node expects next. A producer makes its optimistic block when its own timer
// reaches the height, and timers differ by less than one skip. nearcore accepts heights up to
// twenty epochs ahead. There, one optimistic block far ahead makes a node ignore all optimistic
// blocks below.
const maxOptimisticAhead = 2

// OptimisticCounters count optimistic blocks. Safe for concurrent use.
type OptimisticCounters struct {
	Produced atomic.Uint64 // sent by this node
	Invalid  atomic.Uint64
	Late     atomic.Uint64 // dropped because a block of the same height or of a greater height was known
	Failed   atomic.Uint64 // not applied, because a chunk is invalid or for another reason
	Applies  atomic.Uint64 // shards whose chunk could not be applied
	Orphans  atomic.Int64  // number that wait for their parent now
}

// nextBlock identifies the next block by its parent and height.
type nextBlock struct {
	parent primitives.Hash
	height primitives.Height
}

// makeOptimisticBlock makes and sends the optimistic block of the next height, if this node is the
// producer of that height. The next height is the one after the head, or a later one if heights are
// being skipped. Of each height this node makes only one optimistic block (nearcore
// chain/client/src/client_actor.rs:1537).
func (n *Node) makeOptimisticBlock() {
	h, height := n.head, n.tracker.TimerHeight()
	now := nextBlock{h.hash, height}
	if n.optimistic == nil || n.me == "" || n.announcing == now || n.isBehind() {
		return
	}
	n.announcing = now
	if height <= h.height || height <= h.made || height <= n.signed.Block || n.announced != nil && n.announced.Height == height {
		return
	}
	switch p, err := n.e.BlockProducer(h.hash, height); {
	case err != nil:
		n.fail(err)
		return
	case !n.isMe(p.AccountID, p.PublicKey):
		return
	}
	o, err := n.e.NewOptimisticBlock(h.hash, height, n.wall(), n.o.Key)
	if err != nil {
		n.note(err, "makes no optimistic block %d", height)
		return
	}
	to, err := n.e.OptimisticReceivers(h.block.Header)
	if err != nil {
		n.fail(err)
		return
	}
	n.note(nil, "makes optimistic block %d on %d", height, h.height)
	n.o.Counters.Optimistic.Produced.Add(1)
	if to = slices.DeleteFunc(to, func(a primitives.AccountID) bool { return a == n.me }); len(to) > 0 {
		n.out.Send = append(n.out.Send, Send{Receivers: to, Message: o})
	}
	n.announced = o
	n.optimistic.AddBlock(o, h.height, h.layout.ShardIDs())
	n.beginOptimistic()
}

// wall returns the timestamp for a new block, in ns since 1970.
func (n *Node) wall() uint64 {
	if n.o.Wall != nil {
		return n.o.Wall()
	}
	return uint64(n.now)
}

// optimisticBlock handles a received optimistic block.
func (n *Node) optimisticBlock(o *primitives.OptimisticBlock) {
	if n.optimistic == nil || n.head == nil {
		return
	}
	c := &n.o.Counters.Optimistic
	if o.Height <= n.blocks.Tip() {
		c.Late.Add(1)
		return
	}
	if !n.optimistic.Wants(o) {
		return
	}
	switch shards, err := n.e.CheckOptimistic(o, n.tracker.TimerHeight()+maxOptimisticAhead); {
	case err == nil:
		n.optimistic.AddBlock(o, n.e.Imported(o.PrevBlockHash).Height(), shards)
		n.beginOptimistic()
	case errors.Is(err, engine.ErrOrphan):
		n.optimistic.AddOrphan(o)
	default:
		c.Invalid.Add(1)
		n.note(err, "optimistic block %d dropped", o.Height)
	}
	_, orphans, _ := n.optimistic.Len()
	c.Orphans.Store(int64(orphans))
}

// expectNext calls beginOptimistic if another block is expected next than at the last call.
func (n *Node) expectNext() {
	if n.optimistic == nil {
		return
	}
	if now := n.expectedBlock(); n.expected != now {
		n.expected = now
		n.beginOptimistic()
	}
}

// expectedBlock returns the block that this node expects next: the child of the tip at the height of
// the timer.
func (n *Node) expectedBlock() nextBlock {
	tip := n.e.Tip()
	return nextBlock{tip.Hash, max(n.tracker.TimerHeight(), tip.Height()+1)}
}

// beginOptimistic starts to apply the chunks of optimistic blocks whose chunks are complete, up to
// the height of the block that this node expects next.
func (n *Node) beginOptimistic() {
	if n.optimistic == nil || n.fatal != nil || n.head == nil {
		return
	}
	c := &n.o.Counters.Optimistic
	for {
		next := n.expectedBlock()
		o, chunks := n.optimistic.Ready(next.parent, next.height)
		if o == nil {
			return
		}
		// A block of the same height or on the same parent has begun.
		if r := n.blocks.Running(); r != nil && (o.Height <= r.Block.Header.Height || o.PrevBlockHash == r.Block.Header.PrevHash) {
			c.Late.Add(1)
			continue
		}
		a, err := n.e.BeginOptimistic(o, chunks)
		if err != nil {
			c.Failed.Add(1)
			n.note(err, "chunks are not applied early")
			continue
		}
		n.note(nil, "applies %d chunks of optimistic block %d", len(a.Jobs()), o.Height)
		n.timeOptimistic(o.Height, func(t *optimisticTimes) { t.ready = n.now })
		begun, left, good := n.now, len(a.Jobs()), true
		for _, j := range a.Jobs() {
			n.run(j.Run, func() {
				if j.Failed() {
					c.Applies.Add(1)
				}
				good = good && !j.Canceled()
				if left--; left == 0 && good {
					n.measured.Add(optimisticTime, n.now-begun)
					n.timeOptimistic(o.Height, func(t *optimisticTimes) { t.applied = n.now })
				}
				j.Ended()
				n.blocks.OptimisticEnded(uint64(n.now))
			})
			n.out.Jobs[len(n.out.Jobs)-1].Optimistic = true
		}
	}
}
