package primitives

import (
	"encoding/hex"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestAccountEncodingIsStable has the encodings of near-primitives-core 0.38.0 src/account.rs
// borsh_encoding_is_stable.
func TestAccountEncodingIsStable(t *testing.T) {
	t.Parallel()
	hash := HashBytes([]byte{42})
	v1 := Account{Version: AccountV1, Amount: Yocto(100), Locked: Yocto(200), Contract: AccountContract{Kind: ContractLocal, Hash: hash}, StorageUsage: 300}
	v2 := v1
	v2.SetContract(AccountContract{Kind: ContractGlobalHash, Hash: hash})
	for _, x := range []struct {
		name string
		a    Account
		want string
	}{
		{"V1", v1, "64000000000000000000000000000000c8000000000000000000000000000000684888c0ebb17f374298b65ee2807526c066094c701bcc7ebbe1c1095f494fc12c01000000000000"},
		{"V2", v2, "ffffffffffffffffffffffffffffffff0064000000000000000000000000000000c80000000000000000000000000000002c0100000000000002684888c0ebb17f374298b65ee2807526c066094c701bcc7ebbe1c1095f494fc1"},
		{"uninitialized", NewUninitializedAccount(Yocto(100), 300, 7_000_000), "ffffffffffffffffffffffffffffffff01640000000000000000000000000000002c01000000000000c0cf6a0000000000"},
	} {
		t.Run(x.name, func(t *testing.T) {
			raw := x.a.AppendBorsh(nil)
			if got := hex.EncodeToString(raw); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
			var back Account
			if err := borsh.Unmarshal(raw, &back); err != nil || back != x.a {
				t.Errorf("%s check back as %+v, %v", x.name, back, err)
			}
		})
	}
	other := NewUninitializedAccount(Yocto(100), 300, 7_000_000)
	raw := other.AppendBorsh(nil)
	if raw[16] != 1 {
		t.Fatalf("tag %d of an uninitialized account", raw[16])
	}
	raw[16] = 2
	if err := borsh.Unmarshal(raw, new(Account)); err == nil {
		t.Error("tag 2 decodes")
	}
}

// TestInitializedAccountKeepsItsFunds: a stake or a contract of an uninitialized account has no
// encoding.
func TestInitializedAccountKeepsItsFunds(t *testing.T) {
	t.Parallel()
	a := NewUninitializedAccount(Yocto(100), 300, 7_000_000)
	if a.IsInitialized() || !a.Locked.IsZero() || a.Version != AccountV1 || a.LocalCodeHash() != (Hash{}) {
		t.Errorf("uninitialized: %+v", a)
	}
	a.Amount = Yocto(500)
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	staked, coded := a, a
	staked.Locked = Yocto(1)
	coded.SetContract(AccountContract{Kind: ContractLocal, Hash: Hash{1}})
	panics("a stake", func() { staked.AppendBorsh(nil) })
	panics("a contract", func() { coded.AppendBorsh(nil) })
	a.Initialize()
	if want := (Account{Version: AccountV1, Amount: Yocto(500), StorageUsage: 300}); a != want {
		t.Errorf("initialized: %+v, want %+v", a, want)
	}
	panics("a second initialization", a.Initialize)
}
