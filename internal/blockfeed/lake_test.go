package blockfeed

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestFailedRequestOfAShardIsNoAbsentBlock: a failed request for the file of a shard is an error of the
// connection, although the bucket has no file with the shard's index. A bucket that has a block without the
// file of a shard has the block: a walk that does not know the next height does not pass it.
func TestFailedRequestOfAShardIsNoAbsentBlock(t *testing.T) {
	list, _, last, _ := recorded(t)
	status := http.StatusServiceUnavailable
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n primitives.Height
		if _, err := fmt.Sscanf(r.URL.Path, "/%012d/", &n); err != nil || list[n] == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.HasSuffix(r.URL.Path, "block.json") {
			d := mustParse(t, list[n])
			_, _ = w.Write(view.AppendBlock(nil, d.Author, d.Block))
			return
		}
		if asked++; asked == 1 {
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	s, err := Parse("lake:" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Block(t.Context(), last, true); errors.Is(err, ErrNotYet) || !errors.As(err, new(*statusError)) {
		t.Errorf("a request that failed: %v", err)
	}
	if _, err = s.Block(t.Context(), last, true); !errors.Is(err, ErrNotYet) {
		t.Errorf("no file of the shard: %v", err)
	}
	c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash, Below: true}
	w := walk{Source: s, at: &c, to: last - 2, fetches: 1}
	err = w.run(t.Context(), func(*blockdoc.Document) error { return nil })
	if !errors.Is(err, errNoShard) || errors.As(err, new(*blockdoc.MismatchError)) {
		t.Errorf("the walk: %v", err)
	}
}
