package bandwidth

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

var june86 = parameters.MustGet(parameters.June(86))

func paramsFor(t testing.TB, shards int) Params {
	t.Helper()
	p, err := NewParams(june86, shards)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestParamsAndRequestValuesMatchVectorA47: nearcore
// core/primitives/src/bandwidth_scheduler.rs:408, 427, 477.
func TestParamsAndRequestValuesMatchVectorA47(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shards int
		base   uint64
	}{{1, 100_000}, {2, 100_000}, {6, 61_139}, {9, 38_212}, {400_000, 0}} {
		want := Params{Base: tt.base, MaxShard: 4_500_000, MaxSingleGrant: 4_194_304, MaxReceiptSize: 4_194_304, MaxAllowance: 4_500_000}
		got := paramsFor(t, tt.shards)
		if got != want {
			t.Errorf("%d shards: %+v, want %+v", tt.shards, got, want)
		}
		if uint64(tt.shards-1)*got.Base+got.MaxReceiptSize > got.MaxShard {
			t.Errorf("%d shards: no room for the largest receipt beside the bases", tt.shards)
		}
	}
	p := paramsFor(t, 6)
	want := [NumValues]uint64{
		164468, 267797, 371126, 474455, 577784, 681113, 784442, 887772, 991101, 1094430,
		1197759, 1301088, 1404417, 1507746, 1611075, 1714405, 1817734, 1921063, 2024392, 2127721,
		2231050, 2334379, 2437708, 2541038, 2644367, 2747696, 2851025, 2954354, 3057683, 3161012,
		3264341, 3367671, 3471000, 3574329, 3677658, 3780987, 3884316, 3987645, 4090974, 4194304,
	}
	if got := p.Values(); got != want {
		t.Errorf("Values = %v, want %v", got, want)
	}
}

func TestNewParamsRefusesInvalidConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*parameters.RuntimeConfig) int{
		"no shards":            func(*parameters.RuntimeConfig) int { return 0 },
		"receipts too large":   func(c *parameters.RuntimeConfig) int { c.Wasm.Limits.MaxReceiptSize = 40 << 20; return 6 },
		"grant above the most": func(c *parameters.RuntimeConfig) int { c.BandwidthScheduler.MaxSingleGrant = 4_500_001; return 6 },
	} {
		t.Run(name, func(t *testing.T) {
			c := *june86
			if p, err := NewParams(&c, change(&c)); !errors.Is(err, ErrParams) {
				t.Errorf("%+v, %v, want %v", p, err, ErrParams)
			}
		})
	}
}

// bits sets the given bits of a request to shard 3.
func bits3(set ...int) primitives.BandwidthRequest {
	r := primitives.BandwidthRequest{ToShard: 3}
	for _, i := range set {
		r.Bitmap[i/8] |= 1 << (i % 8)
	}
	return r
}

// TestRequestBitmapMatchesNearcore: nearcore core/primitives/src/bandwidth_scheduler.rs:525-600.
func TestRequestBitmapMatchesNearcore(t *testing.T) {
	t.Parallel()
	p := paramsFor(t, 6)
	values := p.Values()
	all := make([]int, NumValues)
	for i := range all {
		all[i] = i
	}
	for _, tt := range []struct {
		name  string
		sizes []uint64
		want  primitives.BandwidthRequest
		ok    bool
	}{
		{"none", nil, primitives.BandwidthRequest{}, false},
		{"below the base", []uint64{10_000, 20, 999, 2362, 3343, 232, 22}, primitives.BandwidthRequest{}, false},
		{"the base", []uint64{10_000, 20_000, p.Base - 30_000}, primitives.BandwidthRequest{}, false},
		{"the base and one", []uint64{10_000, 20_000, p.Base - 30_000, 1}, bits3(0), true},
		{"one just above", []uint64{p.Base + 1}, bits3(0), true},
		{"between values", []uint64{(values[20] + values[21]) / 2}, bits3(21), true},
		{"a value", []uint64{values[20]}, bits3(20), true},
		{"largest", []uint64{p.MaxReceiptSize}, bits3(39), true},
		{"two largest", []uint64{p.MaxReceiptSize, p.MaxReceiptSize}, bits3(39), true},
		{"larger than allowed", []uint64{1 << 63, 1 << 63, 1 << 63}, bits3(39), true},
		{"many small", slices.Repeat([]uint64{1000}, 10_000), bits3(all...), true},
		{"small, then too much", []uint64{values[4], p.MaxReceiptSize, 1}, bits3(4), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := p.Request(3, tt.sizes); got.Bitmap != tt.want.Bitmap || ok != tt.ok || ok && got.ToShard != 3 {
				t.Errorf("got %x, %v, want %x, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// slowRequest is a simple implementation of a request: for each sum of receipt sizes it sets the
// bit of the smallest value that covers the sum. It sets no bit for sums that the base bandwidth
// covers.
func slowRequest(p *Params, sizes []uint64) (bitmap [5]byte, ok bool) {
	var total uint64
	for _, size := range sizes {
		total += min(size, p.MaxReceiptSize)
		for i, v := range p.Values() {
			if total > p.Base && v >= total {
				bitmap[i/8] |= 1 << (i % 8)
				ok = true
				break
			}
		}
	}
	return bitmap, ok
}

func TestRequestMatchesSlowReference(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		p := paramsFor(t, 1+rng.IntN(12))
		sizes := make([]uint64, rng.IntN(60))
		most := 1 + rng.Uint64N(5_000_000)
		for i := range sizes {
			sizes[i] = rng.Uint64N(most)
		}
		got, ok := p.Request(3, sizes)
		if want, wantOK := slowRequest(&p, sizes); got.Bitmap != want || ok != wantOK {
			t.Fatalf("%v: %x, %v, want %x, %v", sizes, got.Bitmap, ok, want, wantOK)
		}
	}
}
