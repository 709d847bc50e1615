package primitives

import (
	"bytes"
	"errors"
	"math/big"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestAliasTableVectorA49 compares with nearcore's literals: alias table of a weighted index.
func TestAliasTableVectorA49(t *testing.T) {
	t.Parallel()
	w, err := NewStakeWeightedIndex(yoctos(5, 8, 4, 10, 4, 4, 5))
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{1, 0, 3, 1, 3, 3, 3}; !slices.Equal(w.Aliases(), want) {
		t.Errorf("aliases = %v, want %v", w.Aliases(), want)
	}
	if want := yoctos(35, 40, 28, 29, 28, 28, 35); !slices.Equal(w.NoAliasOdds(), want) {
		t.Errorf("odds = %v, want %v", w.NoAliasOdds(), want)
	}
	var again StakeWeightedIndex
	if err := borsh.Unmarshal(borsh.Marshal(w), &again); err != nil || !slices.Equal(again.aliases, w.aliases) ||
		!slices.Equal(again.odds, w.odds) || again.sum != w.sum {
		t.Errorf("borsh gives %+v, %v", again, err)
	}
}

func yoctos(v ...uint64) []Balance {
	out := make([]Balance, len(v))
	for i := range v {
		out[i] = Yocto(v[i])
	}
	return out
}

// TestSampleFollowsStakes samples as nearcore's test does (rand.rs:195): a chain of hashes, and
// shares within half a percent.
func TestSampleFollowsStakes(t *testing.T) {
	t.Parallel()
	w, err := NewStakeWeightedIndex(yoctos(5, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	seed := HashBytes(make([]byte, 32))
	var counts [3]int
	for range 1_000_000 {
		counts[w.Sample(seed)]++
		seed = HashBytes(seed[:])
	}
	for _, c := range [][2]int{{counts[0], 5 * counts[1]}, {counts[1], counts[2]}} {
		if d := c[0] - c[1]; max(d, -d)*200 >= c[0] {
			t.Errorf("counts %v: %d is not near %d", counts, c[0], c[1])
		}
	}
}

func TestStakeSumOverflowIsRefused(t *testing.T) {
	t.Parallel()
	for _, stakes := range [][]Balance{{MaxBalance, Yocto(1)}, {{Hi: 1 << 63}, {Hi: 1}}} {
		if _, err := NewStakeWeightedIndex(stakes); !errors.Is(err, ErrOverflow) {
			t.Errorf("stakes %v: %v", stakes, err)
		}
	}
	if w, err := NewStakeWeightedIndex([]Balance{MaxBalance}); err != nil || w.Sample([32]byte{9, 8: 255}) != 0 {
		t.Errorf("one stake of everything: %v", err)
	}
	var w StakeWeightedIndex
	bad := borsh.AppendUint64s(Yocto(3).AppendBorsh(nil), []uint64{0, 2})
	bad = Yocto(1).AppendBorsh(Yocto(1).AppendBorsh(borsh.AppendLen(bad, 2)))
	if err := borsh.Unmarshal(bad, &w); err == nil {
		t.Error("an alias past the end is accepted")
	}
}

func FuzzMod128(f *testing.F) {
	f.Add(^uint64(0), ^uint64(0), uint64(1), uint64(0))
	f.Add(^uint64(0), ^uint64(0), ^uint64(0), uint64(0))
	f.Add(uint64(1)<<63, uint64(0), uint64(1)<<62, ^uint64(0))
	f.Add(uint64(7), uint64(5), uint64(7), uint64(6))
	f.Add(uint64(7), uint64(5), uint64(0), uint64(6))
	f.Fuzz(func(t *testing.T, ah, al, mh, ml uint64) {
		a, m := Balance{ah, al}, Balance{mh, ml}
		if m.IsZero() {
			return
		}
		want := new(big.Int).Mod(a.Big(), m.Big())
		if got := mod128(a, m).Big(); got.Cmp(want) != 0 {
			t.Errorf("%v mod %v = %v, want %v", a, m, got, want)
		}
	})
}

func FuzzStakeWeightedIndex(f *testing.F) {
	w, err := NewStakeWeightedIndex(yoctos(5, 8, 4, 10))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(borsh.Marshal(w))
	f.Fuzz(func(t *testing.T, in []byte) {
		var w StakeWeightedIndex
		if borsh.Unmarshal(in, &w) != nil {
			return
		}
		if got := borsh.Marshal(&w); !bytes.Equal(got, in) {
			t.Errorf("%x became %x", in, got)
		}
		if w.Len() > 0 && !w.StakeSum().IsZero() {
			w.Sample([32]byte{1, 2, 3, 8: 255, 23: 255})
		}
	})
}

func BenchmarkSample(b *testing.B) {
	stakes := make([]Balance, 300)
	for i := range stakes {
		stakes[i] = NEAR(uint64(10_000 + i*i))
	}
	w, err := NewStakeWeightedIndex(stakes)
	if err != nil {
		b.Fatal(err)
	}
	seed := HashBytes([]byte("bench"))
	for b.Loop() {
		w.Sample(seed)
	}
}
