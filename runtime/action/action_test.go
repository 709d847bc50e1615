package action

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestEthWalletHashPerChainVectorA59: nearcore's runtime/near-wallet-contract/src/lib.rs:196.
func TestEthWalletHashPerChainVectorA59(t *testing.T) {
	t.Parallel()
	for chain, want := range map[string]string{
		"mainnet":  "2zodJZK2e4nnv5AqwCRnenNSmkikXhEd7PPY6BmfTmW4",
		"mocknet":  "2zodJZK2e4nnv5AqwCRnenNSmkikXhEd7PPY6BmfTmW4",
		"testnet":  "3PpYvRxBfC5BkZxTw8ZFG3D52w1ZRhvDDWirKoxphMDn",
		"localnet": walletLocalnet.String(),
	} {
		t.Run(chain, func(t *testing.T) {
			if got := EthWalletHash(chain).String(); got != want {
				t.Errorf("wallet %s, want %s", got, want)
			}
		})
	}
	const eth primitives.AccountID = "0xcc5a584f545b2ca3ebacc1346556d1f5b82b8fc6"
	legacy := primitives.AccountContract{Kind: primitives.ContractLocal, Hash: legacyWallets[2]}
	if id, ok := GlobalCodeOf("testnet", eth, &legacy); !ok || id.Hash != walletTestnet {
		t.Errorf("old wallet = %v, %v, want testnet's", id, ok)
	}
	for name, c := range map[primitives.AccountID]primitives.AccountContract{
		"alice.near": legacy, // only ETH-implicit accounts stand for the wallet
		eth:          {Kind: primitives.ContractLocal, Hash: walletMainnet},
	} {
		if id, ok := GlobalCodeOf("testnet", name, &c); ok {
			t.Errorf("%s runs %v, want its own code", name, id)
		}
	}
}

// TestUnusedGasIsSplitByWeightVectorA58: nearcore runtime/runtime/src/receipt_manager.rs:767-830:
// 10 Ggas, calls of a static gas and a weight.
func TestUnusedGasIsSplitByWeightVectorA58(t *testing.T) {
	t.Parallel()
	type call struct {
		static primitives.Gas
		weight uint64
		want   primitives.Gas
	}
	for _, calls := range [][]call{
		{{0, 1, 1e10}}, {{888, 1, 1e10}}, {{0, 88888, 1e10}}, {{0, 379749833583241, 1e10}}, // 11^14
		{{0, 3, 6e9}, {0, 2, 4e9}},
		{{1_000_000, 3, 5_998_600_000}, {3_000_000, 2, 4_001_400_000}},
		{{1_000_000, 3, 2_699_800_000}, {3_000_000, 2, 1_802_200_000}, {0, 1, 899_600_000}, {1e9, 0, 1e9}, {0, 4, 3_598_400_000}},
		{{0, ^uint64(0), 9_999_999_999}, {0, 1000, 1}},
		{{0, 1e10, 4_999_999_999}, {0, 1, 0}, {0, 1e10, 5_000_000_001}},
		{{0, 0, 0}, {0, 1, 1e10}},
	} {
		x, unused := new(External), primitives.Gas(1e10)
		made := make([]primitives.FunctionCall, len(calls))
		for i, c := range calls {
			made[i].Gas = c.static
			unused -= c.static
			x.promises = append(x.promises, &Promise{})
			if err := x.AppendCall(i, &made[i], c.weight); err != nil {
				t.Fatal(err)
			}
		}
		if given, err := x.distribute(unused); err != nil || given != unused {
			t.Errorf("%v: gave %d, %v, want %d", calls, given, err, unused)
		}
		for i, c := range calls {
			if made[i].Gas != c.want {
				t.Errorf("%v: call %d has %d, want %d", calls, i, made[i].Gas, c.want)
			}
		}
	}
}

// TestGasSharesMatchBigArithmetic compares shares of unused gas with arithmetic of any size.
func TestGasSharesMatchBigArithmetic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		x := new(External)
		sum := new(big.Int)
		for range rng.IntN(5) {
			w := rng.Uint64() >> rng.IntN(64)
			x.promises = append(x.promises, &Promise{})
			if err := x.AppendCall(len(x.promises)-1, new(primitives.FunctionCall), w); err != nil {
				t.Fatal(err)
			}
			sum.Add(sum, new(big.Int).SetUint64(w))
		}
		gas := primitives.Gas(rng.Uint64() >> rng.IntN(64))
		given, err := x.distribute(gas)
		if err != nil {
			t.Fatal(err)
		}
		if sum.Sign() == 0 {
			if given != 0 {
				t.Errorf("distributed %d to no call", given)
			}
			continue
		}
		var total primitives.Gas
		for i, w := range x.weights {
			want := new(big.Int).SetUint64(uint64(gas))
			want.Mul(want, new(big.Int).SetUint64(w.weight)).Quo(want, sum)
			if got := w.call.Gas; i < len(x.weights)-1 && uint64(got) != want.Uint64() {
				t.Errorf("share %d = %d, want %v", i, got, want)
			}
			total += w.call.Gas
		}
		if given != gas || total != gas {
			t.Errorf("gave %d, %d arrived, want %d", given, total, gas)
		}
	}
	x := &External{promises: []*Promise{{}}}
	_ = x.AppendCall(0, &primitives.FunctionCall{Gas: ^primitives.Gas(0)}, 1)
	if _, err := x.distribute(1); err == nil {
		t.Error("gas of a call wraps")
	}
}

func TestMergedProfileSumsAndSortsCosts(t *testing.T) {
	t.Parallel()
	e := func(category, cost string, g primitives.Gas) primitives.CostEntry {
		return primitives.CostEntry{Category: category, Cost: cost, Gas: g}
	}
	a := []primitives.CostEntry{e("ACTION_COST", "TRANSFER", 1), e("WASM_HOST_COST", "BASE", 2)}
	b := []primitives.CostEntry{e("ACTION_COST", "NEW", 3), e("WASM_HOST_COST", "BASE", 4), e("WASM_HOST_COST", "LOG", 5)}
	want := []primitives.CostEntry{e("ACTION_COST", "NEW", 3), e("ACTION_COST", "TRANSFER", 1), e("WASM_HOST_COST", "BASE", 6), e("WASM_HOST_COST", "LOG", 5)}
	if got := MergeProfiles(MergeProfiles(nil, a), b); !slices.Equal(got, want) {
		t.Errorf("merged = %v, want %v", got, want)
	}
}

func TestStateInitEntriesAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	x := new(External)
	i, err := x.Create("0s00", nil)
	if err != nil {
		t.Fatal(err)
	}
	init := new(primitives.DeterministicStateInit)
	if _, err := x.Append(i, init); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"b", "a", "c"} {
		if err := x.AddStateInitEntry(i, 0, []byte(k), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	for j, k := range []string{"a", "b", "c"} {
		if string(init.Init.Data[j].Key) != k {
			t.Errorf("entry %d = %s, want %s", j, init.Init.Data[j].Key, k)
		}
	}
	for want, err := range map[error]error{
		ErrEntryExists:  x.AddStateInitEntry(i, 0, []byte("a"), nil),
		ErrActionIndex:  x.AddStateInitEntry(i, 1, []byte("d"), nil),
		ErrReceiptIndex: x.AddStateInitEntry(i+1, 0, []byte("d"), nil),
	} {
		if err != want {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}
