package blockfeed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// parsed returns a feed of documents. It reports heights without a document as skipped.
func parsed(list map[primitives.Height][]byte) *fake {
	return &fake{name: "test", block: func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
		if list[h] == nil {
			return nil, ErrSkipped
		}
		return blockdoc.Parse(list[h])
	}}
}

func mustParse(t *testing.T, text []byte) *blockdoc.Document {
	t.Helper()
	d, err := blockdoc.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHistoryOfARecordedChainIsTrue: a walk from the last block of a recording to the first one proves
// all outcomes but those of the last chunks. A walk that is stored after each block and continued in
// another process ends at the same place.
func TestHistoryOfARecordedChainIsTrue(t *testing.T) {
	list, first, last, _ := recorded(t)
	begin := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash}
	c := begin
	if err := CheckHistory(t.Context(), parsed(list), &c, first, primitives.Hash{}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	outcomes, top := 0, 0
	for h, text := range list {
		d := mustParse(t, text)
		for i := range d.Shards {
			outcomes += len(d.Shards[i].Outcomes)
			if h == last {
				top += len(d.Shards[i].Outcomes)
			}
		}
	}
	if int(c.Blocks) != len(list) || int(c.Outcomes+c.Unproven) != outcomes || int(c.Unproven) != top || c.Outcomes < 20 || c.Done {
		t.Errorf("%+v of %d blocks with %d outcomes, %d in the last one", c, len(list), outcomes, top)
	}
	stored, err := json.Marshal(begin)
	if err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	for {
		var again HistoryCheck
		if err := json.Unmarshal(stored, &again); err != nil {
			t.Fatal(err)
		}
		err := CheckHistory(t.Context(), parsed(list), &again, first, primitives.Hash{}, func() (err error) {
			if stored, err = json.Marshal(again); err == nil {
				err = killed
			}
			return err
		})
		if err == nil {
			break
		}
		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
	}
	if want, err := json.Marshal(c); err != nil || !bytes.Equal(stored, want) {
		t.Errorf("continued %s\nwant %s: %v", stored, want, err)
	}
	genesis := mustParse(t, list[first]).Block.Header.PrevHash
	c = begin
	if err := CheckHistory(t.Context(), parsed(list), &c, 0, genesis, func() error { return nil }); err != nil || !c.Done {
		t.Errorf("down to the genesis: done %v, %v", c.Done, err)
	}
}

// TestLyingHistoryIsRefused: a feed that alters, exchanges, omits or invents data is refused at the
// block where it does so, and the walk stays there.
func TestLyingHistoryIsRefused(t *testing.T) {
	list, first, last, _ := recorded(t)
	var at primitives.Height // a block with outcomes, whose chunks are all named by the block above
	for h := last - 3; h > first+3; h-- {
		if list[h] != nil && list[h-1] != nil && bytes.Count(list[h], []byte(`"gas_burnt":`)) > 1 {
			at = h
		}
	}
	if at == 0 {
		t.Fatal("no block has outcomes")
	}
	change := func(from, to string) func([]byte) []byte {
		re := regexp.MustCompile(from)
		return func(text []byte) []byte {
			loc := re.FindIndex(text)
			if loc == nil {
				t.Fatalf("block %d has no %s", at, from)
			}
			return append(append(append([]byte{}, text[:loc[0]]...), re.ReplaceAll(text[loc[0]:loc[1]], []byte(to))...), text[loc[1]:]...)
		}
	}
	for _, x := range []struct {
		name  string
		alter func([]byte) []byte
		lie   bool // a MismatchError
	}{
		{"gas of an outcome", change(`"gas_burnt":(\d+)`, `"gas_burnt":1$1`), true},
		{"a log", change(`"logs":\[\]`, `"logs":["x"]`), true},
		{"the total supply", change(`"total_supply":"(\d+)"`, `"total_supply":"1$1"`), true},
		{"the random value", change(`"random_value":"(.{10})(.)(.)`, `"random_value":"$1$3$2`), true},
		{"another block", func([]byte) []byte { return list[at-1] }, true},
		{"no chunks", func(text []byte) []byte {
			return append(append([]byte{}, text[:bytes.Index(text, []byte(`"shards":[`))]...), `"shards":[]}`...)
		}, false},
		{"no outcomes", func(text []byte) []byte {
			var j map[string]any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&j); err != nil {
				t.Fatal(err)
			}
			for _, s := range j["shards"].([]any) {
				s.(map[string]any)["receipt_execution_outcomes"] = []any{}
				if c, is := s.(map[string]any)["chunk"].(map[string]any); is {
					c["transactions"] = []any{}
				}
			}
			out, err := json.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}, true},
		{"no block", func([]byte) []byte { return nil }, false},
		{"no JSON", func([]byte) []byte { return []byte(`{"block":`) }, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			altered := map[primitives.Height][]byte{}
			for h, text := range list {
				altered[h] = text
			}
			altered[at] = x.alter(list[at])
			c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash}
			err := CheckHistory(t.Context(), parsed(altered), &c, first, primitives.Hash{}, func() error { return nil })
			if err == nil || errors.As(err, new(*blockdoc.MismatchError)) != x.lie || !strings.Contains(err.Error(), fmt.Sprintf("block %d of test", at)) {
				t.Errorf("%v", err)
			}
			if c.Height != at || c.Hash != mustParse(t, list[at]).Hash {
				t.Errorf("the walk is at %d, want %d", c.Height, at)
			}
		})
	}
}

// TestHistoryWithoutAnOutcomeIsRefused: a feed that leaves out one of a chunk's outcomes is refused,
// although the paths of the others are right. Another order of the outcomes is accepted.
func TestHistoryWithoutAnOutcomeIsRefused(t *testing.T) {
	list, first, last, _ := recorded(t)
	alter := func(text []byte, how func([]any) []any) []byte { // nil: no shard has two outcomes of receipts
		var j map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&j); err != nil {
			t.Fatal(err)
		}
		for _, s := range j["shards"].([]any) {
			s := s.(map[string]any)
			if of := s["receipt_execution_outcomes"].([]any); len(of) > 1 {
				s["receipt_execution_outcomes"] = how(of)
				out, err := json.Marshal(j)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
		}
		return nil
	}
	for _, x := range []struct {
		name string
		how  func([]any) []any
		ok   bool
	}{
		{"first left out", func(of []any) []any { return of[1:] }, false},
		{"last left out", func(of []any) []any { return of[:len(of)-1] }, false},
		{"reversed", func(of []any) []any { slices.Reverse(of); return of }, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			altered, at, n := map[primitives.Height][]byte{}, primitives.Height(0), 0
			for h, text := range list {
				altered[h] = text
				if text := alter(text, x.how); text != nil && h < last && h > first {
					altered[h], at, n = text, max(at, h), n+1
				}
			}
			if n < 2 {
				t.Fatalf("%d blocks have a shard with two outcomes of receipts", n)
			}
			c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash}
			err := CheckHistory(t.Context(), parsed(altered), &c, first, primitives.Hash{}, func() error { return nil })
			if x.ok && err != nil || !x.ok && (!errors.Is(err, blockdoc.ErrLacks) || c.Height != at) {
				t.Errorf("at %d of %d: %v", c.Height, at, err)
			}
		})
	}
}

// TestHistoryOfPublicNetworks: two consecutive blocks of mainnet pass from a folder in the layout of a
// Lake, and the upper one proves the outcomes of the lower one. A header before V3 does not name its
// parent's height, so the heights below are tried, but not without end.
func TestHistoryOfPublicNetworks(t *testing.T) {
	from := testutil.Data("real/lake")
	testutil.Need(t, from, "blocks of public networks are not part of the repository (docs/dev/testing.md)")
	dir := t.TempDir()
	for _, name := range []string{"000107503704", "000107503705"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"block.json", "shard_0.json", "shard_1.json", "shard_2.json", "shard_3.json"} {
			path := filepath.Join(from, name, file)
			if _, err := os.Stat(path); err != nil {
				path += ".gz"
			}
			if err := os.WriteFile(filepath.Join(dir, name, file), testutil.Read(t, path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := ParseHistory("lake:" + dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := s.Block(t.Context(), 107503705, true)
	if err != nil {
		t.Fatal(err)
	}
	c := HistoryCheck{Height: 107503705, Hash: top.Hash}
	if err := CheckHistory(t.Context(), s, &c, 107503704, primitives.Hash{}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if c.Blocks != 2 || c.Outcomes < 40 || c.Height != 107503703 || c.Below || c.Excess > 256<<10 {
		t.Errorf("%+v", c)
	}
	err = CheckHistory(t.Context(), s, &c, 0, primitives.Hash{}, func() error { return nil })
	if !errors.Is(err, blockdoc.ErrLacks) || !strings.Contains(err.Error(), "block 107503703 of lake:"+dir) {
		t.Errorf("below the lowest block: %v", err)
	}

	old := testutil.Read(t, testutil.Data("real/blocks/mainnet-34834052.json"))
	exact := regexp.MustCompile(`"timestamp_nanosec":\s*"(\d+)"`).FindSubmatch(old) // the other form was rounded
	old = regexp.MustCompile(`"timestamp":\s*\d+`).ReplaceAll(old, append([]byte(`"timestamp":`), exact[1]...))
	d := mustParse(t, old)
	c = HistoryCheck{Height: 34834052, Hash: d.Hash}
	var asked atomic.Int64
	f := &fake{name: "old", block: func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
		if asked.Add(1); h == 34834052 {
			return blockdoc.Parse(old)
		}
		return nil, ErrSkipped
	}}
	err = CheckHistory(t.Context(), f, &c, 0, primitives.Hash{}, func() error { return nil })
	if !errors.Is(err, blockdoc.ErrLacks) || !c.Below || c.Height != 34834051 || c.Blocks != 1 {
		t.Errorf("%+v: %v", c, err)
	}
	if n := asked.Load(); n < maxGap || n > maxGap+2*maxFetched+2 {
		t.Errorf("%d requests", n)
	}
	c = HistoryCheck{Height: 34834052, Hash: d.Hash}
	if err := CheckHistory(t.Context(), f, &c, 0, d.Block.Header.PrevHash, func() error { return nil }); err != nil || !c.Done {
		t.Errorf("down to the genesis: done %v, %v", c.Done, err)
	}
}

// TestHistorySources: a Lake may be a folder. An RPC node is refused, as it gives no outcomes.
func TestHistorySources(t *testing.T) {
	for text, want := range map[string]string{"lake:/x/y": "lake:/x/y", "lake:http://a/b": "lake:http://a/b", "http://a": "http://a", "rpc:http://a": "", "lake:": "", "x": ""} {
		s, err := ParseHistory(text)
		if (err == nil) != (want != "") || err == nil && s.Name() != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
}

// TestHistoryRequestsAreRepeated: a request that fails is repeated, but not without end. A lie is not
// requested again.
func TestHistoryRequestsAreRepeated(t *testing.T) {
	list, first, last, _ := recorded(t)
	top := mustParse(t, list[last]).Hash
	for _, x := range []struct {
		name  string
		fails int // failing requests for each height
		bad   primitives.Height
		want  int // requests for the height bad
	}{{"failing twice", 2, 0, 0}, {"failing always", historyTries, last - 2, historyTries}, {"lying", 0, last - 2, 1}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				asked := map[primitives.Height]int{}
				f := &fake{name: "test", block: func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
					mu.Lock()
					defer mu.Unlock()
					if asked[h]++; asked[h] <= x.fails && (x.bad == 0 || x.bad == h) {
						return nil, errors.New("no connection")
					}
					if h == x.bad {
						return blockdoc.Parse(bytes.Replace(list[h], []byte(`"total_supply":"`), []byte(`"total_supply":"1`), 1))
					}
					return blockdoc.Parse(list[h])
				}}
				c := HistoryCheck{Height: last, Hash: top}
				err := CheckHistory(t.Context(), f, &c, max(first, last-5), primitives.Hash{}, func() error { return nil })
				if (err == nil) != (x.bad == 0) || x.bad != 0 && c.Height != x.bad {
					t.Errorf("at %d of %d: %v", c.Height, last, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if asked[x.bad] != x.want {
					t.Errorf("%d requests for height %d, want %d", asked[x.bad], x.bad, x.want)
				}
			})
		})
	}
}
