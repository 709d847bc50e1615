package blockfeed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// checked returns a document with the result of its Check.
func checked(t *testing.T, text []byte) (*blockdoc.Document, *blockdoc.Report) {
	t.Helper()
	d := mustParse(t, text)
	r, err := d.Check(blockdoc.Known{})
	if err != nil {
		t.Fatal(err)
	}
	return d, r
}

// TestTrueHistoryHasNoExcess: the transactions and receipts of a true chain are within what its chunks
// declare, but for what waits for its execution.
func TestTrueHistoryHasNoExcess(t *testing.T) {
	list, first, last, _ := recorded(t)
	c := HistoryCheck{Height: last, Hash: mustParse(t, list[last]).Hash}
	most, size := int64(0), 0
	if err := CheckHistory(t.Context(), parsed(list), &c, first, primitives.Hash{}, func() error { most = max(most, c.Excess); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, text := range list {
		size += len(text)
	}
	if t.Logf("%d blocks of %d bytes: at most %d bytes in excess", len(list), size, most); most > 256<<10 {
		t.Errorf("an excess of %d bytes", most)
	}
}

// TestHistoryIsNotStuffed: a feed cannot make a history larger than that of the chain without bound by
// content that no hash covers: arguments, gas profiles, contracts and failures count, and beyond the
// limit the block is refused and the walk stays.
func TestHistoryIsNotStuffed(t *testing.T) {
	list, first, last, _ := recorded(t)
	const stuffed = 3 << 20
	args := base64.StdEncoding.EncodeToString(make([]byte, stuffed))
	profile := `[` + strings.Repeat(`{"cost":"`+strings.Repeat("X", 1000)+`","cost_category":"A","gas_used":"1"},`, stuffed/1000)
	profile = profile[:len(profile)-1] + `]`
	calls := func(key string, value any) func(m map[string]any) bool {
		return func(m map[string]any) bool {
			if _, has := m[key]; has {
				m[key] = value
			}
			return m[key] != nil
		}
	}
	for _, x := range []struct {
		name  string
		under string // member below which the first object is altered
		alter func(map[string]any) bool
	}{
		{"arguments of a transaction", "transaction", calls("args", args)},
		{"arguments of a chunk's receipt", "receipts", calls("args", args)},
		{"arguments of an executed receipt", "receipt_execution_outcomes", calls("args", args)},
		{"gas profile", "metadata", calls("gas_profile", json.RawMessage(profile))},
		{"contracts", "metadata", calls("contracts", json.RawMessage(`[`+strings.Repeat("null,", stuffed/80)+`null]`))},
		{"failure", "status", calls("Failure", map[string]any{"x": strings.Repeat("x", stuffed)})},
	} {
		t.Run(x.name, func(t *testing.T) {
			for h := last; h >= first; h-- {
				if list[h] == nil {
					continue
				}
				text, is := altered(t, list[h], x.under, x.alter)
				if !is {
					continue
				}
				d, r := checked(t, text)
				_, was := checked(t, list[h])
				if added := r.Unproven - was.Unproven; added < stuffed*9/10 || r.Allowed != was.Allowed {
					t.Fatalf("block %d: %d bytes more of %d, %d allowed, was %d", h, added, stuffed, r.Allowed, was.Allowed)
				}
				c := HistoryCheck{Height: h, Hash: d.Hash, Excess: maxExcess - stuffed/2}
				before := fmt.Sprint(c)
				if err := c.Add(d, r, primitives.Hash{}); !errors.As(err, new(*blockdoc.MismatchError)) || fmt.Sprint(c) != before {
					t.Errorf("%v, %v, was %s", err, c, before)
				}
				c.Excess = 0
				if err := c.Add(d, r, primitives.Hash{}); err != nil || c.Excess < stuffed/2 {
					t.Errorf("%v, excess %d", err, c.Excess)
				}
				return
			}
			t.Fatal("no block has it")
		})
	}
	if int64(maxExcess) > math.MaxInt64/2 {
		t.Error("the sum overflows")
	}
}

// altered returns a document in which f has altered the first object below a member. The bool is false if
// f returned false for all.
func altered(t *testing.T, text []byte, under string, f func(map[string]any) bool) ([]byte, bool) {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, in bool) bool
	walk = func(v any, in bool) bool {
		switch v := v.(type) {
		case map[string]any:
			if in && f(v) {
				return true
			}
			for k, x := range v {
				if walk(x, in || k == under) {
					return true
				}
			}
		case []any:
			for _, x := range v {
				if walk(x, in) {
					return true
				}
			}
		}
		return false
	}
	is := walk(v, false)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out, is
}
