package primitives

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

func edHandle(b byte) PublicKeyHandle {
	return PublicKeyHandle("\x00" + strings.Repeat(string(rune(b)), 32))
}

func mlDSAHandle(b byte) PublicKeyHandle {
	return PublicKeyHandle("\x03" + strings.Repeat(string(rune(b)), 32))
}

func contractInit() *UniversalStateInitV1 {
	return &UniversalStateInitV1{Code: new(GlobalContractID), Data: []StateEntry{{[]byte("alpha"), []byte("1")}, {[]byte("beta"), []byte("2")}},
		AccessKeys: []PublicKeyHandle{edHandle(7), mlDSAHandle(9)}}
}

func keyOnlyInit() *UniversalStateInitV1 {
	return &UniversalStateInitV1{AccessKeys: []PublicKeyHandle{edHandle(1)}}
}

// stateInitBytes is V1 without code, with the entries and keys as given.
func stateInitBytes(data []StateEntry, keys ...PublicKeyHandle) RawStateInit {
	return (&UniversalStateInitV1{Data: data, AccessKeys: keys}).Encode()
}

func entries(keysAndValues ...string) (out []StateEntry) {
	for i := 0; i < len(keysAndValues); i += 2 {
		out = append(out, StateEntry{[]byte(keysAndValues[i]), []byte(keysAndValues[i+1])})
	}
	return out
}

// TestUniversalStateInitMatchesNearcore has the tests of near-primitives 0.38.0
// src/universal_state_init.rs, under its names.
func TestUniversalStateInitMatchesNearcore(t *testing.T) {
	t.Parallel()
	// nonCanonical are encodings of one value each: unsorted, or with a duplicate.
	nonCanonical := []RawStateInit{
		stateInitBytes(entries("b", "", "a", "")),
		stateInitBytes(nil, edHandle(2), edHandle(1)),
		stateInitBytes(entries("a", "1", "a", "2")),
	}
	refused := func(t *testing.T, raw RawStateInit, want error) {
		t.Helper()
		if s, err := raw.Decode(); err != want {
			t.Errorf("%x decodes to %+v, %v, want %v", raw, s, err, want)
		}
	}
	trailing := append(contractInit().Encode(), 0)

	t.Run("borsh round trip", func(t *testing.T) {
		for _, s := range []*UniversalStateInitV1{contractInit(), keyOnlyInit()} {
			var got UniversalStateInitV1
			if err := borsh.Unmarshal(s.Encode(), &got); err != nil || !reflect.DeepEqual(&got, s) {
				t.Errorf("%+v check back as %+v, %v", s, got, err)
			}
			if got, err := s.Encode().Decode(); err != nil || !reflect.DeepEqual(got, s) {
				t.Errorf("%+v check back as %+v, %v", s, got, err)
			}
		}
	})
	t.Run("accessors", func(t *testing.T) {
		c, k := contractInit(), keyOnlyInit()
		if !c.HasKey(edHandle(7)) || !c.HasKey(mlDSAHandle(9)) || c.HasKey(edHandle(9)) || k.HasKey(edHandle(7)) {
			t.Error("HasKey does not find the keys that are there and only them")
		}
		if !c.Encode().HasPostQuantumKey() || k.Encode().HasPostQuantumKey() {
			t.Error("only the first has a post-quantum key")
		}
	})
	t.Run("JSON round trip", func(t *testing.T) {
		var got UniversalStateInitV1
		if err := json.Unmarshal(contractInit().AppendJSON(nil), &got); err != nil || !reflect.DeepEqual(&got, contractInit()) {
			t.Errorf("%s check back as %+v, %v", contractInit().AppendJSON(nil), got, err)
		}
	})
	t.Run("JSON shape", func(t *testing.T) {
		empty, got := new(UniversalStateInitV1), keyOnlyInit()
		if text := string(empty.AppendJSON(nil)); text != `{"v1":{}}` {
			t.Errorf("empty is %s", text)
		}
		if err := json.Unmarshal([]byte(`{"v1":{}}`), got); err != nil || !reflect.DeepEqual(got, empty) {
			t.Errorf("empty check back as %+v, %v", got, err)
		}
		if text := string(keyOnlyInit().AppendJSON(nil)); !strings.HasPrefix(text, `{"v1":{"access_keys":`) {
			t.Errorf("of a key alone it is %s", text)
		}
		for _, in := range []string{``, `null`, `{}`, `{"v2":{}}`, `{"v1":null}`, `{"v1":{},"v2":{}}`, `{"v1":{"data":{"?":""}}}`, `{"v1":{"access_keys":["?"]}}`} {
			if err := json.Unmarshal([]byte(in), got); err == nil {
				t.Errorf("%s is read as %+v", in, got)
			}
		}
	})
	t.Run("strict rejects trailing bytes", func(t *testing.T) { refused(t, trailing, ErrStateInitMalformed) })
	t.Run("strict rejects malformed", func(t *testing.T) {
		refused(t, nil, ErrStateInitMalformed)
		refused(t, RawStateInit{0}, ErrStateInitMalformed)
	})
	t.Run("strict accepts hand built canonical", func(t *testing.T) {
		raw := stateInitBytes(entries("a", "1", "b", "2"), edHandle(1), edHandle(2))
		if s, err := raw.Decode(); err != nil || !bytes.Equal(s.Encode(), raw) {
			t.Errorf("%x decodes to %+v, %v", raw, s, err)
		}
	})
	t.Run("strict rejects unsorted data", func(t *testing.T) { refused(t, nonCanonical[0], ErrStateInitNonCanonical) })
	t.Run("strict rejects unsorted access keys", func(t *testing.T) { refused(t, nonCanonical[1], ErrStateInitNonCanonical) })
	t.Run("strict rejects duplicates", func(t *testing.T) {
		refused(t, nonCanonical[2], ErrStateInitNonCanonical)
		refused(t, stateInitBytes(nil, edHandle(1), edHandle(1)), ErrStateInitNonCanonical)
	})
	t.Run("lenient accepts non-canonical", func(t *testing.T) {
		for _, raw := range nonCanonical {
			s, err := raw.DecodeLenient()
			if err != nil || bytes.Equal(s.Encode(), raw) {
				t.Errorf("%x decodes to %+v, %v", raw, s, err)
			}
		}
		if s, err := nonCanonical[2].DecodeLenient(); err != nil || !reflect.DeepEqual(s.Data, entries("a", "2")) {
			t.Errorf("of equal keys the last counts: %+v, %v", s, err)
		}
	})
	t.Run("lenient rejects malformed", func(t *testing.T) {
		for _, raw := range []RawStateInit{nil, {0}, trailing} {
			if s, err := raw.DecodeLenient(); err != ErrStateInitMalformed {
				t.Errorf("%x decodes to %+v, %v", raw, s, err)
			}
		}
	})
	t.Run("exit status", func(t *testing.T) {
		for want, err := range []error{nil, ErrStateInitMalformed, ErrStateInitNonCanonical} {
			if got := StateInitExitStatus(err); got != uint64(want) {
				t.Errorf("status of %v is %d, want %d", err, got, want)
			}
		}
	})
	counts := func(t *testing.T, got, want StateInitCounts) {
		t.Helper()
		if got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	}
	t.Run("counts count what decodes", func(t *testing.T) {
		raw := stateInitBytes(entries("b", "", "a", ""), edHandle(2), edHandle(1))
		refused(t, raw, ErrStateInitNonCanonical)
		counts(t, raw.Counts(), StateInitCounts{Bytes: uint64(len(raw)), Entries: 2, Keys: 2})
		counts(t, nonCanonical[2].Counts(), StateInitCounts{Bytes: uint64(len(nonCanonical[2])), Entries: 1})
		counts(t, RawStateInit{9, 9, 9, 9, 9}.Counts(), StateInitCounts{Bytes: 5})
	})
	t.Run("send counts lenient are counts", func(t *testing.T) {
		for _, raw := range append(nonCanonical, contractInit().Encode(), RawStateInit{9, 9, 9, 9, 9}) {
			counts(t, raw.SendCounts(false), raw.Counts())
		}
	})
	t.Run("send counts strict are counts when canonical", func(t *testing.T) {
		for _, s := range []*UniversalStateInitV1{contractInit(), keyOnlyInit()} {
			counts(t, s.Encode().SendCounts(true), s.Encode().Counts())
		}
	})
	t.Run("send counts strict charge the bound for what is rejected", func(t *testing.T) {
		duplicated := stateInitBytes(make([]StateEntry, 1000), edHandle(1), edHandle(1), edHandle(1))
		unsorted := stateInitBytes(entries("b", "", "a", ""), edHandle(2), edHandle(1))
		for _, x := range []struct {
			raw           RawStateInit
			entries, keys uint64
		}{{duplicated, 1000, 3}, {unsorted, 2, 2}, {trailing, 2, 2}} {
			c := x.raw.SendCounts(true)
			if c.Bytes != uint64(len(x.raw)) || c.Entries < x.entries || c.Keys < x.keys {
				t.Errorf("%x counts as %+v, want at least %d and %d", x.raw, c, x.entries, x.keys)
			}
		}
		counts(t, duplicated.Counts(), StateInitCounts{Bytes: uint64(len(duplicated)), Entries: 1, Keys: 1})
		counts(t, RawStateInit(bytes.Repeat([]byte{9}, 5000)).SendCounts(true), StateInitCounts{Bytes: 5000, Entries: 625, Keys: 152})
	})
	t.Run("bound does not underflow", func(t *testing.T) {
		for _, n := range []uint64{0, 1, 6, 9, 10} {
			if c := upperCounts(n); c.Bytes != n || c.Entries > 1 || c.Keys > 1 {
				t.Errorf("bound of %d bytes is %+v", n, c)
			}
		}
		if c := upperCounts(math.MaxUint64); c.Bytes != math.MaxUint64 || c.Entries != 1<<61 {
			t.Errorf("bound of the most bytes is %+v", c)
		}
	})
}

// manyEntries is a state init of 1000 entries and two keys, sorted or with the entries in the reverse
// order.
func manyEntries(sorted bool) RawStateInit {
	var data []StateEntry
	for i := range 1000 {
		data = append(data, StateEntry{[]byte{byte(i >> 8), byte(i)}, []byte("value")})
	}
	if !sorted {
		slices.Reverse(data)
	}
	return stateInitBytes(data, edHandle(1), mlDSAHandle(1))
}

// TestStateInitCountsAllocateNothing: the counts do not copy a canonical state init, however long
// it is.
func TestStateInitCountsAllocateNothing(t *testing.T) {
	raw := manyEntries(true)
	if n := testing.AllocsPerRun(10, func() { raw.Counts(); raw.SendCounts(true); raw.HasPostQuantumKey() }); n > 6 {
		t.Errorf("%v allocations, want at most 6", n)
	}
}

// TestRefusedStateInitIsNotCopied: a state init that is refused for its order is neither copied nor
// collected. Counting its distinct entries, which only errors need, takes a list and a table.
func TestRefusedStateInitIsNotCopied(t *testing.T) {
	raw := manyEntries(false)
	if n := testing.AllocsPerRun(10, func() { _, _ = raw.Decode(); _ = raw.Check(); raw.SendCounts(true) }); n > 6 {
		t.Errorf("%v allocations, want at most 6", n)
	}
	if n := testing.AllocsPerRun(10, func() { raw.Counts() }); n > 30 {
		t.Errorf("%v allocations for the counts, want at most 30", n)
	}
	if c := raw.Counts(); c.Entries != 1000 || c.Keys != 2 {
		t.Errorf("counts are %+v", c)
	}
}

// TestUniversalIDsMatchNearcore has known answers of near-primitives-core 0.38.0
// src/universal_account_id.rs, near-primitives src/utils.rs and near-vm-runner src/tests.
func TestUniversalIDsMatchNearcore(t *testing.T) {
	t.Parallel()
	var ascending, sevens, ones [32]byte
	for i := range ascending {
		ascending[i], sevens[i], ones[i] = byte(i), byte(7*i), 0xff
	}
	code := GlobalContractID{Hash: Hash(bytes.Repeat([]byte{0x22}, 32))}
	for _, x := range []struct {
		name      string
		got, want AccountID
	}{
		{"zeros", UniversalID([32]byte{}), "0u0000000000000000000000000000000000000000000000000000"},
		{"ones", UniversalID(ones), "0uzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzg"},
		{"ascending", UniversalID(ascending), "0u000g40r40m30e209185gr38e1w8124gk2gahc5rr34d1p70x3rfg"},
		{"multiples of 7", UniversalID(sevens), "0u003gw58w4cn32e1z8s6n8pv2d5r7ezm5hj9sn8d8nyvbvh6btbcg"},
		{"one ML-DSA key", (&UniversalStateInitV1{AccessKeys: []PublicKeyHandle{mlDSAHandle(0x11)}}).DerivedAccount(),
			"0ux8te7g99f9kqzdtp9h4qnwt9aczpgayymmtbdc50w199rcw3at1g"},
		{"contract", (&UniversalStateInitV1{Code: &code, Data: entries("key", "value")}).DerivedAccount(),
			"0uzvdgbyea2rd8ywx0kw3cg4vc0ez1x5fc2gyks4fdz9ae0xxvzan0"},
		{"ten zero bytes", RawStateInit(make([]byte, 10)).DerivedAccount(), "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.got != x.want || !x.got.IsUniversal() || x.got.Kind(true) != UniversalAccount || x.got.Kind(false) != NamedAccount {
				t.Errorf("got %s, want %s", x.got, x.want)
			}
			if id, err := ParseAccountID(string(x.got)); err != nil || id != x.got {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestUniversalIDIsOverRawBytes: the id is that of the bytes, not of what they decode to.
func TestUniversalIDIsOverRawBytes(t *testing.T) {
	t.Parallel()
	raw := stateInitBytes(entries("b", "", "a", ""))
	s, err := raw.DecodeLenient()
	if err != nil || bytes.Equal(s.Encode(), raw) || s.DerivedAccount() == raw.DerivedAccount() {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOnlyCanonicalIDIsUniversal: near-primitives-core 0.38.0 src/universal_account_id.rs:131
// only_canonical_encodings_classify_as_universal, and near-account-id 3.0.0
// test_is_account_id_universal.
func TestOnlyCanonicalIDIsUniversal(t *testing.T) {
	t.Parallel()
	valid := string(UniversalID([32]byte(bytes.Repeat([]byte{0x11}, 32))))
	check := func(id string, want AccountKind) {
		t.Helper()
		parsed, err := ParseAccountID(id)
		if err != nil || parsed.Kind(true) != want {
			t.Errorf("%s: kind %d, %v, want %d", id, parsed.Kind(true), err, want)
		}
		if parsed.IsImplicit(true) != (want != NamedAccount) {
			t.Errorf("%s: IsImplicit is %v", id, parsed.IsImplicit(true))
		}
	}
	check(valid, UniversalAccount)
	for _, id := range []string{
		valid[:universalIDLen-1], valid + "0", "0s" + valid[2:], "0s" + strings.Repeat("0", 52), "0x" + strings.Repeat("0", 52),
		valid + ".near", "sub." + valid,
		"0u0000000000000000000000000000000000000000000000000001", "0u00000000000000000000000000000000000000000000000000i0",
		"0u000000000000000000000000000000000000000000000000000", "00u000000000000000000000000000000000000000000000000000",
		"0v0000000000000000000000000000000000000000000000000000", "0u.match_total_len_54_with_a_named_account_00000000000",
	} {
		if len(id) <= MaxAccountIDLen {
			check(id, NamedAccount)
		}
	}
	check("0s0000000000000000000000000000000000000000", DeterministicAccount)
	// Each byte in the middle.
	for b := range 256 {
		id := valid[:27] + string([]byte{byte(b)}) + valid[28:]
		symbol := strings.IndexByte(crockford, byte(b)) >= 0
		parsed, err := ParseAccountID(id)
		if universal := err == nil && parsed.Kind(true) == UniversalAccount; universal != symbol {
			t.Errorf("byte %d: universal is %v, want %v", b, universal, symbol)
		}
	}
	// Each symbol at the end: it carries one bit.
	for i := range crockford {
		want := NamedAccount
		if crockford[i] == '0' || crockford[i] == 'g' {
			want = UniversalAccount
		}
		check(valid[:53]+crockford[i:i+1], want)
	}
}

// FuzzRawStateInit: what is counted without decoding is what decoding finds, and only the encoding
// of its value is canonical.
func FuzzRawStateInit(f *testing.F) {
	for _, raw := range []RawStateInit{contractInit().Encode(), keyOnlyInit().Encode(), stateInitBytes(entries("b", "", "a", "", "a", "x")),
		stateInitBytes(nil, edHandle(2), mlDSAHandle(1), edHandle(2))} {
		f.Add([]byte(raw))
		f.Add([]byte(raw[:len(raw)-1]))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw := RawStateInit(in)
		s, err := raw.DecodeLenient()
		want := StateInitCounts{Bytes: uint64(len(in))}
		canonical, quantum := false, false
		if err == nil {
			want.Entries, want.Keys = uint64(len(s.Data)), uint64(len(s.AccessKeys))
			canonical = bytes.Equal(s.Encode(), in)
			for _, h := range s.AccessKeys {
				quantum = quantum || h.Type().IsPostQuantum()
			}
		}
		if got := raw.Counts(); got != want {
			t.Errorf("%x: counts %+v, want %+v", in, got, want)
		}
		if got := raw.HasPostQuantumKey(); got != quantum {
			t.Errorf("%x: post-quantum is %v, want %v", in, got, quantum)
		}
		_, strict := raw.Decode()
		if (strict == nil) != canonical || (strict == ErrStateInitMalformed) != (err != nil) || raw.Check() != strict {
			t.Errorf("%x: %v, but canonical is %v, and the lenient error %v", in, strict, canonical, err)
		}
		if !canonical {
			want = upperCounts(uint64(len(in)))
		}
		if got := raw.SendCounts(true); got != want {
			t.Errorf("%x: counts of sending %+v, want %+v", in, got, want)
		}
	})
}
