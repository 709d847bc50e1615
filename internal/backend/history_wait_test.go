package backend

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage/history"
)

// mover is a Submitter whose heads move when the test says so.
type mover struct {
	Submitter
	mu   sync.Mutex
	next chan struct{}
}

func newMover() *mover { return &mover{next: make(chan struct{})} }

func (m *mover) Moves() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

func (m *mover) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.next)
	m.next = make(chan struct{})
}

func (*mover) Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error) { return nil, errNoWaits }

// turns counts what a request holds.
type turns struct{ takes, leaves, held atomic.Int64 }

func (u *turns) with(ctx context.Context) context.Context {
	return messages.WithTurn(ctx, messages.Turn{
		Take:  func() { u.held.Store(1) },
		Large: func() error { u.takes.Add(1); u.held.Store(1); return nil },
		Leave: func() { u.leaves.Add(1); u.held.Store(0) },
	})
}

// behind makes a chain, and a node that has begun in the middle of it and lacks the blocks after that,
// which it returns, with the history of the blocks before.
func behind(t *testing.T, seed uint64, blocks int) (whole *lookupChain, late *syncedNode, missed []*workload.Made, old *documents) {
	t.Helper()
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	o, course := congestedChain(seed, blocks, v)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := newLookupChain(t, c, course, map[string]int{})
	for i := range course.Blocks {
		m := r.step()
		if m == nil {
			continue
		}
		if late != nil {
			missed = append(missed, m)
			continue
		}
		point, err := c.Engine.SyncPoint(c.Engine.Head())
		if err != nil {
			t.Fatal(err)
		}
		if i > course.Blocks/3 && point != nil && point.Height() <= c.Engine.Final().Height {
			if late = r.sync(point); late != nil {
				t.Cleanup(func() { _ = late.chain.Close() })
			}
		}
	}
	if late == nil {
		t.Fatal("no node began in the middle of the chain")
	}
	r.back = New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	var texts [][]byte
	for _, b := range r.gather().canonical {
		if b.entry.Height() > late.since {
			continue
		}
		text, err := r.back.StreamerMessage(view.BlockRef{Kind: view.RefHash, Hash: b.entry.Hash})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return r, late, missed, newDocuments(t, texts)
}

// TestCrossingTransactionIsAwaited: a request for a transaction of the history whose receipts run in
// blocks of the node itself waits for these blocks, without a turn. If the blocks do not come in time, it
// times out with the present status.
func TestCrossingTransactionIsAwaited(t *testing.T) {
	whole, late, missed, old := behind(t, 1, 72)
	m := newMover()
	b := New(Options{Engine: late.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: old, Submit: m})
	var open []primitives.Hash
	for hash, at := range old.txs {
		now, _, err := b.lookOlder(t.Context(), &view.GetTx{Hash: hash}, at)
		if err != nil {
			t.Fatal(err)
		}
		want, err := whole.chain.Engine.Transactions().FullStatus(hash)
		if err == nil && now.Level != view.LevelFinal && want.Level == view.LevelFinal {
			open = append(open, hash)
		}
	}
	if len(open) == 0 {
		t.Fatal("no transaction of the history ends in the missing blocks")
	}

	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := b.Tx(short, &view.GetTx{Hash: open[0], WaitUntil: view.LevelFinal})
	var over *view.LookupError
	if !errors.As(err, &over) || over.Kind != view.ErrTimeout {
		t.Errorf("without blocks: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := b.Tx(ended, &view.GetTx{Hash: open[0], WaitUntil: view.LevelFinal})
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, view.ErrTimeout) {
		t.Errorf("after a hang-up: %v", err)
	}

	var u turns
	type reply struct {
		out *view.FinalOutcome
		err error
	}
	got := make(chan reply, 1)
	go func() {
		out, err := b.Tx(u.with(t.Context()), &view.GetTx{Hash: open[0], WaitUntil: view.LevelFinal, Receipts: true})
		got <- reply{out, err}
	}()
	for b.older.waits.Load() == 0 { // it has looked
		select {
		case r := <-got:
			t.Fatalf("it did not wait: %v", r.err)
		case <-time.After(time.Millisecond):
		}
	}
	for _, x := range missed {
		late.follow(x)
	}
	m.move()
	r := <-got
	if r.err != nil || r.out.Level != view.LevelFinal {
		t.Fatalf("after the missing blocks: %v", r.err)
	}
	want, err := whole.chain.Engine.Transactions().FullStatus(open[0])
	if err != nil {
		t.Fatal(err)
	}
	if a, b := view.AppendFinalOutcome(nil, r.out, true), view.AppendFinalOutcome(nil, &want, true); string(a) != string(b) {
		t.Errorf("%s\nwant\n%s", a, b)
	}
	if u.leaves.Load() == 0 || b.older.waits.Load() != 0 {
		t.Errorf("the request has left its turn %d times, and %d requests wait after it", u.leaves.Load(), b.older.waits.Load())
	}
}

// TestWaitForTransactionLooksOnlyAfterChange: a head that brings neither a missing outcome nor finality
// ends no pause between two looks, and a request beyond the limit does not wait.
func TestWaitForTransactionLooksOnlyAfterChange(t *testing.T) {
	_, late, _, old := behind(t, 1, 72)
	const most = 3
	b := New(Options{Engine: late.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: old, Submit: newMover(), OlderWaits: most})
	refused := uint64(0)
	var waits olderRest
	for hash, at := range old.txs {
		now, rest, err := b.lookOlder(t.Context(), &view.GetTx{Hash: hash}, at)
		if err != nil {
			t.Fatal(err)
		}
		if now.Level == view.LevelFinal {
			continue
		}
		waits = rest
		if len(rest.missing) == 0 && rest.final == 0 {
			t.Errorf("transaction %v has level %v and waits for nothing", hash, now.Level)
		}
		if b.changed(&rest) {
			t.Errorf("transaction %v: there is more than its look saw: %+v", hash, rest)
		}
		b.older.waits.Store(most)
		if _, err := b.Tx(t.Context(), &view.GetTx{Hash: hash, WaitUntil: view.LevelFinal}); !errors.Is(err, view.ErrTooManyRequests) {
			t.Errorf("beyond the limit: %v", err)
		}
		refused++
		if l := b.OlderLoad(); l.Waits != most || l.MaxWaits != most || l.Refused != refused || l.Looks != 0 || l.Reads != 0 {
			t.Errorf("after %d refused requests: %+v", refused, l)
		}
	}
	if len(waits.missing) == 0 && waits.final == 0 {
		t.Fatal("no transaction of the history is open")
	}
	waits.missing = append(waits.missing, late.ownOutcome(t))
	if !b.changed(&waits) {
		t.Error("an outcome that the node has does not count as a change")
	}
}

// ownOutcome returns the id of an outcome in the node's own store.
func (n *syncedNode) ownOutcome(t *testing.T) primitives.Hash {
	t.Helper()
	for id, o := range n.gather().outcomes {
		if _, _, err := n.chain.Engine.Transactions().Outcome(id); err == nil && o != nil {
			return id
		}
	}
	t.Fatal("the node has no outcome")
	return primitives.Hash{}
}

// TestLookKeepsDocumentsAndGivesTurnsBack: a look at a transaction reads a document once while it needs
// no more than olderKept others, and holds no turn from one read to the next.
func TestLookKeepsDocumentsAndGivesTurnsBack(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	b := lonely(t, h)
	heights := slices.Sorted(maps.Keys(h.parsed))
	heights = heights[len(heights)-olderKept-1:]
	var u turns
	w := &olderWalk{b: b, ctx: u.with(t.Context())}
	for range 3 {
		for _, height := range heights[1:] {
			if d, err := w.document(height); err != nil || d.Block.Header.Height != height {
				t.Fatalf("block %d: %v", height, err)
			}
		}
	}
	if w.reads != olderKept || u.takes.Load() != olderKept || u.leaves.Load() != olderKept-1 || len(w.kept) != olderKept {
		t.Errorf("%d reads, %d turns taken, %d given back, %d documents kept", w.reads, u.takes.Load(), u.leaves.Load(), len(w.kept))
	}
	if _, err := w.document(heights[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := w.document(h.top); err != nil || w.reads != olderKept+1 || len(w.kept) != olderKept {
		t.Errorf("%d reads, %d documents kept: %v", w.reads, len(w.kept), err)
	}
	w.reads = olderReads
	if _, err := w.document(h.low); !errors.Is(err, errOlderLarge) {
		t.Errorf("beyond the limit of reads: %v", err)
	}
}

// TestSearchForAnOriginGivesTurnsBack: the search for the transaction of a receipt holds no turn from one
// block of the history to the next.
func TestSearchForAnOriginGivesTurnsBack(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	id := primitives.HashBytes([]byte("a receipt that no outcome lists"))
	h.receipts[id] = history.Place{Height: h.top}
	var u turns
	_, err := lonely(t, h).ReceiptToTx(u.with(t.Context()), &view.OriginQuery{Receipt: id})
	if n := int64(h.top - h.low + 1); !errors.Is(err, view.OriginUnknown) || u.takes.Load() != n || u.leaves.Load() != n {
		t.Errorf("%v after %d blocks: %d turns taken, %d given back", err, n, u.takes.Load(), u.leaves.Load())
	}
}

// slowDocuments is a History whose documents come when the test says so.
type slowDocuments struct {
	*documents
	reads atomic.Int64
	ready chan struct{}
}

func (h *slowDocuments) Document(height primitives.Height) (*blockdoc.Document, error) {
	h.reads.Add(1)
	<-h.ready
	return h.documents.Document(height)
}

// TestConcurrentRequestsShareOneRead: requests for the same document share one read. One that ends leaves
// at once. If the first one gets no turn, another reads.
func TestConcurrentRequestsShareOneRead(t *testing.T) {
	_, texts := shortChain(t)
	docs := newDocuments(t, texts)
	b := lonely(t, docs)
	height := docs.top
	synctest.Test(t, func(t *testing.T) {
		h := &slowDocuments{documents: docs, ready: make(chan struct{})}
		b.History, b.reads.slots = h, make(chan struct{}, olderDecoders)
		ctx, cancel := context.WithCancel(t.Context())
		done, left := make(chan error, 8), make(chan error, 1)
		for range 8 {
			go func() {
				d, err := b.document(t.Context(), height)
				if err == nil && d.Block.Header.Height != height {
					err = errors.New("another block")
				}
				done <- err
			}()
		}
		synctest.Wait()
		go func() {
			_, err := b.document(ctx, height)
			left <- err
		}()
		synctest.Wait()
		if l := b.OlderLoad(); l.Reads != 1 || l.MaxReads != olderDecoders || l.ReadWaits != 8 {
			t.Errorf("one read for 9 requests: %+v", l)
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a request that ended: %v", err)
		}
		if n := h.reads.Load(); n != 1 || len(done) != 0 {
			t.Errorf("%d reads, %d requests done", n, len(done))
		}
		close(h.ready)
		for range 8 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := h.reads.Load(); n != 1 || len(b.reads.by) != 0 {
			t.Errorf("%d reads, %d are kept", n, len(b.reads.by))
		}

		refused := errors.New("no turn")
		turn := make(chan error)
		first := messages.WithTurn(t.Context(), messages.Turn{Large: func() error { return <-turn }, Leave: func() {}})
		go func() {
			_, err := b.document(first, height)
			left <- err
		}()
		synctest.Wait()
		var u turns
		go func() {
			_, err := b.document(u.with(t.Context()), height)
			done <- err
		}()
		synctest.Wait()
		if u.held.Load() != 0 || u.leaves.Load() != 1 {
			t.Error("a request that waits for another one's read holds a turn")
		}
		turn <- refused
		if err := <-left; !errors.Is(err, refused) {
			t.Error(err)
		}
		if err := <-done; err != nil || u.held.Load() != 1 {
			t.Errorf("the next one: %v, holds %d turns", err, u.held.Load())
		}

		go func() {
			_, err := b.document(first, height)
			left <- err
		}()
		synctest.Wait()
		begun := time.Now()
		if _, err := b.document(t.Context(), height); !errors.Is(err, errOlderBusy) || time.Since(begun) != olderPatience {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if l := b.OlderLoad(); l.Late != 1 || l.ReadWaits != 0 || l.Reads != 0 {
			t.Errorf("after a request that waited too long: %+v", l)
		}
		turn <- refused
		<-left

		// a request leaves the queue for a reader
		for range olderDecoders {
			b.reads.slots <- struct{}{}
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() {
			_, err := b.document(ctx, height)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) || h.reads.Load() != 2 {
			t.Errorf("%v after %d reads", err, h.reads.Load())
		}
	})
}

// damagedFrom is a History whose documents from a height on cannot be read.
type damagedFrom struct {
	*documents
	from primitives.Height
}

func (h damagedFrom) Document(height primitives.Height) (*blockdoc.Document, error) {
	if height >= h.from {
		return nil, errFailing
	}
	return h.documents.Document(height)
}

// TestDamageIsNoMissingRefund: a document that cannot be read is an error of the request, while a receipt
// that no block has is unknown.
func TestDamageIsNoMissingRefund(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	id := primitives.HashBytes([]byte("a receipt that no block has"))
	walk := func(h History) *olderWalk {
		return &olderWalk{b: lonely(t, h), ctx: t.Context(), head: 1 << 40, receipts: map[primitives.Hash]*primitives.Receipt{},
			senders: map[primitives.Hash]history.Place{id: {Height: h.(interface{ lowest() primitives.Height }).lowest() + 1}}}
	}
	w := walk(h)
	if w.IsRefund(id, nil) || w.err != nil {
		t.Errorf("a receipt that no block has: %v", w.err)
	}
	if _, err := w.receipt(id); !errors.Is(err, errNoReceipt) {
		t.Errorf("a receipt that no block has: %v", err)
	}
	w = walk(damagedFrom{h, h.low + 2})
	if w.IsRefund(id, nil) || !errors.Is(w.err, errFailing) {
		t.Errorf("a block that cannot be read: %v", w.err)
	}
	w = walk(failing{h})
	w.b.History = failing{h}
	if w.IsFinal(id) || !errors.Is(w.err, errFailing) {
		t.Errorf("an index that cannot be read: %v", w.err)
	}
}

func (h *documents) lowest() primitives.Height { return h.low }

// TestReceiptsOfTheFirstOwnChunksAreFound: a receipt that the last block of the history has sent is in
// one of the node's own first chunks, and so in the index of its store.
func TestReceiptsOfTheFirstOwnChunksAreFound(t *testing.T) {
	_, late, _, old := behind(t, 1, 72)
	b := New(Options{Engine: late.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: old, Submit: newMover()})
	sent := map[primitives.Hash]bool{}
	for _, d := range old.parsed {
		for i := range d.Shards {
			for k := range d.Shards[i].Outcomes {
				for _, id := range d.Shards[i].Outcomes[k].ReceiptIDs {
					sent[id] = true
				}
			}
		}
	}
	found := 0
	for height := late.since + 1; height <= late.chain.Engine.Head().Height(); height++ {
		_, own, err := b.ownBlock(view.BlockRef{Kind: view.RefHeight, Height: height})
		if errors.Is(err, view.ErrUnknownHeight) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range own.Body.Chunks {
			if c.HeightIncluded != height {
				continue
			}
			_, chunk, err := b.ownChunk(view.ChunkRef{ByHash: true, Hash: c.ChunkHash()})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range chunk.PrevOutgoingReceipts {
				if !sent[x.ID] {
					continue
				}
				found++
				w := &olderWalk{b: b, ctx: t.Context()}
				if got, err := w.receipt(x.ID); err != nil || got.ID != x.ID {
					t.Errorf("receipt %v, which the history has sent: %v", x.ID, err)
				}
			}
		}
	}
	if found == 0 {
		t.Error("the first chunks have no receipt that the history has sent")
	}
}
