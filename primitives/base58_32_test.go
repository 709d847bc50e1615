package primitives

import (
	"bytes"
	"math"
	"math/big"
	"testing"

	"github.com/mr-tron/base58"
)

// TestBase58TableDoesNotOverflow: no sum over the words of 32 bytes exceeds 2^64, with the carry
// from the lower digit, and the tables are correct.
func TestBase58TableDoesNotOverflow(t *testing.T) {
	t.Parallel()
	carry := new(big.Int)
	for j := base58Fifths - 1; j >= 0; j-- {
		sum := new(big.Int).Set(carry)
		for i := range base58Words {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(math.MaxUint32), new(big.Int).SetUint64(base58Words[i][j])))
		}
		if sum.BitLen() > 64 {
			t.Errorf("digit %d comes to %v", j, sum)
		}
		carry.Quo(sum, big.NewInt(base58Fifth))
	}
	if carry.BitLen() > 1 && carry.Cmp(big.NewInt(base58Fifth)) >= 0 {
		t.Errorf("the highest digit leaves %v", carry)
	}
	for i := range base58Words {
		v := new(big.Int)
		for _, digit := range base58Words[i] {
			v.Add(v.Mul(v, big.NewInt(base58Fifth)), new(big.Int).SetUint64(digit))
		}
		if want := new(big.Int).Lsh(big.NewInt(1), uint(32*(7-i))); v.Cmp(want) != 0 {
			t.Errorf("word %d is %v, want %v", i, v, want)
		}
	}
}

// TestBase58Of32EqualsLibrary: the texts are those of the library, at both ends of the range,
// around each power of two, and with any number of leading zeros.
func TestBase58Of32EqualsLibrary(t *testing.T) {
	t.Parallel()
	check := func(raw [32]byte) {
		t.Helper()
		want := "before " + base58.Encode(raw[:])
		if got := string(appendBase58Of32([]byte("before "), raw)); got != want {
			t.Errorf("base58(%x) = %s, want %s", raw, got, want)
		}
		if got := "before " + Hash(raw).String(); got != want {
			t.Errorf("the hash %x is %s, want %s", raw, got, want)
		}
	}
	for bit := range 257 {
		for _, off := range []int64{-1, 0, 1} {
			v := new(big.Int).Lsh(big.NewInt(1), uint(bit))
			v.Add(v, big.NewInt(off))
			if v.BitLen() <= 256 {
				check([32]byte(v.FillBytes(make([]byte, 32))))
			}
		}
	}
	rng := NewStdRng([32]byte{59})
	for i := range 3300 {
		var raw [32]byte
		rng.Read(raw[i%33:])
		check(raw)
		copy(raw[i%33:], bytes.Repeat([]byte{0xff}, 32))
		check(raw)
	}
}

func FuzzBase58Of32(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Add(bytes.Repeat([]byte{0xff}, 32))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != 32 {
			return
		}
		if got, want := string(appendBase58Of32(nil, [32]byte(raw))), base58.Encode(raw); got != want {
			t.Fatalf("base58(%x) = %s, want %s", raw, got, want)
		}
	})
}

// BenchmarkBase58 encodes a hash: by the library, by division, by tables.
func BenchmarkBase58(b *testing.B) {
	h := HashBytes([]byte("a hash"))
	b.Run("way=library", func(b *testing.B) {
		for b.Loop() {
			_ = base58.Encode(h[:])
		}
	})
	b.Run("way=division", func(b *testing.B) {
		var text [44]byte
		raw := string(h[:])
		for b.Loop() {
			_ = appendBase58ByDivision(text[:0], raw)
		}
	})
	b.Run("way=tables", func(b *testing.B) {
		var text [44]byte
		for b.Loop() {
			_ = appendBase58Of32(text[:0], h)
		}
	})
}
