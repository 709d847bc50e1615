package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func commit(u *TrieUpdate) { u.Commit(primitives.CauseInitialState, primitives.Hash{}) }

func keysOf(t *testing.T, u *TrieUpdate, prefix []byte) (keys []string) {
	t.Helper()
	if err := u.Keys(prefix, func(k []byte) error { keys = append(keys, string(k)); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKeysIterateOverBothOverlays: nearcore update.rs, trie_iter.
func TestKeysIterateOverBothOverlays(t *testing.T) {
	t.Parallel()
	u := NewUnrecorded(fakeTrie{})
	u.Set(dataKey("dog"), []byte("puppy"))
	u.Set(dataKey("aaa"), []byte("puppy"))
	commit(u)
	base := finalize(t, u).Trie
	dog, dog2, dog3 := string(dataKey("dog")), string(dataKey("dog2")), string(dataKey("dog3"))
	check := func(u *TrieUpdate, want ...string) {
		t.Helper()
		if got := keysOf(t, u, dataKey("dog")); !slices.Equal(got, want) {
			t.Errorf("keys = %q, want %q", got, want)
		}
	}
	u = NewUnrecorded(base)
	u.Set([]byte(dog2), []byte("puppy"))
	u.Set(dataKey("xxx"), []byte("puppy"))
	check(u, dog, dog2)
	u.Rollback()
	check(u, dog)
	u.Remove([]byte(dog))
	check(u)
	u.Rollback()
	u.Set([]byte(dog2), []byte("puppy"))
	commit(u)
	u.Remove([]byte(dog2))
	check(u, dog)
	u.Rollback()
	u.Set([]byte(dog3), []byte("puppy"))
	check(u, dog, dog2, dog3)
}

// TestTrieUpdateRemovesAcrossOverlays is nearcore's update.rs trie_remove.
func TestTrieUpdateRemovesAcrossOverlays(t *testing.T) {
	t.Parallel()
	empty := fakeTrie{}.Root()
	u := NewUnrecorded(fakeTrie{})
	u.Remove(dataKey("dog")) // absent
	commit(u)
	if got := finalize(t, u).Trie.Root(); got != empty {
		t.Errorf("removing an absent key: root %v", got)
	}
	u = NewUnrecorded(fakeTrie{})
	u.Set(dataKey("dog"), []byte("puppy"))
	u.Remove(dataKey("dog"))
	if v, err := u.Get(dataKey("dog")); v != nil || err != nil {
		t.Errorf("Get = %q, %v", v, err)
	}
	if found, err := u.Contains(dataKey("dog")); found || err != nil {
		t.Errorf("Contains = %v, %v", found, err)
	}
	commit(u)
	if got := finalize(t, u).Trie.Root(); got != empty {
		t.Errorf("set and removed: root %v", got)
	}
}

// TestRecordedSizeCountsPathsAndValues checks the recorded size and its upper bound: keys in an
// overlay do not count, and of the removals only those of contract entries.
func TestRecordedSizeCountsPathsAndValues(t *testing.T) {
	t.Parallel()
	base := fakeTrie{map[string]string{string(dataKey("a")): "1", string(dataKey("b")): "2"}}
	u := New(base, 2350)
	recorded := func() []string { return u.Recording().(*fakeRecording).list }
	step := func(what string, want int, do func() error) {
		t.Helper()
		before := len(recorded())
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if got := len(recorded()) - before; got != want {
			t.Errorf("%s recorded %d strings, want %d", what, got, want)
		}
	}
	get := func(k string) func() error {
		return func() error { _, err := u.Get(dataKey(k)); return err }
	}
	step("get", 2, get("a"))
	step("again", 0, get("a"))
	step("absent", 1, get("x"))
	step("contains", 1, func() error { _, err := u.Contains(dataKey("b")); return err })
	u.Set(dataKey("c"), []byte("3"))
	step("prospective", 0, get("c"))
	commit(u)
	step("committed", 0, get("c"))
	u.Remove(dataKey("d"))
	step("removed", 0, get("d"))
	u.Rollback()
	step("rolled back", 1, get("d"))
	step("pure", 0, func() error { _, err := u.GetPure(dataKey("e")); return err })
	if u.LimitExceeded() != (u.UpperBound() > 2350) || u.UpperBound() != 500+2000 {
		t.Errorf("bound = %d, exceeded %v, want 2500: five strings and a removal that was rolled back", u.UpperBound(), u.LimitExceeded())
	}
	u.Remove(primitives.AppendAccountKey(nil, "alice"))
	commit(u)
	if u.UpperBound() != 2500 {
		t.Errorf("removing an account raised the bound to %d", u.UpperBound())
	}
	f := finalize(t, u)
	if len(f.Changes) != 2 || u.RecordedSize() != 700 {
		t.Errorf("%d keys changed, %d bytes recorded at the end", len(f.Changes), u.RecordedSize())
	}
}

func TestChangesKeepCauses(t *testing.T) {
	t.Parallel()
	u := NewUnrecorded(fakeTrie{})
	tx, receipt := primitives.HashBytes([]byte("tx")), primitives.HashBytes([]byte("receipt"))
	u.Set(dataKey("k"), []byte("1"))
	u.Commit(primitives.CauseTransactionProcessing, tx)
	u.Set(dataKey("k"), []byte("dropped"))
	u.Rollback()
	u.Set(dataKey("k"), []byte{})
	u.Set(dataKey("j"), []byte("2"))
	u.Commit(primitives.CauseReceiptProcessing, receipt)
	u.Remove(dataKey("k"))
	commit(u)
	got := finalize(t, u).Changes
	want := []primitives.KeyChanges{
		{Key: dataKey("j"), Changes: []primitives.StateChange{{Cause: primitives.StateChangeCause{Kind: primitives.CauseReceiptProcessing, Hash: receipt}, Value: []byte("2")}}},
		{Key: dataKey("k"), Changes: []primitives.StateChange{
			{Cause: primitives.StateChangeCause{Kind: primitives.CauseTransactionProcessing, Hash: tx}, Value: []byte("1")},
			{Cause: primitives.StateChangeCause{Kind: primitives.CauseReceiptProcessing, Hash: receipt}, Value: []byte{}},
			{Cause: primitives.StateChangeCause{Kind: primitives.CauseInitialState}},
		}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("changes = %v, want %v", got, want)
	}
	if got[1].Last() != nil || got[0].Last() == nil {
		t.Errorf("last values = %v, %v", got[0].Last(), got[1].Last())
	}
}

// TestAdoptRefusesSpanWithChangedReads checks that Adopt applies a span if nothing that the span
// read has changed, and refuses it otherwise, together with later spans that depend on it.
func TestAdoptRefusesSpanWithChangedReads(t *testing.T) {
	t.Parallel()
	base := fakeTrie{map[string]string{string(dataKey("a")): "1", string(dataKey("b")): "2"}}
	u := New(base, 1<<40)
	add := func(u *TrieUpdate, from, to string) {
		v, err := u.Get(dataKey(from))
		if err != nil {
			t.Fatal(err)
		}
		u.Set(dataKey(to), append(bytes.Clone(v), '+'))
		commit(u)
	}
	span := func(f *TrieUpdate, from, to string) Span {
		s := f.Begin()
		add(f, from, to)
		s.End()
		return s
	}
	f, g, h := u.Fork(1), u.Fork(2), u.Fork(3)
	f1, f2 := span(f, "a", "a"), span(f, "a", "a")
	g1, g2 := span(g, "b", "c"), span(g, "c", "b")
	if !u.Adopt(&f1) || !u.Adopt(&g1) || !u.Adopt(&f2) {
		t.Fatal("Adopt refused an undisturbed span")
	}
	add(u, "a", "c") // between g1 and g2
	if u.Adopt(&g2) {
		t.Error("adopted a span that read what another wrote")
	}
	add(u, "c", "b")
	for k, want := range map[string]string{"a": "1++", "b": "1++++", "c": "1+++"} {
		if got, err := u.Get(dataKey(k)); string(got) != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", k, got, err, want)
		}
	}
	// Spans of one fork that do not depend on each other may be adopted in any order, those that do
	// may not.
	h1, h2, h3 := span(h, "d", "d"), span(h, "e", "e"), span(h, "d", "f")
	if !u.Adopt(&h2) || u.Adopt(&h3) || !u.Adopt(&h1) || !u.Adopt(&h3) {
		t.Error("spans of one fork")
	}
	i := u.Fork(4)
	i1, i2, i3 := span(i, "d", "g"), span(i, "e", "g"), span(i, "g", "g")
	if !u.Adopt(&i1) || u.Adopt(&i3) || !u.Adopt(&i2) || !u.Adopt(&i3) {
		t.Error("a span was adopted onto another value than it read")
	}
	s := u.Fork(5).Begin()
	if _, err := s.fork.Get(dataKey("z")); err != nil {
		t.Fatal(err)
	}
	_ = keysOf(t, s.fork, dataKey(""))
	s.End()
	if u.Adopt(&s) {
		t.Error("adopted a span that iterated")
	}
}

// TestNewCodeIsFoundByHash checks that code which this chunk deployed or distributed is found by
// its hash immediately, and not after a rollback. Code from before the chunk is found only at the
// given key and with the given hash.
func TestNewCodeIsFoundByHash(t *testing.T) {
	t.Parallel()
	old, mine, global, byName := []byte("old"), []byte("mine"), []byte("global"), []byte("by name")
	hash := primitives.HashBytes
	oldKey := primitives.AppendCodeKey(nil, "a")
	u := New(fakeTrie{map[string]string{string(oldKey): string(old)}}, 1<<40)
	want := func(when string, code []byte, key []byte, found bool) {
		t.Helper()
		got, err := u.Code(hash(code), key)
		if err != nil || found != bytes.Equal(got, code) || !found && got != nil {
			t.Errorf("%s: %q = %q, %v", when, code, got, err)
		}
	}
	none := primitives.AppendCodeKey(nil, "b")
	want("at first", old, oldKey, true)
	want("at another key", old, none, false)
	want("another hash", mine, oldKey, false)
	u.SetCode("b", hash(mine), mine)
	want("before the commit", mine, none, true)
	u.Rollback()
	want("rolled back", mine, none, false)
	u.SetCode("b", hash(mine), mine)
	u.SetGlobalCode(&primitives.GlobalContractID{Hash: hash(global)}, global)
	u.SetGlobalCode(&primitives.GlobalContractID{Account: "a"}, byName)
	commit(u)
	for _, code := range [][]byte{old, mine, global, byName} {
		want("committed", code, oldKey, true)
	}
	size := u.RecordedSize()
	want("again", old, oldKey, true)
	if got := u.Accesses(); len(got) != 1 || got[0].Hash != hash(old) || !bytes.Equal(got[0].Key, oldKey) {
		t.Errorf("accesses = %v, want the one code from before the chunk", got)
	}
	if size != 0 || u.RecordedSize() != 0 {
		t.Errorf("looking for code records %d bytes", u.RecordedSize())
	}
}

// provenTrie is a Proven trie: it finds code only by its hash.
type provenTrie struct {
	fakeTrie
	codes map[primitives.Hash][]byte
}

func (t provenTrie) CodeOf(hash primitives.Hash) []byte { return t.codes[hash] }

// TestCodeOfProofIsFoundByHashAlone checks that with a Proven trie code is found by its hash alone,
// since a proof has no code, and that code of this chunk takes precedence.
func TestCodeOfProofIsFoundByHashAlone(t *testing.T) {
	t.Parallel()
	key, code := primitives.AppendCodeKey(nil, "a"), []byte("code")
	hash := primitives.HashBytes(code)
	for _, c := range []struct {
		codes map[primitives.Hash][]byte
		want  []byte
	}{{map[primitives.Hash][]byte{hash: code}, code}, {nil, nil}} {
		u := New(provenTrie{fakeTrie{map[string]string{string(key): "code"}}, c.codes}, 1<<40)
		if got, err := u.Code(hash, key); err != nil || !bytes.Equal(got, c.want) || len(u.Accesses()) != 0 {
			t.Errorf("Code = %q, %v, accesses %v, want %q", got, err, u.Accesses(), c.want)
		}
		u.SetCode("b", hash, []byte("brought"))
		commit(u)
		if got, err := u.Code(hash, key); err != nil || string(got) != "brought" {
			t.Errorf("Code = %q, %v, want the code of this chunk", got, err)
		}
	}
}

// TestAdoptRefusesSpanWithChangedCode checks that a span that looked up code is adopted only if the
// lookup would have the same result now: the code is from this chunk in both cases, or in neither.
func TestAdoptRefusesSpanWithChangedCode(t *testing.T) {
	t.Parallel()
	u := New(fakeTrie{map[string]string{string(primitives.AppendCodeKey(nil, "old")): "old"}}, 1<<40)
	hash := func(code string) primitives.Hash { return primitives.HashBytes([]byte(code)) }
	deploy := func(u *TrieUpdate, code string) {
		u.SetCode(primitives.AccountID(code), hash(code), []byte(code))
		commit(u)
	}
	look := func(u *TrieUpdate, code string) {
		if _, err := u.Code(hash(code), primitives.AppendCodeKey(nil, "old")); err != nil {
			t.Fatal(err)
		}
	}
	span := func(f *TrieUpdate, do ...func()) Span {
		s := f.Begin()
		for _, f := range do {
			f()
		}
		commit(f)
		s.End()
		return s
	}
	deploy(u, "before")
	f := u.Fork(1)
	missing := span(f, func() { look(f, "later") })
	still := span(f, func() { look(f, "never") })
	here := span(f, func() { look(f, "before") }, func() { look(f, "old") })
	makes := span(f, func() { deploy(f, "forked") })
	own := span(f, func() { deploy(f, "own") }, func() { look(f, "own") })
	uses, usesAgain := span(f, func() { look(f, "forked") }), span(f, func() { look(f, "forked") })
	u.SetGlobalCode(&primitives.GlobalContractID{Hash: hash("later")}, []byte("later"))
	commit(u)
	for _, c := range []struct {
		name string
		s    *Span
		want bool
	}{
		{"code that was not there and is now", &missing, false},
		{"code that is not there yet", &still, true},
		{"code from before", &here, true},
		{"code of a span that is not adopted", &uses, false},
		{"code of its own", &own, true},
		{"a deployment", &makes, true},
		{"code of a span that was adopted", &usesAgain, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := u.Adopt(c.s); got != c.want {
				t.Errorf("adopted %v, want %v", got, c.want)
			}
		})
	}
	if got := u.Accesses(); len(got) != 1 || got[0].Hash != hash("old") {
		t.Errorf("accesses = %v, want those of the spans that were adopted", got)
	}
}

// TestBufferGroupsMatchReceiptList compares the groups of a buffer with a list of its receipts
// (nearcore outgoing_metadata.rs).
func TestBufferGroupsMatchReceiptList(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	u := NewUnrecorded(fakeTrie{})
	g := &Groups{Shard: 7}
	type item struct {
		size uint64
		gas  primitives.Gas
	}
	var queue []item
	for range 3000 {
		if rng.IntN(5) < 3 {
			x := item{1 + rng.Uint64N(60_000), primitives.Gas(rng.Uint64())}
			if rng.IntN(20) == 0 {
				x.size = 4_000_000
			}
			queue = append(queue, x)
			if err := u.PushGrouped(g, x.size, x.gas); err != nil {
				t.Fatal(err)
			}
		} else if len(queue) > 0 {
			if err := u.PopGrouped(g, queue[0].size, queue[0].gas); err != nil {
				t.Fatal(err)
			}
			queue = queue[1:]
		}
		stored, err := u.Groups(7)
		if err != nil || stored != nil && *stored != *g {
			t.Fatalf("stored %+v, %v, want %+v", stored, err, g)
		}
		var size uint64
		var gas primitives.Balance
		for _, x := range queue {
			size += x.size
			gas, _ = gas.Add(primitives.Yocto(uint64(x.gas)))
		}
		if g.Receipts != uint64(len(queue)) || g.TotalSize != size || g.TotalGas != gas {
			t.Fatalf("%+v, want %d receipts, %d bytes, %v gas", g, len(queue), size, gas)
		}
		var sum uint64
		for i := g.First; i < g.Next; i++ {
			x, err := u.Group(7, i)
			if err != nil || x.Size == 0 || x.Size > GroupSizeLimit && x.Size != 4_000_000 {
				t.Fatalf("group %d = %+v, %v", i, x, err)
			}
			sum += x.Size
		}
		if sum != size {
			t.Fatalf("groups hold %d bytes, want %d", sum, size)
		}
	}
	if err := u.PopGrouped(&Groups{}, 1, 0); err == nil {
		t.Error("popped from no groups")
	}
}
