package multiples

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// points are ordinary ones, those of order 1 to 8, and sums of both.
func points(t testing.TB, random *rand.ChaCha8) (out []*curve.EdwardsPoint) {
	var torsion []*curve.EdwardsPoint
	for _, text := range []string{"0100000000000000000000000000000000000000000000000000000000000000", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000080", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"} {
		b, _ := hex.DecodeString(text)
		c, err := curve.NewCompressedEdwardsYFromBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		p, err := curve.NewEdwardsPoint().SetCompressedY(c)
		if err != nil {
			t.Fatal(err)
		}
		torsion = append(torsion, p)
	}
	out = append(out, curve.ED25519_BASEPOINT_POINT)
	for range 3 {
		p := curve.NewEdwardsPoint().MulBasepoint(curve.ED25519_BASEPOINT_TABLE, number(random))
		for _, q := range torsion {
			out = append(out, curve.NewEdwardsPoint().Add(p, q), q)
		}
	}
	return out
}

func number(random *rand.ChaCha8) *scalar.Scalar {
	var b [64]byte
	_, _ = random.Read(b[:])
	s, _ := scalar.NewFromBytesModOrderWide(b[:])
	return s
}

// numbers are 0, powers of 2 and their neighbours, the order less a little, numbers all of whose
// digits are at an edge, and random ones.
func numbers(random *rand.ChaCha8) (out []*scalar.Scalar) {
	one := scalar.One()
	at := scalar.One()
	for range 253 {
		out = append(out, scalar.New().Set(at), scalar.New().Add(at, one), scalar.New().Sub(at, one), scalar.New().Neg(at))
		at.Add(at, at)
	}
	for _, digit := range []byte{0x08, 0x0f, 0x10, 0x11, 0x20, 0x3f, 0x40, 0x41, 0x55, 0x7f, 0x84, 0xff} {
		s, _ := scalar.NewFromBytesModOrder(slices.Repeat([]byte{digit}, 32))
		out = append(out, s)
	}
	for range 300 {
		out = append(out, number(random))
	}
	return out
}

// TestSumEqualsDoubling: with each kind of table the sum equals multiplication by doubling, for
// points of any order.
func TestSumEqualsDoubling(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{3})
	all := numbers(random)
	for i, p := range points(t, random) {
		tables := map[string]*Table{"of the library": newPlain(p)}
		if hasVectors() {
			tables["of windows"] = New(p)
		} else {
			t.Log("this machine has no AVX2")
		}
		for j, k := range all {
			s := all[(j*7+i)%len(all)]
			var want, part curve.EdwardsPoint
			want.Mul(p, k)
			part.Mul(curve.ED25519_BASEPOINT_POINT, s)
			want.Add(&want, &part)
			var enc curve.CompressedEdwardsY
			enc.SetEdwardsPoint(&want)
			for name, table := range tables {
				if got := table.Sum(k, s); got != enc {
					t.Fatalf("%s, point %d, numbers %d and %d: %x, want %x", name, i, j, (j*7+i)%len(all), got, enc)
				}
			}
		}
	}
}

// TestKnownSumsDetectWrongTables: tables of each kind reproduce the known sums, and tables with a
// wrong part do not.
func TestKnownSumsDetectWrongTables(t *testing.T) {
	t.Parallel()
	if got := sums(newPlain); got != knownSums {
		t.Errorf("the library's tables give %s", got)
	}
	plus := func(p *curve.EdwardsPoint) *Table { // off by a point of small order
		return newPlain(curve.NewEdwardsPoint().Add(p, points(t, rand.NewChaCha8([32]byte{}))[4]))
	}
	if sums(plus) == knownSums {
		t.Error("wrong tables give the known sums")
	}
}

// TestDigitsRepresentNumberInRange: the digits represent the number, and each is in a table's
// range.
func TestDigitsRepresentNumberInRange(t *testing.T) {
	t.Parallel()
	for _, n := range numbers(rand.NewChaCha8([32]byte{4})) {
		for _, bits := range []int{pointBits, baseBits} {
			list := make([]int8, count(bits))
			digits(list, n, uint(bits))
			sum, shift := scalar.New(), scalar.NewFromUint64(1<<bits)
			for _, d := range slices.Backward(list) {
				if int(d) > 1<<(bits-1) || int(d) <= -1<<(bits-1) {
					t.Fatalf("digit %d of %d bits", d, bits)
				}
				sum.Mul(sum, shift)
				if d < 0 {
					sum.Sub(sum, scalar.NewFromUint64(uint64(-int(d))))
				} else {
					sum.Add(sum, scalar.NewFromUint64(uint64(d)))
				}
			}
			if sum.Equal(n) != 1 {
				t.Errorf("digits of %d bits say %v, not %v", bits, sum, n)
			}
		}
	}
}

func BenchmarkSum(b *testing.B) {
	random := rand.NewChaCha8([32]byte{5})
	p, k, s := curve.NewEdwardsPoint().MulBasepoint(curve.ED25519_BASEPOINT_TABLE, number(random)), number(random), number(random)
	tables := map[string]func(*curve.EdwardsPoint) *Table{"plain": newPlain}
	if hasVectors() {
		tables["windows"] = New
	}
	for name, of := range tables {
		b.Run(fmt.Sprintf("table=%s/op=make", name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				of(p)
			}
		})
		b.Run(fmt.Sprintf("table=%s/op=sum", name), func(b *testing.B) {
			t := of(p)
			b.ReportAllocs()
			for b.Loop() {
				t.Sum(k, s)
			}
		})
	}
}

// BenchmarkCold is a sum with uncached tables, as in a process that does much else: the median of
// 200.
func BenchmarkCold(b *testing.B) {
	random := rand.NewChaCha8([32]byte{5})
	p, k, s := curve.NewEdwardsPoint().MulBasepoint(curve.ED25519_BASEPOINT_TABLE, number(random)), number(random), number(random)
	between := make([]byte, 64<<20)
	tables := map[string]*Table{"plain": newPlain(p)}
	if hasVectors() {
		tables["windows"] = New(p)
	}
	for name, t := range tables {
		b.Run("table="+name, func(b *testing.B) {
			var took []time.Duration
			for range 200 {
				for i := 0; i < len(between); i += 64 {
					between[i]++
				}
				begin := time.Now()
				t.Sum(k, s)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			for b.Loop() { // nothing: the measured work was done above
			}
			b.ReportMetric(float64(took[100].Nanoseconds()), "ns/sum")
		})
	}
}
