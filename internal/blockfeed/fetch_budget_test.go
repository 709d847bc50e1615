package blockfeed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// TestRepliesAheadHaveOneBudget: the replies that a walk holds for blocks ahead never exceed its budget by
// more than the next block, and the walk ends although each reply alone exceeds the budget.
func TestRepliesAheadHaveOneBudget(t *testing.T) {
	list, first, last, _ := recorded(t)
	longest := 0
	for _, text := range list {
		longest = max(longest, len(text))
	}
	for _, limit := range []int64{1, int64(longest), 3 * int64(longest), 1 << 40} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var asked atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				h, _ := strconv.ParseUint(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], 10, 64)
				if text := list[primitives.Height(h)]; text != nil {
					_, _ = w.Write(text)
					return
				}
				_, _ = w.Write([]byte("null"))
			}))
			defer s.Close()
			feed, err := Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash}
			budget, most := &fetchBudget{limit: limit}, int64(0)
			w := walk{Source: feed, at: &c, to: first, fetches: 16, budget: budget}
			if err := w.run(t.Context(), func(*blockdoc.Document) error { most = max(most, budget.Held()); return nil }); err != nil {
				t.Fatal(err)
			}
			if int(c.Blocks) != len(list) || budget.Held() != 0 || most > limit+int64(longest) {
				t.Errorf("%d of %d blocks; at most %d bytes were held, %d at the end", c.Blocks, len(list), most, budget.Held())
			}
			t.Logf("%d requests for %d blocks, at most %d bytes held", asked.Load(), len(list), most)
		})
	}
}

// TestFailedRepliesLeaveTheBudget: what a failed request has read is not held while the block is requested
// again.
func TestFailedRepliesLeaveTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		b := &fetchBudget{limit: size}
		tries := 0
		w := walk{Source: &fake{name: "test", block: func(ctx context.Context, _ primitives.Height) (*blockdoc.Document, error) {
			tries++
			if _, err := io.ReadAll(counted(ctx, strings.NewReader(strings.Repeat("a", size)))); err != nil {
				return nil, err
			}
			if b.Held() != size {
				t.Errorf("%d bytes are held at request %d", b.Held(), tries)
			}
			return nil, errors.New("no connection")
		}}}
		share := &fetchShare{fetchBudget: b}
		if _, err := w.fetchOld(context.WithValue(t.Context(), shareKey{}, share), 1); errors.Is(err, errBudget) || tries != historyTries {
			t.Errorf("%d requests: %v", tries, err)
		}
		if share.end(); b.Held() != 0 {
			t.Errorf("%d bytes are held at the end", b.Held())
		}
	})
}
