package primitives

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// trieKeyAccounts are nearcore's (core/primitives/src/trie_key.rs:940).
var trieKeyAccounts = []AccountID{
	"aa", "a-a", "a-aa", "100", "0o", "com", "near", "bowen", "b-o_w_e-n", "b.owen", "bro.wen", "a.ha", "a.b-a.ra",
	"system", "over.9000", "google.com", "illia.cheapaccounts.near", "0o0ooo00oo00o", "alex-skidanov", "10-4.8-2", "no_lols",
	"0123456789012345678901234567890123456789012345678901234567890123", "near.a",
}

// TestMLDSAKeyRowVectorA75: the trie key of an ML-DSA key contains its hash, tag 3.
func TestMLDSAKeyRowVectorA75(t *testing.T) {
	t.Parallel()
	key := SecretKeyFromSeed(MLDSA65, "trie-roundtrip").PublicKey()
	got := AppendAccessKeyKey(nil, "alice.near", key.Handle())
	const want = "02616c6963652e6e6561720203a206d195ee9134dfa1d63e8255051ee475a87e7644d5414be9fc5b1579d201d7"
	if hex.EncodeToString(got) != want {
		t.Errorf("key = %x, want %s", got, want)
	}
	if len(got) != 2+len("alice.near")+1+32 || len(got) != AccessKeyKeyLen(len("alice.near"), key.TrieIDLen()) {
		t.Errorf("length = %d, want %d", len(got), 2+len("alice.near")+33)
	}
	k, err := ParseTrieKey(got)
	if err != nil || k.Handle != key.Handle() || k.HasIndex {
		t.Errorf("parsed = %+v, %v", k, err)
	}
}

// TestTrieKeysVectorA76: every column makes a key that parses back to its parts, and to its
// account.
func TestTrieKeysVectorA76(t *testing.T) {
	t.Parallel()
	id, handle := HashBytes([]byte("id")), ZeroED25519Key.Handle()
	secp := SecretKeyFromSeed(SECP256K1, "k").PublicKey().Handle()
	for _, a := range trieKeyAccounts {
		n := len(a)
		cases := []struct {
			key  []byte
			want TrieKey
			len  int
		}{
			{AppendAccountKey(nil, a), TrieKey{Column: 0, Account: a}, 1 + n},
			{AppendCodeKey(nil, a), TrieKey{Column: 1, Account: a}, 1 + n},
			{AppendAccessKeyKey(nil, a, handle), TrieKey{Column: 2, Account: a, Handle: handle}, 2 + n + 33},
			{AppendAccessKeyKey(nil, a, secp), TrieKey{Column: 2, Account: a, Handle: secp}, 2 + n + 65},
			{AppendGasKeyNonceKey(nil, a, handle, 2), TrieKey{Column: 2, Account: a, Handle: handle, HasIndex: true, Index: 2}, 2 + n + 33 + 2},
			{AppendContractDataKey(nil, a, []byte("0123,456789")), TrieKey{Column: 9, Account: a, Data: []byte("0123,456789")}, 2 + n + 11},
		}
		for _, col := range []TrieColumn{3, 4, 5, 6, 12, 20, 22, 23} {
			cases = append(cases, struct {
				key  []byte
				want TrieKey
				len  int
			}{AppendAccountHashKey(nil, col, a, id), TrieKey{Column: col, Account: a, ID: id}, 2 + n + 32})
		}
		for _, c := range cases {
			checkTrieKey(t, c.key, &c.want, c.len)
			if got, ok, err := TrieKeyAccount(c.key); got != a || !ok || err != nil {
				t.Errorf("TrieKeyAccount(%x) = %q, %v, %v, want %q", c.key, got, ok, err, a)
			}
		}
		if k := AppendGasKeyNonceKey(nil, a, handle, 7); !bytes.HasPrefix(k, AppendAccessKeyKey(nil, a, handle)) || len(k) != GasKeyNonceKeyLen(n, 33) {
			t.Errorf("%s: nonce key %x does not extend the access key's", a, k)
		} else if h, index, has, err := AccessKeyRest(k, len(AppendAccessKeyPrefix(nil, a))); h != handle || index != 7 || !has || err != nil {
			t.Errorf("AccessKeyRest = %v, %d, %v, %v", h, index, has, err)
		}
	}
	for _, c := range []struct {
		key  []byte
		want TrieKey
		len  int
	}{
		{DelayedIndicesKey, TrieKey{Column: 7}, 1},
		{AppendDelayedReceiptKey(nil, 123), TrieKey{Column: 7, HasIndex: true, Index: 123}, 9},
		{YieldIndicesKey, TrieKey{Column: 10}, 1},
		{AppendYieldTimeoutKey(nil, 5), TrieKey{Column: 11, Index: 5}, 9},
		{BufferedIndicesKey, TrieKey{Column: 13}, 1},
		{AppendBufferedReceiptKey(nil, 3, 9), TrieKey{Column: 14, Shard: 3, Index: 9}, 11},
		{BandwidthSchedulerKey, TrieKey{Column: 15}, 1},
		{AppendBufferedGroupsKey(nil, 3), TrieKey{Column: 16, Shard: 3}, 9},
		{AppendBufferedGroupKey(nil, 3, 9), TrieKey{Column: 17, Shard: 3, Index: 9}, 17},
		{AppendGlobalCodeKey(nil, &GlobalContractID{Hash: id}), TrieKey{Column: 18, Global: GlobalContractID{Hash: id}}, 34},
		{AppendGlobalNonceKey(nil, &GlobalContractID{Account: "alice.near"}), TrieKey{Column: 19, Global: GlobalContractID{Account: "alice.near"}}, 16},
	} {
		checkTrieKey(t, c.key, &c.want, c.len)
		if a, ok, err := TrieKeyAccount(c.key); ok || err != nil {
			t.Errorf("TrieKeyAccount(%x) = %q, %v, want none", c.key, a, err)
		}
	}
}

func checkTrieKey(t *testing.T, key []byte, want *TrieKey, n int) {
	t.Helper()
	if len(key) != n {
		t.Errorf("key %x has %d bytes, want %d", key, len(key), n)
	}
	got, err := ParseTrieKey(key)
	if err != nil {
		t.Errorf("ParseTrieKey(%x): %v", key, err)
		return
	}
	data := bytes.Equal(got.Data, want.Data)
	got.Data, want.Data = nil, nil
	if !data || got.Column != want.Column || got.Account != want.Account || got.Handle != want.Handle || got.HasIndex != want.HasIndex ||
		got.Index != want.Index || got.ID != want.ID || got.Shard != want.Shard || got.Global != want.Global {
		t.Errorf("ParseTrieKey(%x) = %+v, want %+v", key, got, *want)
	}
}

func TestMalformedTrieKeyIsRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"", "00", "0061", "024142", "02616102", "0261610202", "036161", "0361612c00", "0700", "08", "0a00", "0e0001", "15", "18", "ff",
		"02616102" + "00" + "0000000000000000000000000000000000000000000000000000000000000000" + "01",
	} {
		raw, err := hex.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := ParseTrieKey(raw); !errors.Is(err, ErrTrieKey) {
			t.Errorf("ParseTrieKey(%s) = %+v, %v, want ErrTrieKey", key, k, err)
		}
	}
}
