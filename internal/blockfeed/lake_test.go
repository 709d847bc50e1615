package blockfeed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// TestFilesNamedByIndexAreNotTakenForIDs: in a bucket whose files are named by the indices of shards, a
// number may be the index of one shard and the ID of another one. The block has each shard once, in the
// order of its chunks, as from a bucket whose files are named by IDs.
func TestFilesNamedByIndexAreNotTakenForIDs(t *testing.T) {
	list, _, last, _ := recorded(t)
	want := mustParse(t, list[last])
	chunks := want.Block.Body.Chunks
	var j struct{ Shards []json.RawMessage }
	if err := json.Unmarshal(list[last], &j); err != nil || len(j.Shards) != len(chunks) {
		t.Fatal(len(j.Shards), err)
	}
	same := 0
	for _, byID := range []bool{false, true} {
		folder := filepath.Join(t.TempDir(), fmt.Sprintf("%012d", last))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		write := func(name string, text []byte) {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("block.json", view.AppendBlock(nil, want.Author, want.Block))
		for i, text := range j.Shards {
			if byID {
				i = int(chunks[i].ShardID)
			} else if i == int(chunks[i].ShardID) {
				same++
			}
			write(fmt.Sprintf("shard_%d.json", i), text)
		}
		s, err := ParseHistory("lake:" + filepath.Dir(folder))
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Block(t.Context(), last, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Check(blockdoc.Known{}); err != nil || !bytes.Equal(d.AppendJSON(nil), want.AppendJSON(nil)) {
			t.Errorf("named by ID: %v: %d shards, %v", byID, len(d.Shards), err)
		}
	}
	if same == len(chunks) {
		t.Error("the IDs of the shards are their indices")
	}
}

// TestBusyListHasNoGaps: a bucket that is too busy to list its blocks does not say that the chain has no block
// at a height. A bucket whose objects may not be listed has none that it does not deliver.
func TestBusyListHasNoGaps(t *testing.T) {
	for status, absent := range map[int]bool{
		http.StatusServiceUnavailable: false, http.StatusTooManyRequests: false, http.StatusForbidden: true, http.StatusNotFound: true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(status)
		}))
		defer server.Close()
		s, err := Parse("lake:" + server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Block(t.Context(), 5, true); !errors.Is(err, ErrNotYet) || isAbsent(err) != absent {
			t.Errorf("status %d: %v", status, err)
		}
	}
}
