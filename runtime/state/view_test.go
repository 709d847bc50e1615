package state

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func viewBase(t *testing.T) Trie {
	t.Helper()
	u := NewUnrecorded(fakeTrie{})
	u.SetAccount("alice", &primitives.Account{Amount: primitives.NEAR(1), StorageUsage: 60_000, Version: primitives.AccountV1})
	keys := []primitives.PublicKeyHandle{primitives.ZeroED25519Key.Handle(), primitives.SecretKeyFromSeed(primitives.SECP256K1, "s").PublicKey().Handle()}
	u.SetAccessKey("alice", keys[0], &primitives.AccessKey{Nonce: 5})
	u.SetAccessKey("alice", keys[1], &primitives.AccessKey{GasKey: &primitives.GasKeyInfo{Balance: primitives.Yocto(7), NumNonces: 2}})
	u.SetGasKeyNonce("alice", keys[1], 0, 10)
	u.SetGasKeyNonce("alice", keys[1], 1, 11)
	u.SetAccessKey("alice.near", keys[0], &primitives.AccessKey{})
	for i := range 20 {
		u.Set(dataKey(fmt.Sprintf("k%02d", i)), make([]byte, 3000))
	}
	u.Set(dataKey("other"), []byte("x"))
	commit(u)
	return finalize(t, u).Trie
}

func TestViewKeys(t *testing.T) {
	base := viewBase(t)
	a, err := ViewAccount(base, "alice")
	if err != nil || a.Amount != primitives.NEAR(1) {
		t.Errorf("ViewAccount = %+v, %v", a, err)
	}
	if _, err := ViewAccount(base, "bob"); !errors.Is(err, ErrNoAccount) {
		t.Errorf("ViewAccount of nobody: %v", err)
	}
	keys, err := ViewAccessKeys(base, "alice")
	if err != nil || len(keys) != 2 || keys[0].Key.Nonce != 5 || keys[1].Key.GasKey == nil {
		t.Errorf("ViewAccessKeys = %+v, %v: want two keys and no nonces", keys, err)
	}
	nonces, err := ViewGasKeyNonces(base, "alice", keys[1].Handle)
	if want := []primitives.Nonce{10, 11}; !slices.Equal(nonces, want) || err != nil {
		t.Errorf("nonces = %v, %v, want %v", nonces, err, want)
	}
	if _, err := ViewGasKeyNonces(base, "alice", keys[0].Handle); !errors.Is(err, ErrNoGasKey) {
		t.Errorf("nonces of an ordinary key: %v", err)
	}
	if _, err := ViewAccessKey(base, "bob", keys[0].Handle); !errors.Is(err, ErrNoAccessKey) {
		t.Errorf("key of nobody: %v", err)
	}
	u := NewUnrecorded(base)
	for _, tt := range []struct {
		n    primitives.TransactionNonce
		want primitives.Nonce
		ok   bool
	}{{primitives.TransactionNonce{HasIndex: true, Index: 1}, 11, true}, {primitives.TransactionNonce{HasIndex: true, Index: 2}, 0, false}, {primitives.TransactionNonce{}, 0, true}} {
		if got, ok, err := u.PeekNonce("alice", keys[1].Handle, tt.n); got != tt.want || ok != tt.ok || err != nil {
			t.Errorf("PeekNonce(%+v) = %d, %v, %v, want %d", tt.n, got, ok, err, tt.want)
		}
	}
	if sum, err := u.GasKeyBalances("alice"); sum != primitives.Yocto(7) || err != nil {
		t.Errorf("GasKeyBalances = %v, %v", sum, err)
	}
	removed, err := u.RemoveAccount("alice")
	if err != nil || removed.Rows != 2 || removed.KeyBytes != 2*primitives.GasKeyNonceKeyLen(5, 65) {
		t.Errorf("RemoveAccount = %+v, %v", removed, err)
	}
	if got := keysOf(t, u, primitives.AppendAccessKeyPrefix(nil, "alice.near")); len(got) != 1 {
		t.Errorf("removing alice left alice.near %d keys, want 1", len(got))
	}
	if u.removals != 21 {
		t.Errorf("%d removals counted, want 21", u.removals)
	}
}

func TestViewState(t *testing.T) {
	base := viewBase(t)
	view := func(q StateQuery) StatePage {
		t.Helper()
		q.Account = "alice"
		p, err := ViewState(base, &q)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := view(StateQuery{Prefix: []byte("k")}); len(p.Items) != 20 || p.LastKey != nil || string(p.Items[3].Key) != "k03" {
		t.Errorf("%d items, last %q", len(p.Items), p.LastKey)
	}
	if p := view(StateQuery{Limit: 4}); len(p.Items) != 4 || string(p.LastKey) != "k03" {
		t.Errorf("page of 4: %d items, last %q", len(p.Items), p.LastKey)
	}
	// 17 items of 3010 bytes pass 50 000; no further one is taken.
	if p := view(StateQuery{Limit: 100}); len(p.Items) != 17 || string(p.LastKey) != "k16" {
		t.Errorf("page of bytes: %d items, last %q", len(p.Items), p.LastKey)
	}
	if p := view(StateQuery{After: []byte("k16"), Limit: 100}); len(p.Items) != 4 || p.LastKey != nil {
		t.Errorf("last page: %d items, last %q", len(p.Items), p.LastKey)
	}
	for _, tt := range []struct {
		q    StateQuery
		want error
	}{
		{StateQuery{Account: "bob"}, ErrNoAccount},
		{StateQuery{Account: "alice", SizeLimit: 50_000}, ErrStateTooLarge},
		{StateQuery{Account: "alice", Limit: 1, SizeLimit: 50_000}, nil},
		{StateQuery{Account: "alice", Limit: 1, Record: base.NewRecording()}, ErrProofPaged},
		{StateQuery{Account: "alice", Prefix: []byte("k"), After: []byte("j")}, ErrAfterNotInRange},
	} {
		if _, err := ViewState(base, &tt.q); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.q, err, tt.want)
		}
	}
}
