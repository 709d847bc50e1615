package backend

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/subscriptions"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/stream"
)

// Subscribe starts a subscription. Subscribe returns *view.LookupError for an unknown block, and
// *view.CursorError for a cursor that is not known any more.
func (b *Backend) Subscribe(q *view.Subscription, sink view.Sink) (view.Subscriber, error) {
	begin, err := b.begin(q)
	if err != nil {
		return nil, err
	}
	if k, err := b.byHash(begin.Hash); err == nil {
		if h, err := b.header(k); err == nil {
			b.parents.put(begin.Hash, view.At{Height: h.PrevHeight, Hash: h.PrevHash})
		}
	}
	return b.Submit.Subscribe(q, begin, follower{b, b.digests.past.reader(q.Address)}, sink)
}

// begin returns the cursor at which a subscription starts.
func (b *Backend) begin(q *view.Subscription) (c view.Cursor, err error) {
	c.Index = view.WholeBlock
	switch {
	case q.After != nil:
		k, err := b.byHash(q.After.Hash)
		if err != nil && !isLookup(err) {
			return c, err
		}
		_, known := b.parents.get(q.After.Hash)
		switch {
		// The cursor names a block that was on the chain and has been reverted. Step reports that
		// block as lost.
		case err != nil && known && q.Topic != view.TopicTransactions:
			return *q.After, nil
		// perhaps another node has reported this block to the client
		case err != nil && q.After.Height > b.Engine.Head().Height():
			return c, view.UnknownHeight(q.After.Height)
		case err != nil || k.ref.Height != q.After.Height:
			return c, b.cursorLost()
		}
		return *q.After, nil
	case q.From != nil:
		if *q.From < b.Engine.Store().Tip().Tail && *q.From > b.Engine.Chain().Height {
			return c, b.cursorLost()
		}
		ref, err := b.Engine.Store().NextBlock(*q.From)
		if gone(err) {
			return c, view.UnknownHeight(*q.From)
		}
		if err != nil {
			return c, err
		}
		return b.before(ref)
	// Start at the first block that includes one of the transactions, to report all of that
	// transaction's progress.
	case q.Hashes != nil:
		head := at(b.Engine.Head())
		first := storage.BlockRef{}
		for _, hash := range q.Hashes {
			_, place, err := b.Engine.Transactions().Transaction(hash)
			if errors.Is(err, engine.ErrUnknown) {
				continue
			}
			if err != nil {
				return c, err
			}
			if ref := place.Block.Ref(); first.IsZero() || ref.Height < first.Height {
				first = ref
			}
		}
		if !first.IsZero() {
			return b.before(first)
		}
		c.At = head
		return c, nil
	}
	c.At, err = follower{b: b}.Tip(q.Finality)
	return c, err
}

// before returns the cursor after the parent of a block, so that the subscription begins with that
// block.
func (b *Backend) before(ref storage.BlockRef) (view.Cursor, error) {
	rec, err := b.Engine.Store().Block(ref)
	if err != nil {
		return view.Cursor{}, err
	}
	if prev := rec.Prev(); !prev.IsZero() {
		if _, err := b.Engine.Store().Block(prev); err == nil {
			return view.Cursor{At: view.At{Height: prev.Height, Hash: prev.Hash}, Index: view.WholeBlock}, nil
		}
	}
	return view.Cursor{At: view.At{Height: ref.Height, Hash: ref.Hash}, Index: view.NothingYet}, nil
}

func at(x *engine.BlockNode) view.At { return view.At{Height: x.Height(), Hash: x.Hash} }

func isLookup(err error) bool {
	var e *view.LookupError
	return errors.As(err, &e)
}

func (b *Backend) cursorLost() error {
	k, err := b.find(view.BlockRef{Kind: view.RefEarliest})
	if err != nil {
		return err
	}
	return &view.CursorError{Earliest: k.ref.Height}
}

// follower implements subscriptions.Chain, through which the subscriptions actor reads the chain.
// Each subscription has its own follower.
type follower struct {
	b    *Backend
	past *pastReader // limits reads of old blocks; nil: only the method Tip may be called
}

var _ subscriptions.Chain = follower{}

// Tip returns the last block of the given finality.
func (f follower) Tip(kind view.RefKind) (view.At, error) {
	k, err := f.b.find(view.BlockRef{Kind: kind})
	if err != nil {
		return view.At{}, err
	}
	return view.At{Height: k.ref.Height, Hash: k.ref.Hash}, nil
}

// has returns whether a block is on the head's chain.
func (f follower) has(at view.At) bool {
	return f.b.Engine.Canonical(storage.BlockRef{Height: at.Height, Hash: at.Hash})
}

// Step returns the continuation of the chain after a block. The continuation is the next block, or
// the blocks lost to a fork or rollback together with the last common block. The result is empty if
// the chain does not continue yet.
func (f follower) Step(after view.At, kind view.RefKind) (s subscriptions.Step, err error) {
	tip, err := f.Tip(kind)
	var absent *view.LookupError
	if errors.As(err, &absent) && absent.Kind == view.ErrNotSynced { // a node that has not synced yet has no next block
		return s, nil
	}
	if err != nil || tip == after {
		return s, err
	}
	store := f.b.Engine.Store()
	for lost := after; !f.has(lost); lost = s.Fork {
		s.Lost = append(s.Lost, lost)
		if s.Fork, err = f.parent(lost); err != nil {
			return s, err
		}
	}
	if len(s.Lost) > 0 {
		return s, nil
	}
	next, err := store.NextBlock(after.Height + 1)
	if gone(err) || err == nil && next.Height > tip.Height {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	rec, err := store.Block(next)
	if err != nil {
		return s, err
	}
	if rec.Prev().Hash != after.Hash {
		if after.Height < store.Tip().Tail {
			return s, f.b.cursorLost()
		}
		return s, nil // the chain is being reorganised, and a notification follows
	}
	s.Next = refAt(next)
	f.b.parents.put(next.Hash, after)
	return s, nil
}

// parent returns the parent of a block, which may no longer be on the chain. Method parent returns
// *view.CursorError if the parent is unknown.
func (f follower) parent(of view.At) (view.At, error) {
	store := f.b.Engine.Store()
	if of.Height < store.Tip().Tail {
		return view.At{}, f.b.cursorLost()
	}
	if prev, ok := f.b.parents.get(of.Hash); ok {
		return prev, nil
	}
	rec, err := store.BlockByHash(of.Hash)
	if gone(err) || err == nil && rec.Prev().IsZero() {
		return view.At{}, f.b.cursorLost()
	}
	if err != nil {
		return view.At{}, err
	}
	return refAt(rec.Prev()), nil
}

func refAt(r storage.BlockRef) view.At { return view.At{Height: r.Height, Hash: r.Hash} }

// parents records the parents of recently reported blocks, for all subscribers. A rollback to a
// snapshot deletes the reverted blocks from the store. With parents, a subscriber at such a block
// finds the last common block. Safe for concurrent use.
type parents struct {
	mu   sync.Mutex
	of   map[primitives.Hash]view.At
	ring []primitives.Hash // keys of the map of; once the ring is full, ring[next] is the oldest key
	next int
}

// keptParents is the maximum number of blocks whose parents are remembered.
const keptParents = 4096

func (p *parents) put(block primitives.Hash, prev view.At) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.of[block]; ok || prev.Hash == (primitives.Hash{}) {
		return
	}
	if p.of == nil {
		p.of = map[primitives.Hash]view.At{}
	}
	if len(p.ring) < keptParents {
		p.ring = append(p.ring, block)
	} else {
		delete(p.of, p.ring[p.next])
		p.ring[p.next] = block
		p.next = (p.next + 1) % keptParents
	}
	p.of[block] = prev
}

func (p *parents) get(block primitives.Hash) (view.At, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	prev, ok := p.of[block]
	return prev, ok
}

// Past implements subscriptions.Chain. If from is far behind the head, Past takes one of the limited
// places for historical readers. If ok is true, the subscriber may read, and calls back to return
// the place. If ok is false, no place is free. Then Past calls wake once, on any goroutine, when
// the subscriber should call Past again; back gives up the subscriber's turn. A subscriber near the
// head needs no place, so such a subscriber never waits for historical readers.
func (f follower) Past(from primitives.Height, wake func()) (back func(), ok bool) {
	if from+near >= f.b.Engine.Head().Height() {
		f.past.leave() // a rollback may have brought the head near to a waiting reader
		return func() {}, true
	}
	return f.past.take(wake)
}

// restBeforeText is the time for which Ahead waits before it encodes a message. During this time,
// subscribers get the messages of the same block. Encoding during this time would take cores from
// these subscribers.
const restBeforeText = 10 * time.Millisecond

// Ahead encodes the head's message in the background, so that the message is ready when the block
// becomes final. Ahead encodes only one message at a time. If blocks come faster than Ahead
// encodes, it skips some of them.
func (f follower) Ahead() {
	c := &f.b.digests
	head := at(f.b.Engine.Head())
	if last := c.ahead.Load(); last != nil && *last == head || !c.making.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(restBeforeText, func() {
		defer c.making.Store(false)
		defer calm()
		head := at(f.b.Engine.Head())
		c.ahead.Store(&head)
		if d, err := f.Digest(head); err == nil {
			_, _ = d.MessageJSON(nil)
		}
	})
}

// calm recovers from a panic while a message is encoded in advance. The panic is not hidden: the
// same panic occurs again when the node sends the block to a subscriber.
func calm() { _ = recover() }

// Soon encodes the message of a block that is not persisted yet. Soon does nothing while it still
// encodes the message of another such block. Subscribers never receive the message before the block
// is persisted.
func (f follower) Soon(hash primitives.Hash) {
	c := &f.b.digests
	if !c.upcoming.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.upcoming.Store(false)
		defer calm()
		if d := f.b.upcoming(hash); d != nil && c.putUpcoming(d) {
			d.MakeAhead()
		}
	}()
}

// upcoming creates the digest of an imported block from memory. The result is nil if some data of
// the block is not in memory.
func (b *Backend) upcoming(hash primitives.Hash) *stream.Digest {
	x := b.Engine.Imported(hash)
	if x == nil {
		return nil
	}
	k := held(x)
	k.ahead = true
	m, details, err := b.messageOf(k)
	if err != nil {
		return nil
	}
	return stream.NewDigest(m, func() ([]stream.Details, error) { return details, nil })
}

// Digest returns the digest of a block, from the cache or newly created. Digest returns
// view.UnknownBlock if the block is not stored any more.
func (f follower) Digest(at view.At) (*stream.Digest, error) {
	c := &f.b.digests
	if d := c.get(at.Hash); d != nil {
		return d, nil
	}
	k, err := f.b.byHash(at.Hash)
	if err != nil {
		return nil, err
	}
	if d := c.arrived(k); d != nil {
		return d, nil
	}
	m, err := f.b.streamed(k)
	if err != nil {
		if gone(err) {
			err = view.UnknownBlock(at.Hash)
		}
		return nil, err
	}
	far := at.Height+near < f.b.Engine.Head().Height()
	if far {
		runtime.Gosched() // let other goroutines run before the next stored block
	}
	d := stream.NewDigest(m, func() (details []stream.Details, err error) {
		defer func() {
			if err != nil { // a digest calls this function only once, so remove the failed digest
				c.forget(at.Hash)
			}
		}()
		k, err := f.b.byHash(at.Hash) // look up by hash, because a digest must not keep the engine's data in memory
		if err != nil {
			return nil, err
		}
		if details, err = f.b.details(k, m); gone(err) {
			err = view.UnknownBlock(at.Hash)
		}
		return details, err
	})
	return c.put(d, far), nil
}

// digests caches the digests of recently requested blocks. Subscribers at the head request the same
// blocks as each other, and so do historical readers that started at the same height. Subscribers
// at the head and historical readers have separate shelves, so neither group evicts digests of the
// other. Safe for concurrent use.
type digests struct {
	past     *past
	ahead    atomic.Pointer[view.At]
	making   atomic.Bool // true while Ahead encodes a message
	upcoming atomic.Bool // true while Soon encodes a message
	mu       sync.Mutex
	head     shelf // digests of blocks near the head
	far      shelf
	soon     shelf // digests of blocks that were not persisted when added; get does not search soon
}

// shelf is one of the lists of cached digests of blocks, most recently used first.
type shelf struct {
	list []*stream.Digest
}

// near is the maximum number of blocks by which a block near the head is behind the head.
const near = 8

// Bounds of the shelves: numbers of digests, and bytes. The most recently used digest is kept
// whatever its size.
const (
	keptDigests = 16
	keptPast    = 64
	keptWeight  = 16 << 20
	keptHead    = 64 << 20
	keptSoon    = engine.MaxAhead
)

// putUpcoming adds the digest of a block that is not persisted yet. putUpcoming returns false if
// the cache already has a digest of the block, or if the block has been persisted and reported
// meanwhile.
func (c *digests) putUpcoming(d *stream.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head.get(d.Hash) != nil || c.soon.get(d.Hash) != nil {
		return false
	}
	c.soon.put(d, keptSoon, keptWeight)
	return true
}

// arrived moves the digest of a block that is now persisted from soon to head. The result is the
// digest, or nil if soon has none of this block.
func (c *digests) arrived(k *block) *stream.Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.soon.get(k.ref.Hash)
	if d == nil {
		return nil
	}
	c.soon.list = slices.Delete(c.soon.list, 0, 1) // get has moved the digest to the front
	if old := c.head.get(k.ref.Hash); old != nil {
		return old
	}
	// The digest belongs to another block object with the same hash, which was not persisted.
	if k.entry == nil || k.entry.Block != d.Block.Block {
		return nil
	}
	c.head.put(d, keptDigests, keptHead)
	return d
}

func (c *digests) get(hash primitives.Hash) *stream.Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.head.get(hash); d != nil {
		return d
	}
	return c.far.get(hash)
}

// put adds the digest of a block. far says whether the block is far behind the head. If the cache
// already has a digest of the block, put returns that digest.
func (c *digests) put(d *stream.Digest, far bool) *stream.Digest {
	if old := c.get(d.Hash); old != nil {
		return old
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if far {
		c.far.put(d, keptPast, keptWeight)
	} else {
		c.head.put(d, keptDigests, keptHead)
	}
	return d
}

// forget removes the digest of a block.
func (c *digests) forget(hash primitives.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(d *stream.Digest) bool { return d.Hash == hash }
	c.head.list, c.far.list = slices.DeleteFunc(c.head.list, is), slices.DeleteFunc(c.far.list, is)
}

func (s *shelf) get(hash primitives.Hash) *stream.Digest {
	i := slices.IndexFunc(s.list, func(d *stream.Digest) bool { return d.Hash == hash })
	if i < 0 {
		return nil
	}
	d := s.list[i]
	copy(s.list[1:i+1], s.list[:i])
	s.list[0] = d
	return d
}

func (s *shelf) put(d *stream.Digest, most, weight int) {
	s.list = slices.Insert(s.list, 0, d)
	// sizes are read again, because messages are encoded after digests were added
	for i, held := 0, 0; i < len(s.list); i++ {
		if held += weightOf(s.list[i]); i >= most || i > 0 && held > weight {
			clear(s.list[i:])
			s.list = s.list[:i]
		}
	}
}

// weightOf estimates the memory of a digest in bytes: chunks, outcomes and the encoded message.
func weightOf(d *stream.Digest) int {
	n := 16<<10 + d.Size()
	for i := range d.Shards {
		s := &d.Shards[i]
		if s.Chunk != nil {
			n += 2 * int(s.Chunk.Header.EncodedLength)
		}
		for k := range s.Outcomes {
			n += 1 << 10
			for _, log := range s.Outcomes[k].Outcome.Logs {
				n += 3 * len(log)
			}
		}
	}
	return n
}
