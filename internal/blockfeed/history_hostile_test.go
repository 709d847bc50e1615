package blockfeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// TestPassedHeightsAreNotFetched: a feed that does not answer for heights without a block cannot collect
// requests: the walk has never more of them than its bound, with one more that ends.
func TestPassedHeightsAreNotFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		c := &HistoryCheck{Height: 1000}
		w := walk{at: c, fetches: 4, Source: &fake{name: "test", block: func(ctx context.Context, h primitives.Height) (*blockdoc.Document, error) {
			if h%3 == 1 {
				return nil, blockdoc.ErrForm
			}
			open.Add(1)
			defer open.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		ahead, fetchers := map[primitives.Height]*fetching{}, new(sync.WaitGroup)
		for ; c.Height > 900; c.Height -= 3 {
			if x := w.fetch(ctx, ahead, fetchers); !errors.Is(x.err, blockdoc.ErrForm) {
				t.Fatalf("height %d: %v", c.Height, x.err)
			}
			synctest.Wait()
			if n := open.Load(); n > int64(w.fetches) || len(ahead) > w.fetches {
				t.Fatalf("at height %d: %d open requests, %d heights", c.Height, n, len(ahead))
			}
		}
		cancel()
		fetchers.Wait()
	})
}

// TestSlowFeedIsGivenUp: a feed that is always about to deliver a block does not keep the import in the
// state of one that works.
func TestSlowFeedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		m := x.job(s, &fake{name: "test", block: func(ctx context.Context, _ primitives.Height) (*blockdoc.Document, error) {
			for ctx.Err() == nil { // the files of a block, each below the limit of a request
				pause(ctx, nil, requestLimit)
			}
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		begin := time.Now()
		if wait := m.Run(ctx); wait < 0 || m.Status().State != ImportAway || time.Since(begin) > 2*historyLimit {
			t.Errorf("after %v: %v, %+v", time.Since(begin), wait, m.Status())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestDecodingCountsAsProcessorTime: the share of the processor that an import may use includes the
// decoding of documents.
func TestDecodingCountsAsProcessorTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newImported(t)
		const cost = time.Second
		f := &fake{name: "test", block: func(ctx context.Context, h primitives.Height) (d *blockdoc.Document, err error) {
			err = decode(ctx, func() (err error) {
				time.Sleep(cost)
				d, err = blockdoc.Parse(x.raw[h])
				return err
			})
			return d, err
		}}
		h := x.chain.low
		lowest, above, err := x.chain.Lowest()
		if err != nil {
			t.Fatal(err)
		}
		c := newHistoryCheck(lowest, above)
		begin, n := time.Now(), 0
		w := walk{Source: f, at: c, to: h - 3, genesis: x.genesis, fetches: 1, pace: newPacer(10)}
		if err := w.run(t.Context(), func(*blockdoc.Document) error { n++; return nil }); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		if got, want := time.Since(begin), 10*cost*time.Duration(n); got != want {
			t.Errorf("%d blocks took %v, want %v", n, got, want)
		}
	})
}

// TestUnprovenShardsAreNamed: a walk names the shards of a block whose outcomes nothing proves, so that the
// store does not trust their ids.
func TestUnprovenShardsAreNamed(t *testing.T) {
	x := newImported(t)
	for h := x.last; h >= x.first; h-- {
		d := x.list[h]
		if d == nil {
			continue
		}
		r, err := d.Check(blockdoc.Known{})
		if err != nil {
			t.Fatal(err)
		}
		c, want := HistoryCheck{Height: h, Hash: d.Hash}, 0
		if err := c.Add(d, r, x.genesis); err != nil {
			t.Fatal(err)
		}
		for _, id := range c.unproven {
			want += len(d.Shard(id).Outcomes)
		}
		if c.Unproven != uint64(want) || c.Outcomes != 0 {
			t.Errorf("block %d: shards %v with %d outcomes, %+v", h, c.unproven, want, c)
		}
	}
}

// TestUnreadableBlockIsNotImported: a block that passes all checks, but could not be read again as it would
// be stored, is an error of the feed. The import asks for the block again, and goes on when the feed has a
// block that can be stored.
func TestUnreadableBlockIsNotImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		begin := []byte(`"Failure":{`)
		at := x.chain.low - 1
		for at > x.first && !bytes.Contains(x.raw[at], begin) {
			at--
		}
		many := `{"x":[` + strings.Repeat("0,"+strings.Repeat(" ", 16), 300_000) + `0],`
		dense := bytes.Replace(x.raw[at], begin, []byte(`"Failure":`+many), 1)
		if d, err := blockdoc.Parse(dense); err != nil {
			t.Fatal(err)
		} else if _, err := d.Check(blockdoc.Known{}); err != nil {
			t.Fatal(err)
		}
		bad := true
		f := &fake{name: "test", block: func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
			switch {
			case x.raw[h] == nil:
				return nil, ErrSkipped
			case h == at && bad:
				return blockdoc.Parse(dense)
			}
			return blockdoc.Parse(x.raw[h])
		}}
		s := x.open(t)
		m := x.job(s, f)
		for range 2 {
			if wait := m.Run(t.Context()); wait < 0 || m.Status().State != ImportAway {
				t.Fatalf("the feed has a block that cannot be stored: %v, %+v", wait, m.Status())
			}
			if low, _, ok := s.Bounds(); !ok || low <= at {
				t.Fatalf("block %d is stored: %d, %v", at, low, ok)
			}
		}
		bad = false
		if wait := m.Run(t.Context()); wait >= 0 {
			t.Errorf("the feed has a true block: %v", wait)
		}
		x.complete(t, s, m)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBusyServerHasNoGaps: a server of neardata's layout that is too busy for a request does not say that the
// chain has no block at the height. A walk that does not know the next height asks again, and does not take
// the block below for the next one, which would contradict the chain.
func TestBusyServerHasNoGaps(t *testing.T) {
	list, _, last, _ := recorded(t)
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var n primitives.Height
			if _, err := fmt.Sscanf(r.URL.Path, "/v0/block_opt/%d", &n); err != nil {
				w.WriteHeader(http.StatusBadRequest)
			} else if n == last && asked.Add(1) == 1 {
				w.WriteHeader(status)
			} else if text := list[n]; text != nil {
				_, _ = w.Write(text)
			} else {
				_, _ = w.Write([]byte("null"))
			}
		}))
		defer server.Close()
		s, err := Parse("neardata:" + server.URL)
		if err != nil {
			t.Fatal(err)
		}
		c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash, Below: true}
		w := walk{Source: s, at: &c, to: last, fetches: 1}
		if err := w.run(t.Context(), func(*blockdoc.Document) error { return nil }); err != nil || c.Blocks != 1 || asked.Load() != 2 {
			t.Errorf("status %d: %d blocks, %d requests, %v", status, c.Blocks, asked.Load(), err)
		}
	}
}
