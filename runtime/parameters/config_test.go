package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// snapshots returns nearcore's view of the parameters of v. For june it is testdata's copy of
// core/parameters/src/snapshots/…config_store__tests__86.json.snap at f0c7706f1, which equals that
// of 85, and the originals in the folder of recordings if it is present. For release it is that of
// near-parameters 0.38.0 src/snapshots; 86 has that of 85, because no parameter changes there.
func snapshots(t *testing.T, v Version) [][]byte {
	t.Helper()
	paths := []string{"testdata/runtime-config-86.json", fmt.Sprintf("%s%d.json", testutil.Data("runtime-config-"), v.Protocol)}
	if v.Numbering == primitives.NumberingRelease {
		of := v.Protocol
		if of == 86 {
			of = 85
		}
		paths = []string{fmt.Sprintf("testdata/runtime-config-release-%d.json", of)}
	}
	var all [][]byte
	for _, path := range paths {
		b, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no snapshot of %v", v)
	}
	return all
}

// known lists all versions that have parameters.
var known = []Version{June(85), June(86), Release(85), Release(86), Release(87), Release(88)}

// TestViewEqualsNearcoreSnapshots compares runtime_config of every known version with nearcore's.
func TestViewEqualsNearcoreSnapshots(t *testing.T) {
	t.Parallel()
	for _, v := range known {
		got := MustGet(v).AppendJSON(nil)
		for i, snap := range snapshots(t, v) {
			// The snapshot hides vm_kind, which differs on some machines; the wire never does.
			snap = bytes.Replace(snap, []byte("<REDACTED>"), []byte("Wasmtime"), 1)
			var tree any
			d := json.NewDecoder(bytes.NewReader(snap))
			d.UseNumber()
			if err := d.Decode(&tree); err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(tree) // keys ascending at all depths, as RPC prints them
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v, snapshot %d: runtime_config\n got %s\nwant %s", v, i, got, want)
			}
		}
	}
	if b, err := json.Marshal(MustGet(June(86))); err != nil || !bytes.HasPrefix(b, []byte(`{"account_creation_charge":"7000000000000000000000",`)) {
		t.Errorf("Marshal = %.60s, %v", b, err)
	}
}

func TestGetRefusesUnsupportedVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []Version{June(84), June(87), Release(84), Release(newestRelease + 1), Release(89), June(0), {86, ""}, {86, "other"}} {
		if c, err := Get(v); !errors.Is(err, ErrUnsupportedVersion) || c != nil {
			t.Errorf("Get(%v) = %v, %v, want %v", v, c, err, ErrUnsupportedVersion)
		}
	}
	for _, v := range []Version{June(84), June(87), Release(84), Release(89), {86, ""}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("MustGet(%v) did not panic", v)
				}
			}()
			MustGet(v)
		}()
	}
}

// TestSupportForTestEndsWithTest checks that SupportForTest allows versions with incomplete rules
// until the test ends.
func TestSupportForTestEndsWithTest(t *testing.T) {
	t.Run("raised", func(t *testing.T) {
		SupportForTest(t, 88)
		if got := Newest(primitives.NumberingRelease); got != 88 || !Release(88).Supported() || Release(89).Supported() {
			t.Errorf("Newest = %d, 88 supported %v, 89 %v", got, Release(88).Supported(), Release(89).Supported())
		}
		if got := Newest(primitives.NumberingJune); got != 86 {
			t.Errorf("Newest of june = %d", got)
		}
	})
	if got := Newest(primitives.NumberingRelease); got != newestRelease {
		t.Errorf("Newest after the test = %d, want %d", got, newestRelease)
	}
}

// TestSupportedVersionHasAllFeaturesBuilt checks that a version counts as supported only if all of
// its features are built.
func TestSupportedVersionHasAllFeaturesBuilt(t *testing.T) {
	t.Parallel()
	for f := range numFeatures {
		for _, n := range []primitives.Numbering{primitives.NumberingJune, primitives.NumberingRelease} {
			if v := (Version{Newest(n), n}); v.includes(f) && !features[f].built {
				t.Errorf("%v is part of %v and not built", f, v)
			}
		}
	}
}

func TestGetReturnsConfigOfItsVersion(t *testing.T) {
	t.Parallel()
	for _, v := range known {
		if got := MustGet(v).Version; got != v {
			t.Errorf("Get(%v).Version = %v", v, got)
		}
	}
	c := *MustGet(June(86))
	c.Fees.Action[ActionTransfer].Exec.Gas = 0
	if MustGet(June(86)).Fees.Fee(ActionTransfer).Exec.Gas == 0 {
		t.Error("a copy shares memory with the table")
	}
}

func TestFeatureIsEnabledFromItsVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		f                        Feature
		june85, june86, r85, r86 bool
	}{
		{GasKeys, true, true, true, true},
		{ClampOutgoingGasAdmission, true, true, true, true},
		{FixContractLoadingError, false, true, false, false},
		{EnforcePerReceiptStorageProofLimit, false, false, false, true},
		{RejectDelegateV2, false, false, false, false},
		{Spice, false, false, false, false},
	}
	for _, tt := range tests {
		got := [4]bool{Enabled(tt.f, June(85)), Enabled(tt.f, June(86)), Release(85).Has(tt.f), Release(86).Has(tt.f)}
		if want := [4]bool{tt.june85, tt.june86, tt.r85, tt.r86}; got != want {
			t.Errorf("%v at 85, 86 june, 85, 86 release = %v, want %v", tt.f, got, want)
		}
	}
	if Enabled(GasKeys, Version{86, "other"}) || Enabled(GasKeys, June(84)) {
		t.Error("GasKeys on in an unknown numbering, or at 84")
	}
	if MustGet(June(85)).Wasm.FixContractLoadingError || !MustGet(June(86)).Wasm.FixContractLoadingError ||
		MustGet(Release(86)).Wasm.FixContractLoadingError {
		t.Error("the parameter FixContractLoadingError does not follow the feature")
	}
}

// TestFeatureTableIsConsistent checks the table of features: names are unique, a built feature
// starts at a version that can be executed, and a feature that is not built is off at every
// version.
func TestFeatureTableIsConsistent(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for f := range numFeatures {
		row := features[f]
		if row.name == "" || names[row.name] || f.String() != row.name {
			t.Errorf("feature %d: name %q, missing or twice", f, row.name)
		}
		names[row.name] = true
		if row.june == 0 && row.release == 0 {
			t.Errorf("%v is in no version", f)
		}
		if row.built && nonZero(row.june) > lastJune && nonZero(row.release) > lastRelease {
			t.Errorf("%v is built but no version with parameters has it", f)
		}
		if !row.built && (Enabled(f, June(200)) || Enabled(f, Release(200))) {
			t.Errorf("%v is on without being built", f)
		}
	}
	if got := numFeatures.String(); got != "Feature(36)" {
		t.Errorf("String out of range = %s", got)
	}
}

func nonZero(v primitives.ProtocolVersion) primitives.ProtocolVersion {
	if v == 0 {
		return ^v
	}
	return v
}

func TestCostNamesAreUniqueAndNearcores(t *testing.T) {
	t.Parallel()
	tests := []struct{ got, want string }{
		{ExtBase.String(), "base"},
		{ExtStorageLargeReadOverheadByte.String(), "storage_large_read_overhead_byte"},
		{ExtYieldCreateWithIDBase.ProfileName(), "YIELD_CREATE_WITH_ID_BASE"},
		{NumExtCosts.String(), "ExtCost(98)"},
		{ActionNewActionReceipt.ProfileName(), "NEW_ACTION_RECEIPT"},
		{ActionGasKeyNonceWriteBase.String(), "gas_key_nonce_write_base"},
		{ExtUniversalStateInitToAccountIDByte.String(), "universal_state_init_to_account_id_byte"},
		{ActionUniversalStateInitEntry.ProfileName(), "UNIVERSAL_STATE_INIT_ENTRY"},
		{NumActionCosts.String(), "ActionCost(29)"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("name = %q, want %q", tt.got, tt.want)
		}
	}
	seen := map[string]bool{}
	for c := range NumExtCosts {
		if n := c.String(); n == "" || seen[n] || strings.ToUpper(n) != c.ProfileName() {
			t.Errorf("ExtCost %d: name %q", c, n)
		} else {
			seen[n] = true
		}
	}
	for c := range NumActionCosts {
		if n := c.String(); n == "" || seen[n] || strings.ToUpper(n) != c.ProfileName() {
			t.Errorf("ActionCost %d: name %q", c, n)
		} else {
			seen[n] = true
		}
	}
}

// TestComputeDiffersFromGasOnlyForListedCosts lists the costs whose compute differs from their gas.
func TestComputeDiffersFromGasOnlyForListedCosts(t *testing.T) {
	t.Parallel()
	for _, v := range known {
		testComputeCosts(t, MustGet(v))
	}
}

func testComputeCosts(t *testing.T, c *RuntimeConfig) {
	t.Helper()
	ext := map[ExtCost]Compute{
		ExtStorageWriteBase: 200e9, ExtStorageRemoveBase: 200e9, ExtStorageReadBase: 159e9, ExtStorageReadKeyByte: 10e6,
		ExtStorageReadValueByte: 2.5e6, ExtStorageLargeReadOverheadBase: 41e9, ExtStorageLargeReadOverheadByte: 3_111_005,
		ExtStorageHasKeyBase: 158e9, ExtStorageHasKeyByte: 10e6, ExtTouchingTrieNode: 4e9, ExtReadCachedTrieNode: 4e9,
	}
	for k := range NumExtCosts {
		want, ok := ext[k]
		if !ok {
			want = Compute(c.Wasm.Ext[k].Gas)
		}
		if got := c.Wasm.Ext[k].Compute; got != want {
			t.Errorf("%v: compute of %v = %d, want %d", c.Version, k, got, want)
		}
	}
	for k := range NumActionCosts {
		fee := c.Fees.Fee(k)
		want := Compute(fee.Exec.Gas)
		switch k {
		case ActionDeployContractBase:
			want = 20e12
		case ActionDeployContractByte:
			want = 250e6
		}
		if fee.Exec.Compute != want || fee.SendSIR != GasCost(fee.SendSIR.Gas) || fee.SendNotSIR != GasCost(fee.SendNotSIR.Gas) {
			t.Errorf("%v: %+v, want compute %d when executed and gas when sent", k, fee, want)
		}
	}
}

func TestCostOverflowIsAnError(t *testing.T) {
	t.Parallel()
	const top = ^uint64(0)
	if got, err := (Cost{1, 2}).Add(Cost{3, 4}); got != (Cost{4, 6}) || err != nil {
		t.Errorf("Add = %v, %v", got, err)
	}
	if got, err := (Cost{1, 2}).Mul(3); got != (Cost{3, 6}) || err != nil {
		t.Errorf("Mul = %v, %v", got, err)
	}
	for _, err := range []error{
		second(Cost{primitives.Gas(top), 0}.Add(Cost{1, 0})), second(Cost{0, Compute(top)}.Add(Cost{0, 1})),
		second(Cost{1 << 63, 0}.Mul(2)), second(Cost{0, 1 << 63}.Mul(2)),
	} {
		if !errors.Is(err, ErrOverflow) || !errors.Is(err, primitives.ErrOverflow) {
			t.Errorf("err = %v, want %v", err, ErrOverflow)
		}
	}
}

func second(_ Cost, err error) error { return err }

// TestAccountCreationChargeIsCovered checks that gas bought at the minimum price always covers the charge for a
// new account (nearcore runtime/runtime/src/lib.rs:1237).
func TestAccountCreationChargeIsCovered(t *testing.T) {
	t.Parallel()
	c := MustGet(June(86))
	paid, ok := c.MinGasPurchasePrice.MulGas(c.Fees.Fee(ActionCreateAccount).Exec.Gas)
	if !ok || paid.Less(c.AccountCreationCharge) {
		t.Errorf("%v bought with the account's gas, charge %v", paid, c.AccountCreationCharge)
	}
}

func TestMinReceiptWithFunctionCallGasOf86(t *testing.T) {
	t.Parallel()
	f := &MustGet(June(86)).Fees
	if got, want := f.MinReceiptWithFunctionCallGas(), primitives.Gas(2*108_059_500_000+200_000_000_000+780_000_000_000); got != want {
		t.Errorf("MinReceiptWithFunctionCallGas = %d, want %d", got, want)
	}
}

// TestParametersOutsideViewMatchNearcore checks parameters that later versions change and that
// runtime_config does not contain (near-parameters 0.38.0 res/runtime_configs/85.yaml, 87.yaml,
// 88.yaml and src/cost.rs:369, 424).
func TestParametersOutsideViewMatchNearcore(t *testing.T) {
	t.Parallel()
	same := func(send, exec uint64) Fee {
		return Fee{GasCost(primitives.Gas(send)), GasCost(primitives.Gas(send)), GasCost(primitives.Gas(exec))}
	}
	for _, tt := range []struct {
		v              Version
		base, by, each Fee
		canonical, fix bool
		perLocal       uint64
	}{
		{June(85), same(500e9, 7_430e9), same(72e6, 70e6), same(0, 200e9), false, false, 0},
		{June(86), same(500e9, 7_430e9), same(72e6, 70e6), same(0, 200e9), false, true, 0},
		{Release(85), same(500e9, 7_430e9), same(72e6, 70e6), same(0, 200e9), false, false, 0},
		{Release(86), same(500e9, 7_430e9), same(72e6, 70e6), same(0, 200e9), false, false, 0},
		{Release(87), same(500e9, 7_430e9), same(72e6, 70e6), same(0, 200e9), false, true, 2},
		{Release(88), same(500e9, 7_430e9), same(78e6, 74e6), same(3.1e9, 200e9), true, true, 2},
	} {
		c := MustGet(tt.v)
		f, w := &c.Fees, &c.Wasm
		if got := [3]Fee{*f.Fee(ActionUniversalStateInitBase), *f.Fee(ActionUniversalStateInitByte), *f.Fee(ActionUniversalStateInitEntry)}; got != [3]Fee{tt.base, tt.by, tt.each} {
			t.Errorf("%v: fees of a universal state init %v", tt.v, got)
		}
		if w.CanonicalUniversalStateInit != tt.canonical || w.FixContractLoadingError != tt.fix || w.Limits.MinContractSizePerLocal != tt.perLocal {
			t.Errorf("%v: canonical %v, loading error %v, bytes per local %d", tt.v, w.CanonicalUniversalStateInit, w.FixContractLoadingError,
				w.Limits.MinContractSizePerLocal)
		}
	}
	if ExtSHA3x256Base != 88 || ExtMLDSAVerifyByte != 95 || ExtUniversalStateInitToAccountIDBase != 96 || ExtUniversalStateInitToAccountIDByte != 97 ||
		ActionUniversalStateInitBase != 26 || ActionUniversalStateInitByte != 27 || ActionUniversalStateInitEntry != 28 {
		t.Error("a cost has another number than in nearcore")
	}
}

func BenchmarkEnabled(b *testing.B) {
	v := June(86)
	for b.Loop() {
		_ = Enabled(GasKeys, v)
	}
}
