package blockfeed

import (
	"context"
	"encoding/binary"
	"errors"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

var nonces = regexp.MustCompile(`"nonce":(\d+)`)

// liar makes a document whose transactions have no valid signature.
func liar(t *testing.T, list map[primitives.Height][]byte, first, last primitives.Height) (at primitives.Height, text []byte) {
	for h := first + 1; h <= last; h++ {
		d, err := blockdoc.Parse(list[h])
		if err != nil {
			continue
		}
		txs, code := 0, 0
		for i := range d.Shards {
			for _, x := range d.Shards[i].Transactions {
				txs++
				code += len(x.Slots)
			}
		}
		if txs > 0 && code == 0 {
			return h, nonces.ReplaceAll(list[h], []byte(`"nonce":1$1`))
		}
	}
	t.Fatal("no block has transactions")
	return 0, nil
}

// older yields n hashes that are of no block, and counts those that were tried.
func older(n int, tried *atomic.Int64) blockdoc.Ancestors {
	return func(yield func(primitives.Hash) bool) {
		var h primitives.Hash
		for i := range n {
			tried.Add(1)
			if binary.LittleEndian.PutUint64(h[:], uint64(i)); !yield(h) {
				return
			}
		}
	}
}

// TestForgedDocumentCostsAShortSearch: a document with forged transactions costs a short search
// while another feed delivers the block. It costs none if its header is not the chain's, or the
// chain has the block.
func TestForgedDocumentCostsAShortSearch(t *testing.T) {
	list, first, last, _ := recorded(t)
	at, text := liar(t, list, first, last)
	w := newWorld(list, at-1)
	var tried atomic.Int64
	w.final = at - 2
	o := Options{Chain: w, Importer: w, Warn: func(string, string, error) {}, Older: older(150_000, &tried)}
	lie := &fake{"lie", func(context.Context, primitives.Height) (*blockdoc.Document, error) {
		return blockdoc.Parse(text)
	}}
	o.Sources = []Source{lie, &fake{name: "other"}}
	r := New(o)
	d, err := lie.Block(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(100 * time.Millisecond) // the other feed
		w.mu.Lock()
		w.tip++
		close(w.moved)
		w.moved = make(chan struct{})
		w.mu.Unlock()
	}()
	if err := r.give(t.Context(), lie, d, at); err == nil {
		t.Fatal("the forged document was accepted")
	}
	if n := tried.Load(); n > 4*near {
		t.Errorf("%d blocks were tried, want no more than %d", n, 4*near)
	}

	tried.Store(0)
	w.admit = func(*primitives.Block) error { return ErrPassed }
	if err := r.give(t.Context(), lie, d, at); err != nil || tried.Load() > 0 {
		t.Errorf("an existing block: %v, %d blocks were tried", err, tried.Load())
	}
	w.admit = func(*primitives.Block) error {
		return &blockdoc.MismatchError{Where: "block.header", Err: errors.New("signed by nobody")}
	}
	before := len(r.books.ring)
	if err := r.give(t.Context(), lie, d, at); err == nil || tried.Load() > 0 || len(r.books.ring) > before {
		t.Errorf("a header of another chain: %v, %d blocks were tried, %d noted", err, tried.Load(), len(r.books.ring)-before)
	}
}

// TestForgingFeedGetsATenthOfACore: if the only feed sends such documents, they get a tenth of a
// core, however long each takes.
func TestForgingFeedGetsATenthOfACore(t *testing.T) {
	list, first, last, _ := recorded(t)
	at, text := liar(t, list, first, last)
	synctest.Test(t, func(t *testing.T) { // however slow the machine is
		w := newWorld(list, at-1)
		var tried atomic.Int64
		var asked atomic.Int64
		lie := &fake{"lie", func(context.Context, primitives.Height) (*blockdoc.Document, error) {
			asked.Add(1)
			return blockdoc.Parse(text)
		}}
		slow := func(yield func(primitives.Hash) bool) { // as long as a long transaction takes
			time.Sleep(200 * time.Millisecond)
			older(1, &tried)(yield)
		}
		w.final = at - 2
		r := New(Options{Chain: w, Importer: w, Warn: func(string, string, error) {}, Older: slow, Sources: []Source{lie}})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r.Run(ctx)
		// Each document takes 0.2 s for each version of a transaction, and nine times that of rest.
		if n := asked.Load(); n < 1 || n > 2 {
			t.Errorf("the feed got %d requests in 3 s, want one or two", n)
		}
	})
}
