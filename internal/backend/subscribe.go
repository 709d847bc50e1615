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

// Subscribe admits a subscription: errors of its block, *view.CursorError.
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

// begin says where a subscription begins.
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
		case err != nil && known && q.Topic != view.TopicTransactions: // it was told of, and is dropped; so the walk says
			return *q.After, nil
		case err != nil && q.After.Height > b.Engine.Head().Height(): // another node may have told of it
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
	case q.Hashes != nil: // from the block of the first that is in one, so that its milestones are told
		head := at(b.Engine.Head())
		first := storage.BlockRef{}
		for _, hash := range q.Hashes {
			_, place, err := b.Engine.Transaction(hash)
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

// before is the cursor before a block.
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

// follower is what subscribers follow.
type follower struct {
	b    *Backend
	past *pastReader // nil: of who follows nothing
}

var _ subscriptions.Chain = follower{}

// Tip is the last block of a finality.
func (f follower) Tip(kind view.RefKind) (view.At, error) {
	k, err := f.b.find(view.BlockRef{Kind: kind})
	if err != nil {
		return view.At{}, err
	}
	return view.At{Height: k.ref.Height, Hash: k.ref.Hash}, nil
}

// has tells whether a block is part of the chain.
func (f follower) has(at view.At) bool {
	return f.b.Engine.Canonical(storage.BlockRef{Height: at.Height, Hash: at.Hash})
}

// Step says how the chain goes on behind a block.
func (f follower) Step(after view.At, kind view.RefKind) (s subscriptions.Step, err error) {
	tip, err := f.Tip(kind)
	var absent *view.LookupError
	if errors.As(err, &absent) && absent.Kind == view.ErrNotSynced { // it has only begun to come: nothing is behind that block yet
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
		return s, nil // the chain goes another way in this moment, and says so
	}
	s.Next = refAt(next)
	f.b.parents.put(next.Hash, after)
	return s, nil
}

// parent is that of a block which may be no part of the chain any more: *view.CursorError if it is not known.
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

// parents are those of the blocks that subscribers were told of last, once for all of them. A chain that goes back to a snapshot keeps nothing of
// what it has dropped, and by these they find the way back.
type parents struct {
	mu   sync.Mutex
	of   map[primitives.Hash]view.At
	ring []primitives.Hash // keys of of, the oldest at next once it is full
	next int
}

// keptParents is how many are kept.
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

// Past gives a place to who reads from a height on, if that is far behind the head, so that who follows the head never waits for them.
func (f follower) Past(from primitives.Height, wake func()) (back func(), ok bool) {
	if from+near >= f.b.Engine.Head().Height() {
		f.past.leave() // the head may have gone back while he waited
		return func() {}, true
	}
	return f.past.take(wake)
}

// restBeforeText is how long a text that is made ahead waits: what subscribers were told by the same block, the text of the one that is final now among it, is on its way
// then, for which this would take the cores.
const restBeforeText = 10 * time.Millisecond

// Ahead makes the text of the head's message a moment later, so that it is there when the block is final. One is made at a time: it takes no core from
// blocks that come faster.
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

// calm ends a panic of a text that nobody has asked for: who is told of the block is told of errors, and comes to the panic himself.
func calm() { _ = recover() }

// Soon makes the text of a block while that is on its way to the disk, unless the last one is still being made. Nobody is told of the block before it is on
// disk, and of one that does not come there nobody ever is.
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

// upcoming gathers what an adopted block did, from memory alone; nil: not all of it is there.
func (b *Backend) upcoming(hash primitives.Hash) *stream.Digest {
	x := b.Engine.Imported(hash)
	if x == nil {
		return nil
	}
	k := held(x)
	k.ahead = true
	m, err := b.streamed(k)
	if err != nil {
		return nil
	}
	details, err := b.details(k, m)
	if err != nil {
		return nil
	}
	return stream.NewDigest(m, func() ([]stream.Details, error) { return details, nil })
}

// Digest returns what is told of a block.
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
		runtime.Gosched() // between one stored block and the next, what is small goes first
	}
	d := stream.NewDigest(m, func() (details []stream.Details, err error) {
		defer func() {
			if err != nil { // a digest asks once, and who tries again is to have another
				c.forget(at.Hash)
			}
		}()
		k, err := f.b.byHash(at.Hash) // anew: who keeps a digest keeps nothing of the engine's
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

// digests are those of the blocks that were asked for last: those who follow the head ask for the same, and those who read the past, all from one
// height on, too. The ones do not drive out the others'.
type digests struct {
	past     *past
	ahead    atomic.Pointer[view.At]
	making   atomic.Bool // a text is made ahead
	upcoming atomic.Bool // or that of a block which is not on disk
	mu       sync.Mutex
	head     shelf // what each holds in memory is what its block did
	far      shelf
	soon     shelf // of blocks that were not on disk when they were put here; get finds none of them
}

// shelf is some digests, the one that was asked for last first.
type shelf struct {
	list []*stream.Digest
}

// near is how many blocks behind the head are not far behind it.
const near = 8

// Of both shelves: so many digests, and so many bytes, but for the last one.
const (
	keptDigests = 16
	keptPast    = 64
	keptWeight  = 16 << 20
	keptHead    = 64 << 20
	keptSoon    = engine.MaxAhead
)

// putUpcoming keeps that of a block which is not on disk, unless it has come there and somebody was told of it.
func (c *digests) putUpcoming(d *stream.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head.get(d.Hash) != nil || c.soon.get(d.Hash) != nil {
		return false
	}
	c.soon.put(d, keptSoon, keptWeight)
	return true
}

// arrived gives that of a block which has come to the disk, and is from here on as any other; nil: none was made.
func (c *digests) arrived(k *block) *stream.Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.soon.get(k.ref.Hash)
	if d == nil {
		return nil
	}
	c.soon.list = slices.Delete(c.soon.list, 0, 1) // get has put it first
	if old := c.head.get(k.ref.Hash); old != nil {
		return old
	}
	if k.entry == nil || k.entry.Block != d.Block.Block { // that one did not come there, and was made once more
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

// put keeps one, of a block far behind the head or not, unless another was faster: then that.
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

// forget drops the one of a block.
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
	for i, held := 0, 0; i < len(s.list); i++ { // a message is made after its digest was put here, so what it holds is asked anew
		if held += weightOf(s.list[i]); i >= most || i > 0 && held > weight {
			clear(s.list[i:])
			s.list = s.list[:i]
		}
	}
}

// weightOf is about what a digest holds in memory, bytes: its chunks, and outcomes with what is told of them, and its message.
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
