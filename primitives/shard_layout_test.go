package primitives

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

func accounts(names ...string) []AccountID {
	out := make([]AccountID, len(names))
	for i, n := range names {
		out[i] = AccountID(n)
	}
	return out
}

func ids(v ...ShardID) []ShardID { return v }

// must returns a layout after both of its encodings have restored it.
func must(t *testing.T) func(ShardLayout, error) ShardLayout {
	return func(l ShardLayout, err error) ShardLayout {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var again ShardLayout
		if err := borsh.Unmarshal(borsh.Marshal(l), &again); err != nil || !again.Equal(l) {
			t.Fatalf("borsh of %v gives %v, %v", l, again, err)
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON ShardLayout
		if err := json.Unmarshal(text, &fromJSON); err != nil || !fromJSON.Equal(l) {
			t.Fatalf("JSON of %v gives %v, %v", l, fromJSON, err)
		}
		return l
	}
}

func wantShards(t *testing.T, l ShardLayout, want map[string]ShardID) {
	t.Helper()
	for name, id := range want {
		if got := l.ShardOf(AccountID(name)); got != id {
			t.Errorf("%v: shard of %s = %d, want %d", l, name, got, id)
		}
	}
}

func wantIDs(t *testing.T, l ShardLayout, want ...ShardID) {
	t.Helper()
	if got := l.ShardIDs(); !slices.Equal(got, want) || l.NumShards() != len(want) {
		t.Errorf("ids = %v, want %v", got, want)
	}
	for i, id := range want {
		if got, err := l.Index(id); err != nil || got != ShardIndex(i) {
			t.Errorf("index of %d = %d, %v, want %d", id, got, err, i)
		}
		if got, err := l.IDAt(ShardIndex(i)); err != nil || got != id {
			t.Errorf("id at %d = %d, %v, want %d", i, got, err, id)
		}
	}
	if _, err := l.Index(1234); !errors.Is(err, ErrUnknownShard) {
		t.Errorf("index of 1234: %v", err)
	}
	if _, err := l.IDAt(ShardIndex(len(want))); !errors.Is(err, ErrUnknownShard) {
		t.Errorf("id past the end: %v", err)
	}
}

func wantChildren(t *testing.T, l ShardLayout, want map[ShardID][]ShardID) {
	t.Helper()
	for parent, children := range want {
		if got, ok := l.Children(parent); ok != (children != nil) || !slices.Equal(got, children) {
			t.Errorf("%v: children of %d = %v, %v, want %v", l, parent, got, ok, children)
		}
	}
}

func wantParents(t *testing.T, l ShardLayout, want map[ShardID]ShardID) {
	t.Helper()
	for id, parent := range want {
		if got, err := l.Parent(id); err != nil || got != parent {
			t.Errorf("%v: parent of %d = %d, %v, want %d", l, id, got, err, parent)
		}
	}
	if _, err := l.Parent(1234); !errors.Is(err, ErrUnknownShard) {
		t.Errorf("parent of 1234: %v", err)
	}
}

// alphanumeric draws as rand 0.8's Alphanumeric: 6 bits of a word, again when past the 62
// characters.
func alphanumeric(r *ChaChaRng) byte {
	const set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for {
		if v := r.Uint32() >> 26; v < 62 {
			return set[v]
		}
	}
}

// TestLayoutV0VectorA40 compares with nearcore's literals: shards of 1000 names in layout V0.
func TestLayoutV0VectorA40(t *testing.T) {
	t.Parallel()
	layout := must(t)(NewShardLayoutV0(4, 0), nil)
	rng := NewStdRng([32]byte{})
	var got [4]int
	for range 1000 {
		name := make([]byte, 10)
		for i := range name {
			name[i] = alphanumeric(rng)
		}
		got[layout.ShardOf(AccountID(strings.ToLower(string(name))))]++
	}
	if want := [4]int{247, 268, 233, 252}; got != want {
		t.Errorf("accounts per shard = %v, want %v", got, want)
	}
	wantIDs(t, layout, 0, 1, 2, 3)
}

// TestLayoutV1VectorA41 compares with nearcore's literals: shards by boundaries, layout V1.
func TestLayoutV1VectorA41(t *testing.T) {
	t.Parallel()
	l := must(t)(NewShardLayoutV1(accounts("aurora", "bar", "foo", "foo.baz", "paz"), [][]ShardID{{0, 1, 2}, {3, 4, 5}}, 1))
	wantShards(t, l, map[string]ShardID{
		"aurora": 1, "foo.aurora": 3, "bar.foo.aurora": 2, "bar": 2, "bar.bar": 2, "foo": 3, "baz.foo": 2, "foo.baz": 4,
		"a.foo.baz": 0, "aaa": 0, "abc": 0, "bbb": 2, "foo.goo": 4, "goo": 4, "zoo": 5,
	})
	wantIDs(t, l, 0, 1, 2, 3, 4, 5)
	wantChildren(t, l, map[ShardID][]ShardID{0: {0, 1, 2}, 1: {3, 4, 5}, 2: nil})
	wantParents(t, l, map[ShardID]ShardID{0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1})
}

// TestLayoutV2VectorA42 compares with nearcore's literals: shards by boundaries, layout V2.
func TestLayoutV2VectorA42(t *testing.T) {
	t.Parallel()
	l := must(t)(NewShardLayoutV2(accounts("ccc", "kkk", "ppp"), ids(3, 8, 4, 7), map[ShardID][]ShardID{1: {7, 8}, 3: {3}, 4: {4}}))
	wantShards(t, l, map[string]ShardID{"aaa": 3, "ddd": 8, "mmm": 4, "rrr": 7, "ccc": 8, "kkk": 4, "ppp": 7})
	wantIDs(t, l, 3, 8, 4, 7)
	wantParents(t, l, map[ShardID]ShardID{3: 3, 8: 1, 4: 4, 7: 1})
	wantChildren(t, l, map[ShardID][]ShardID{1: {7, 8}, 3: {3}, 4: {4}, 8: nil})
	if got, want := fmt.Sprint(l.ShardUIDs()), "[s3.v3 s8.v3 s4.v3 s7.v3]"; got != want {
		t.Errorf("uids = %s, want %s", got, want)
	}
	if got := l.SplitParents(); !slices.Equal(got, ids(1)) {
		t.Errorf("split parents = %v", got)
	}
	if got, want := fmt.Sprint(l.SplitChildren()), "[s7.v3 s8.v3]"; got != want {
		t.Errorf("split children = %s, want %s", got, want)
	}
}

// TestV2SplitsVectorA43 compares with nearcore's literals: layouts V2 derived by splits.
func TestV2SplitsVectorA43(t *testing.T) {
	t.Parallel()
	l := must(t)(NewShardLayoutV2(nil, ids(0), nil))
	if _, err := l.Parent(0); !errors.Is(err, ErrNoParentShard) {
		t.Errorf("parent in a first layout: %v", err)
	}
	for _, step := range []struct {
		boundary string
		ids      []ShardID
		split    map[ShardID][]ShardID
	}{
		{"test1.near", ids(1, 2), map[ShardID][]ShardID{0: {1, 2}}},
		{"test3.near", ids(1, 3, 4), map[ShardID][]ShardID{1: {1}, 2: {3, 4}}},
		{"test0.near", ids(5, 6, 3, 4), map[ShardID][]ShardID{1: {5, 6}, 3: {3}, 4: {4}}},
		{"test2.near", ids(5, 6, 7, 8, 4), map[ShardID][]ShardID{5: {5}, 6: {6}, 3: {7, 8}, 4: {4}}},
	} {
		base := l
		l = must(t)(l.DeriveV2(AccountID(step.boundary)))
		wantIDs(t, l, step.ids...)
		wantChildren(t, l, step.split)
		want := must(t)(NewShardLayoutV2(l.Boundaries(), step.ids, step.split))
		if !l.Equal(want) || l.Equal(base) || l.Version() != 3 {
			t.Errorf("derived %v, want %v", l, want)
		}
		if _, err := l.DeriveV2(AccountID(step.boundary)); !errors.Is(err, ErrDuplicateBoundary) {
			t.Errorf("the same boundary again: %v", err)
		}
	}
}

// TestLayoutV3VectorA79 compares with nearcore's literals: shards in layout V3.
func TestLayoutV3VectorA79(t *testing.T) {
	t.Parallel()
	l := must(t)(NewShardLayoutV3(accounts("ccc", "kkk", "ppp"), ids(4, 5, 2, 3), map[ShardID][]ShardID{1: {4, 5}}, 1))
	wantShards(t, l, map[string]ShardID{"aaa": 4, "ddd": 5, "mmm": 2, "rrr": 3, "ccc": 5, "kkk": 2, "ppp": 3})
	wantIDs(t, l, 4, 5, 2, 3)
	if got, want := fmt.Sprint(l.ShardUIDs()), "[s4.v3 s5.v3 s2.v3 s3.v3]"; got != want {
		t.Errorf("uids = %s, want %s", got, want)
	}
	wantParents(t, l, map[ShardID]ShardID{4: 1, 5: 1, 2: 2, 3: 3})
	wantChildren(t, l, map[ShardID][]ShardID{1: {4, 5}, 2: {2}, 3: {3}, 4: nil, 9: nil})
	const want = `{"V3":{"boundary_accounts":["ccc","kkk","ppp"],"shard_ids":[4,5,2,3],` +
		`"id_to_index_map":{"2":2,"3":3,"4":0,"5":1},"shards_split_map":{"1":[4,5]},"last_split":1}}`
	if got, err := json.Marshal(l); err != nil || string(got) != want {
		t.Errorf("JSON %s, %v, want %s", got, err, want)
	}
}

// TestV3SplitsVectorA80 compares with nearcore's literals: layouts V3 derived by splits.
func TestV3SplitsVectorA80(t *testing.T) {
	t.Parallel()
	l := must(t)(NewShardLayoutV3(accounts("test1.near"), ids(1, 2), map[ShardID][]ShardID{0: {1, 2}}, 0))
	never := func() []ShardLayout { panic("history of a V3") }
	if _, err := l.DeriveV3("test1.near", never); !errors.Is(err, ErrDuplicateBoundary) {
		t.Errorf("the same boundary: %v", err)
	}
	l = must(t)(l.DeriveV3("test3.near", never))
	wantIDs(t, l, 1, 3, 4)
	wantChildren(t, l, map[ShardID][]ShardID{0: nil, 1: {1}, 2: {3, 4}})
	wantParents(t, l, map[ShardID]ShardID{1: 1, 3: 2, 4: 2})
	wantAncestors(t, l, map[ShardID][]ShardID{1: {0}, 3: {2, 0}, 4: {2, 0}})
	if got := l.SplitParents(); !slices.Equal(got, ids(2)) {
		t.Errorf("split parents = %v", got)
	}

	l = must(t)(l.DeriveV3("test2.near", never))
	wantIDs(t, l, 1, 5, 6, 4)
	if got := l.Boundaries(); !slices.Equal(got, accounts("test1.near", "test2.near", "test3.near")) {
		t.Errorf("boundaries = %v", got)
	}
	wantChildren(t, l, map[ShardID][]ShardID{0: nil, 1: {1}, 2: nil, 3: {5, 6}, 4: {4}})
	wantParents(t, l, map[ShardID]ShardID{1: 1, 4: 4, 5: 3, 6: 3})
	wantAncestors(t, l, map[ShardID][]ShardID{1: {0}, 4: {2, 0}, 5: {3, 2, 0}, 6: {3, 2, 0}})
	for id, want := range map[ShardID]ShardID{0: 1, 1: 1, 2: 5, 3: 5, 4: 4, 5: 5, 6: 6} {
		if got, ok := l.ResolveToCurrent(id); !ok || got != want {
			t.Errorf("%d resolves to %d, %v, want %d", id, got, ok, want)
		}
	}
	if _, ok := l.ResolveToCurrent(99); ok {
		t.Error("99 resolves")
	}
	if last, ok := l.LastSplit(); !ok || last != 3 || len(l.SplitMap()) != 3 {
		t.Errorf("last split %d, %v of %v", last, ok, l.SplitMap())
	}
}

func wantAncestors(t *testing.T, l ShardLayout, want map[ShardID][]ShardID) {
	t.Helper()
	for id, chain := range want {
		if got, ok := l.Ancestors(id); !ok || !slices.Equal(got, chain) {
			t.Errorf("%v: ancestors of %d = %v, %v, want %v", l, id, got, ok, chain)
		}
	}
}

// TestV3HistoryVectorA81 compares with nearcore's literals: the history of a layout V2 in a V3.
func TestV3HistoryVectorA81(t *testing.T) {
	t.Parallel()
	l0 := must(t)(NewShardLayoutV2(nil, ids(0), nil))
	l1 := must(t)(l0.DeriveV2("bbb"))
	l2 := must(t)(l1.DeriveV2("ccc"))
	l3 := must(t)(l2.DeriveV3("aaa", func() []ShardLayout { return []ShardLayout{l2, l1, l0} }))
	wantIDs(t, l3, 5, 6, 3, 4)
	wantChildren(t, l3, map[ShardID][]ShardID{1: {5, 6}, 3: {3}, 4: {4}})
	wantParents(t, l3, map[ShardID]ShardID{5: 1, 6: 1, 3: 3, 4: 4})
	wantAncestors(t, l3, map[ShardID][]ShardID{5: {1, 0}, 6: {1, 0}, 3: {2, 0}, 4: {2, 0}})

	// tests.rs:474: a history ends before the first layout of a version below 3.
	old, err := NewShardLayoutV1(nil, nil, 2)
	first := must(t)(NewShardLayoutV2(accounts("test1.near"), ids(1, 2), map[ShardID][]ShardID{0: {1, 2}}))
	second := must(t)(NewShardLayoutV2(accounts("test1.near", "test2.near"), ids(1, 3, 4), map[ShardID][]ShardID{1: {1}, 2: {3, 4}}))
	history := []ShardLayout{second, first, must(t)(old, err)}
	for i, want := range []map[ShardID][]ShardID{{2: {3, 4}}, {}, {}, {}} {
		if got := SplitHistory(history[i:]); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("history from %d = %v, want %v", i, got, want)
		}
	}
	if _, err := NewShardLayoutV0(1, 0).DeriveV3("a.near", nil); !errors.Is(err, ErrCannotDerive) {
		t.Errorf("derived from V0: %v", err)
	}
}

// TestSplitsMatchNeardsResharding has the layout after four dynamic splits of a chain that neard
// made (reshard.jsonl.gz, nearcore f0c7706f1): two shards of version 3 at first, then each boundary
// in the order of the splits.
func TestSplitsMatchNeardsResharding(t *testing.T) {
	t.Parallel()
	const first = `{"V2":{"boundary_accounts":["test1"],"shard_ids":[0,1],"id_to_index_map":{"0":0,"1":1},` +
		`"index_to_id_map":{"0":0,"1":1},"shards_split_map":null,"shards_parent_map":null,"version":3}}`
	const last = `{"V3":{"boundary_accounts":["p-0","test1","test1p","test2p","z-0"],"id_to_index_map":{"4":0,"5":1,"6":4,"7":5,"8":2,"9":3},` +
		`"last_split":2,"shard_ids":[4,5,8,9,6,7],"shards_split_map":{"0":[4,5],"1":[2,3],"2":[8,9],"3":[6,7]}}}`
	var l, want ShardLayout
	if err := json.Unmarshal([]byte(first), &l); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(last), &want); err != nil {
		t.Fatal(err)
	}
	base := l
	for _, boundary := range accounts("test2p", "p-0", "z-0", "test1p") {
		l = must(t)(l.DeriveV3(boundary, func() []ShardLayout { return []ShardLayout{base} }))
	}
	if !l.Equal(want) {
		t.Errorf("layout %v, want %v", l, want)
	}
}

// TestMultiShardIDsMatchNearcore has the ids of nearcore's init (core/primitives/src/shard_layout).
func TestMultiShardIDsMatchNearcore(t *testing.T) {
	t.Parallel()
	for _, want := range [][]ShardID{
		{0}, {1, 0}, {2, 1, 0}, {3, 1, 0, 2}, {0, 4, 3, 2, 1}, {0, 4, 5, 2, 1, 3}, {6, 2, 5, 0, 4, 1, 3},
		{6, 2, 5, 0, 4, 7, 3, 1}, {5, 2, 6, 0, 7, 3, 8, 4, 1},
	} {
		l := must(t)(MultiShardLayout(len(want)))
		wantIDs(t, l, want...)
		if l.Version() != 0 || l.Tag() != 2 {
			t.Errorf("%v has version %d", l, l.Version())
		}
	}
	for _, n := range []int{-1, 0, 11} {
		if _, err := MultiShardLayout(n); !errors.Is(err, ErrLayout) {
			t.Errorf("%d shards: %v", n, err)
		}
	}
	// Part B: the single-shard layout in borsh.
	single := must(t)(SingleShardLayout(), nil)
	if got, want := hex.EncodeToString(borsh.Marshal(single)), "02"+"00000000"+"010000000000000000000000"+
		strings.Repeat("0100000000000000000000000000000000000000", 2)+"00"+"00"+"00000000"; got != want {
		t.Errorf("borsh = %s, want %s", got, want)
	}
	// As `init` writes it into genesis.json.
	const want = `{"V2":{"boundary_accounts":[],"shard_ids":[0],"id_to_index_map":{"0":0},"index_to_id_map":{"0":0},` +
		`"shards_split_map":null,"shards_parent_map":null,"version":0}}`
	if got, err := json.Marshal(single); err != nil || string(got) != want {
		t.Errorf("JSON %s, %v, want %s", got, err, want)
	}
}

func TestInvalidLayoutsAreRefused(t *testing.T) {
	t.Parallel()
	type splits = map[ShardID][]ShardID
	bad := func(name string, l ShardLayout, err error) {
		t.Helper()
		if !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	v2 := func(name string, b []AccountID, i []ShardID, s splits) {
		t.Helper()
		l, err := NewShardLayoutV2(b, i, s)
		bad(name, l, err)
	}
	v2("no shards", nil, nil, nil)
	v2("unsorted", accounts("bb", "aa"), ids(0, 1, 2), nil)
	v2("id twice", accounts("bb"), ids(1, 1), nil)
	v2("large id", nil, ids(1<<32), nil)
	v2("parent past u32", accounts("bb"), ids(1, 2), splits{1 << 32: {1, 2}})
	v2("child twice", accounts("bb"), ids(1, 2), splits{0: {1, 2}, 1: {1}})
	v2("renamed", nil, ids(1), splits{0: {1}})
	v2("split but there", accounts("bb"), ids(0, 1), splits{0: {0, 1}})
	v2("no child", accounts("bb"), ids(1, 2), splits{0: {1, 2}, 3: {}})
	v2("missing shard", accounts("bb"), ids(1, 2), splits{0: {1, 3}})
	v3 := func(name string, i []ShardID, s splits, last ShardID) {
		t.Helper()
		l, err := NewShardLayoutV3(accounts("bb"), i, s, last)
		bad(name, l, err)
	}
	v3("no history", ids(1, 2), nil, 0)
	v3("last split unknown", ids(1, 2), splits{0: {1, 2}}, 4)
	v3("one child", ids(1, 2), splits{0: {1}}, 0)
	v3("split but there", ids(1, 2), splits{1: {2, 3}}, 1)
	v3("child that is nowhere", ids(1, 2), splits{0: {1, 2}, 3: {4, 5}}, 0)
	v3("parent past u32", ids(1, 2), splits{1 << 32: {1, 2}}, 1<<32)
	v3("child twice", ids(1, 2), splits{0: {1, 2}, 3: {1, 4}}, 0)
	v3("circle", ids(1, 2), splits{5: {1, 6}, 6: {5, 2}}, 5)
	for _, text := range []string{
		`{}`, `5`, `{"V9":{}}`, `{"V0":{"num_shards":0,"version":0}}`, `{"V0":{"num_shards":99999999,"version":0}}`, `{"V2":{}}`,
		`{"V2":{"boundary_accounts":[],"shard_ids":[0],"id_to_index_map":{"0":1},"index_to_id_map":{"0":0},"version":0}}`,
		`{"V2":{"boundary_accounts":[],"shard_ids":[0],"id_to_index_map":{"0":0},"index_to_id_map":{},"version":0}}`,
		`{"V2":{"boundary_accounts":[],"shard_ids":[0],"id_to_index_map":{"0":0},"index_to_id_map":{"0":0},"shards_split_map":{"0":[0]},"version":0}}`,
		`{"V3":{"boundary_accounts":["bb"],"shard_ids":[1,2],"id_to_index_map":{},"shards_split_map":{"0":[1,2]},"last_split":0}}`,
	} {
		var l ShardLayout
		if err := json.Unmarshal([]byte(text), &l); err == nil || !l.IsZero() {
			t.Errorf("%s gives %v", text, l)
		}
	}
}

func TestShardUIDTextAndErrors(t *testing.T) {
	t.Parallel()
	u := NewShardUID(3, 5)
	if b := u.Bytes(); u.String() != "s5.v3" || hex.EncodeToString(b[:]) != "0300000005000000" || !bytes.Equal(borsh.Marshal(u), b[:]) {
		t.Errorf("%v %x", u, b)
	}
	for text, want := range map[string]string{
		"s5.v3": "", "s+5.v3": "", "s5": `shard version and number must be separated by "."`, "s5.3": `shard version must start with "v"`,
		"s5.v": `shard version after "v" must be a number, cannot parse integer from empty string`,
		"5.v3": `shard id must start with "s"`, "s-1.v3": `shard id after "s" must be a number, invalid digit found in string`,
		"s4294967296.v3": `shard id after "s" must be a number, number too large to fit in target type`,
	} {
		got, err := ParseShardUID(text)
		if errText(err) != want || err == nil && got != u {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for text, ok := range map[string]bool{
		`"s5.v3"`: true, `{"version":3,"shard_id":5}`: true, `{"version":3}`: false, `{"shard_id":5}`: false,
		`{"version":3,"shard_id":5,"x":1}`: false, `5`: false,
	} {
		var got ShardUID
		if err := json.Unmarshal([]byte(text), &got); (err == nil) != ok || ok && got != u {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	m := map[ShardUID]int{u: 1}
	if out, err := json.Marshal(m); err != nil || string(out) != `{"s5.v3":1}` {
		t.Errorf("JSON key %s, %v", out, err)
	}
	if NewShardUID(1, 9).Compare(u) != -1 || u.Compare(u) != 0 || u.Compare(NewShardUID(3, 4)) != 1 {
		t.Error("order of uids")
	}
}

func layoutSeeds(f *testing.F) (out []ShardLayout) {
	ok := func(l ShardLayout, err error) ShardLayout {
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, l)
		return l
	}
	ok(NewShardLayoutV0(4, 0), nil)
	ok(NewShardLayoutV1(accounts("aa", "bb"), [][]ShardID{{0, 1}, {2}}, 1))
	v2 := ok(ok(MultiShardLayout(3)).DeriveV2("aa"))
	ok(ok(v2.DeriveV3("bb", nil)).DeriveV3("cc", nil))
	return out
}

func FuzzShardLayoutBorsh(f *testing.F) {
	for _, l := range layoutSeeds(f) {
		f.Add(borsh.Marshal(l))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l ShardLayout
		if borsh.Unmarshal(in, &l) != nil {
			return
		}
		if got := borsh.Marshal(l); !bytes.Equal(got, in) {
			t.Errorf("%x became %x", in, got)
		}
		exerciseLayout(t, l)
	})
}

func FuzzShardLayoutJSON(f *testing.F) {
	for _, l := range layoutSeeds(f) {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l, again ShardLayout
		if json.Unmarshal(in, &l) != nil || l.IsZero() {
			return
		}
		text, err := json.Marshal(l)
		if err != nil || json.Unmarshal(text, &again) != nil || !again.Equal(l) {
			t.Errorf("%s became %s: %v", in, text, err)
		}
		exerciseLayout(t, l)
	})
}

func exerciseLayout(t *testing.T, l ShardLayout) {
	for _, a := range append(l.Boundaries(), "aa", "zz.near") {
		if !l.Has(l.ShardOf(a)) {
			t.Errorf("%v: %s is in no shard", l, a)
		}
	}
	for _, id := range l.ShardIDs() {
		if p, err := l.Parent(id); err == nil {
			if children, ok := l.Children(p); !ok || !slices.Contains(children, id) {
				t.Errorf("%v: %d is no child of its parent", l, id)
			}
		}
		l.ResolveToCurrent(id)
		l.Ancestors(id)
	}
	l.SplitParents()
	l.SplitChildren()
	_, _ = l.DeriveV3("middle.near", nil)
	_ = l.String()
}

func BenchmarkShardOf(b *testing.B) {
	l, err := MultiShardLayout(8)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.ShardOf("test4.near")
	}
}
