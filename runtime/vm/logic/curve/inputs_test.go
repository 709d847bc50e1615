package curve

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha512"
	"encoding/hex"
	"math/big"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	blsfp "github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	bnfp "github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// input is a call: the function's short name, as in functions (vectors_test.go) and in the oracle,
// and its arguments.
type input struct {
	name string
	args [][]byte
}

// maker makes inputs for the edge cases of each function. About a third of them are invalid in
// some way.
type maker struct {
	*rand.Rand
	special map[string][][]byte // testdata/map_special.txt
}

func newMaker(t testing.TB, seed int64) maker {
	m := maker{rand.New(rand.NewSource(seed)), map[string][][]byte{}}
	f, err := os.Open("testdata/map_special.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, u, ok := strings.Cut(s.Text(), " "); ok && name != "#" {
			m.special[name] = append(m.special[name], unhex(u))
		}
	}
	return m
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func num(s string) *big.Int { return new(big.Int).SetBytes(unhex(s)) }

var (
	blsP  = blsfp.Modulus()
	blsR  = num("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001")
	blsH1 = num("396c8c005555e1568c00aaab0000aaab")
	blsH2 = num("05d543a95414e7f1091d50792876a202cd91de4547085abaa68a205b2e5a7ddfa628f1cb4d9e82ef21537e293a6691ae1616ec6e786f0c70cf1c38e31c7238e5")
	bnP   = bnfp.Modulus()
	bnR   = num("30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001")
	bnH2  = new(big.Int).Sub(new(big.Int).Lsh(bnP, 1), bnR)
	secpN = num("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	secpP = num("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f")
	edL   = num("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed")
	edP   = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	one   = big.NewInt(1)
)

func (m maker) in(n int) bool { return m.Intn(n) == 0 } // once in n times

func (m maker) bytes(n int) []byte {
	b := make([]byte, n)
	m.Read(b)
	return b
}

func (m maker) below(n *big.Int) *big.Int { return new(big.Int).Rand(m.Rand, n) }

func pick[T any](m maker, of ...T) T { return of[m.Intn(len(of))] }

// be and le write the low bytes of n.
func be(n *big.Int, size int) []byte {
	b := make([]byte, max(size, len(n.Bytes())))
	n.FillBytes(b)
	return b[len(b)-size:]
}

func le(n *big.Int, size int) []byte {
	b := be(n, size)
	slices.Reverse(b)
	return b
}

// near is a number around one of the given, or small, or any of so many bits.
func (m maker) near(bits uint, of ...*big.Int) *big.Int {
	top := new(big.Int).Lsh(one, bits)
	switch m.Intn(4) {
	case 0:
		return m.below(top)
	case 1:
		return m.below(big.NewInt(4))
	}
	of = append(slices.Clone(of), top, new(big.Int).Rsh(top, 1))
	n := new(big.Int).Add(pick(m, of...), big.NewInt(int64(m.Intn(5)-2)))
	return n.Mod(n, top)
}

func (m maker) flip(b []byte) {
	if len(b) > 0 {
		b[m.Intn(len(b))] ^= 1 << m.Intn(8)
	}
}

// group is what small-order points need of a curve: a random point of it, doubling and adding.
func multiply[P any](p P, n *big.Int, zero P, add func(a, b *P)) P {
	sum := zero
	for i := n.BitLen() - 1; i >= 0; i-- {
		twice := sum
		add(&twice, &sum)
		sum = twice
		if n.Bit(i) == 1 {
			add(&sum, &p)
		}
	}
	return sum
}

// blsPoint1 returns a point of E(Fp): one of G1, one of a small order, one of the whole curve, or
// a sum of two of these.
func (m maker) blsPoint1() (p bls12381.G1Jac) {
	add := func(a, b *bls12381.G1Jac) { a.AddAssign(b) }
	for range 1 + m.Intn(3)/2 {
		_, _, g, _ := bls12381.Generators()
		var q bls12381.G1Jac
		q.FromAffine(&g)
		q = multiply(q, m.near(20, big.NewInt(1000)), bls12381.G1Jac{}, add)
		if m.in(3) {
			q.FromAffine(m.blsAny1())
			if m.in(2) {
				n := new(big.Int).Mul(blsH1, blsR)
				q = multiply(q, n.Div(n, big.NewInt(pick[int64](m, 3, 11, 121, 10177, 859267, 52437899))), bls12381.G1Jac{}, add)
			}
		}
		p.AddAssign(&q)
	}
	return p
}

func (m maker) blsAny1() *bls12381.G1Affine {
	for {
		raw := append([]byte{0x80 | byte(m.Intn(2))<<5}, make([]byte, 47)...)
		copy(raw[1:], m.bytes(47))
		if p, ok := blsP1Compressed(raw, true); ok {
			return &p
		}
	}
}

func (m maker) blsPoint2() (p bls12381.G2Jac) {
	add := func(a, b *bls12381.G2Jac) { a.AddAssign(b) }
	for range 1 + m.Intn(3)/2 {
		_, _, _, g := bls12381.Generators()
		var q bls12381.G2Jac
		q.FromAffine(&g)
		q = multiply(q, m.near(20, big.NewInt(1000)), bls12381.G2Jac{}, add)
		if m.in(3) {
			q.FromAffine(m.blsAny2())
			if m.in(2) {
				n := new(big.Int).Mul(blsH2, blsR)
				q = multiply(q, n.Div(n, big.NewInt(pick[int64](m, 13, 169, 23, 529, 2713, 11953, 262069))), bls12381.G2Jac{}, add)
			}
		}
		p.AddAssign(&q)
	}
	return p
}

func (m maker) blsAny2() *bls12381.G2Affine {
	for {
		raw := m.bytes(96)
		raw[0] = 0x80 | byte(m.Intn(2))<<5 | raw[0]&0x0f
		if p, ok := blsP2Compressed(raw, true); ok {
			return &p
		}
	}
}

// blsG1 and blsG2 are points that a group check accepts.
func (m maker) blsG1() []byte {
	var p bls12381.G1Jac
	q := bls12381.MapToG1(*new(blsfp.Element).SetBigInt(m.near(380, blsP)))
	p.FromAffine(&q)
	return blsAppendP1Jac(nil, &p)
}

func (m maker) blsG2() []byte {
	var u bls12381.E2
	u.A0.SetBigInt(m.below(blsP))
	u.A1.SetBigInt(m.below(big.NewInt(3)))
	q := bls12381.MapToG2(u)
	return blsAppendP2(nil, &q)
}

// blsRaw1 is an uncompressed point of the curve, or nearly one.
func (m maker) blsRaw1() []byte {
	p := m.blsPoint1()
	raw := blsAppendP1Jac(nil, &p)
	return m.blsSpoil(raw)
}

func (m maker) blsRaw2() []byte {
	p := m.blsPoint2()
	raw := blsAppendP2Jac(nil, &p)
	return m.blsSpoil(raw)
}

// blsSpoil now and then breaks a serialised point.
func (m maker) blsSpoil(raw []byte) []byte {
	n := len(raw)
	switch m.Intn(24) {
	case 0:
		m.flip(raw)
	case 1:
		raw[0] ^= byte(m.Intn(8)) << 5
	case 2: // infinity, well formed or nearly
		clear(raw)
		raw[0] = pick[byte](m, 0x40, 0x40, 0xc0, 0x60, 0xe0, 0x41, 0, 0x80, 0xa0)
		if m.in(3) {
			m.flip(raw)
		}
	case 3: // a coordinate plus the modulus
		i := m.Intn(n/48) * 48
		c := new(big.Int).SetBytes(raw[i : i+48])
		copy(raw[i:], be(c.Add(c, blsP), 48))
	case 4: // a coordinate near something
		i := m.Intn(n/48) * 48
		copy(raw[i:], be(m.near(381, blsP), 48))
	case 5: // x = 0
		clear(raw[:n/2])
		if n == 96 {
			copy(raw[48:], be(pick(m, big.NewInt(2), new(big.Int).Sub(blsP, big.NewInt(2))), 48))
		}
	case 6:
		copy(raw, m.bytes(n))
	case 7:
		raw[0] |= 0x80
	}
	return raw
}

func (m maker) blsScalar() []byte {
	z2 := num("ac45a4010001a40200000000ffffffff") // blst splits scalars by the square of the curve's parameter
	wrap := new(big.Int).Lsh(z2, 128)
	return le(m.near(256, blsR, new(big.Int).Lsh(blsR, 1), z2, wrap), 32)
}

func (m maker) blsCompressed(size int) []byte {
	var raw []byte
	if size == 48 {
		var a bls12381.G1Affine
		p := m.blsPoint1()
		b := a.FromJacobian(&p).Bytes()
		raw = b[:]
	} else {
		var a bls12381.G2Affine
		p := m.blsPoint2()
		b := a.FromJacobian(&p).Bytes()
		raw = b[:]
	}
	switch m.Intn(12) {
	case 0:
		raw[0] ^= 0x20
	case 1: // x = 0
		clear(raw)
		raw[0] = pick[byte](m, 0x80, 0xa0)
	case 2: // another x
		flags := raw[0] & 0xe0
		for i := 0; i < size; i += 48 {
			copy(raw[i:], be(m.near(381, blsP), 48))
		}
		raw[0] = raw[0]&0x1f | flags
	case 3:
		return m.blsSpoil(raw)
	}
	return raw
}

func (m maker) blsField(special string, size int) []byte {
	var out []byte
	for range 1 + m.Intn(2) {
		if m.in(3) {
			out = append(out, pick(m, m.special[special]...)...)
			continue
		}
		for i := 0; i < size; i += 48 {
			out = append(out, be(m.near(pick[uint](m, 381, 381, 380, 384), blsP, new(big.Int).Lsh(blsP, 1), new(big.Int).Rsh(blsP, 1)), 48)...)
		}
	}
	return out
}

// list concatenates up to four items. Sometimes an item is repeated, and sometimes the length is
// wrong.
func (m maker) list(item func() []byte) []byte {
	var items [][]byte
	for range m.Intn(5) {
		if len(items) > 0 && m.in(3) {
			items = append(items, slices.Clone(pick(m, items...)))
		} else {
			items = append(items, item())
		}
	}
	out := bytes.Join(items, nil)
	if m.in(30) {
		out = append(out, m.bytes(1+m.Intn(3))...)
	}
	return out
}

// sums with signs: mostly good signs, often what cancels.
func (m maker) sign() []byte {
	return []byte{pick[byte](m, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 2, 0xff)}
}

func (m maker) bnField() []byte { return le(m.near(256, bnP), 32) }

func (m maker) bnG1() []byte {
	_, _, g, _ := bn254.Generators()
	p := *new(bn254.G1Jac).FromAffine(&g)
	p.ScalarMultiplication(&p, m.near(254, bnR))
	raw := altBN128Encode(&p)
	switch m.Intn(24) {
	case 0:
		m.flip(raw[:])
	case 1:
		copy(raw[32*m.Intn(2):], m.bnField())
	case 2, 3:
		clear(raw[:])
	case 4:
		i := 32 * m.Intn(2)
		c := raw[i : i+32]
		slices.Reverse(c)
		n := new(big.Int).SetBytes(c)
		copy(c, le(n.Add(n, bnP), 32))
	}
	return raw[:]
}

// bnG2 is a point of the twist: of G2, of a small order, or any.
func (m maker) bnG2() []byte {
	add := func(a, b *bn254.G2Jac) { a.AddAssign(b) }
	_, _, _, g := bn254.Generators()
	p := *new(bn254.G2Jac).FromAffine(&g)
	p.ScalarMultiplication(&p, m.near(254, bnR))
	if m.in(6) {
		for {
			var a bn254.G2Affine
			a.X.A0.SetBigInt(m.below(bnP))
			a.X.A1.SetBigInt(m.below(bnP))
			var b, y bn254.E2 // the twist's constant from the generator: y² - x³
			b.Square(&g.X).Mul(&b, &g.X)
			y.Square(&g.Y).Sub(&y, &b)
			b.Square(&a.X).Mul(&b, &a.X)
			if y.Add(&y, &b); y.Legendre() == 1 {
				a.Y.Sqrt(&y)
				q := *new(bn254.G2Jac).FromAffine(&a)
				if m.in(2) {
					n := new(big.Int).Mul(bnH2, bnR)
					q = multiply(q, n.Div(n, big.NewInt(pick[int64](m, 1, 10069, 5864401, 10069*5864401))), bn254.G2Jac{}, add)
				}
				if m.in(2) {
					p = q
				} else {
					p.AddAssign(&q)
				}
				break
			}
		}
	}
	var a bn254.G2Affine
	a.FromJacobian(&p)
	var raw []byte
	for _, c := range []*bnfp.Element{&a.X.A0, &a.X.A1, &a.Y.A0, &a.Y.A1} {
		raw = append(raw, le(c.BigInt(new(big.Int)), 32)...)
	}
	switch m.Intn(24) {
	case 0:
		m.flip(raw)
	case 1:
		copy(raw[32*m.Intn(4):], m.bnField())
	case 2, 3:
		clear(raw)
	}
	return raw
}

// bnPairs often multiplies to one: e(aP, bQ) e(-abP, Q).
func (m maker) bnPairs() []byte {
	if m.in(2) {
		return m.list(func() []byte { return append(m.bnG1(), m.bnG2()...) })
	}
	_, _, g1, g2 := bn254.Generators()
	a, b := m.near(254, bnR), m.near(254, bnR)
	var out []byte
	for i := range 2 {
		p, q := *new(bn254.G1Jac).FromAffine(&g1), *new(bn254.G2Jac).FromAffine(&g2)
		if i == 0 {
			p.ScalarMultiplication(&p, a)
			q.ScalarMultiplication(&q, b)
		} else {
			ab := new(big.Int).Mul(a, b)
			ab.Sub(bnR, ab.Mod(ab, bnR)).Add(ab, big.NewInt(int64(m.Intn(4)/3)))
			p.ScalarMultiplication(&p, ab)
		}
		raw := altBN128Encode(&p)
		out = append(out, raw[:]...)
		var qa bn254.G2Affine
		qa.FromJacobian(&q)
		for _, c := range []*bnfp.Element{&qa.X.A0, &qa.X.A1, &qa.Y.A0, &qa.Y.A1} {
			out = append(out, le(c.BigInt(new(big.Int)), 32)...)
		}
	}
	return out
}

func (m maker) blsPairs() []byte {
	if m.in(2) {
		return m.list(func() []byte {
			p, q := m.blsG1(), m.blsG2()
			if m.in(4) {
				p = m.blsRaw1()
			}
			if m.in(4) {
				q = m.blsRaw2()
			}
			return append(m.blsSpoil(p), m.blsSpoil(q)...)
		})
	}
	_, _, g1, g2 := bls12381.Generators()
	a, b := m.below(blsR), m.below(blsR)
	ab := new(big.Int).Mul(a, b)
	ab.Sub(blsR, ab.Mod(ab, blsR)).Add(ab, big.NewInt(int64(m.Intn(4)/3)))
	var p, minus bls12381.G1Affine
	var q bls12381.G2Affine
	p.ScalarMultiplication(&g1, a)
	minus.ScalarMultiplication(&g1, ab)
	q.ScalarMultiplication(&g2, b)
	return slices.Concat(blsAppendP1(nil, &p), blsAppendP2(nil, &q), blsAppendP1(nil, &minus), blsAppendP2(nil, &g2))
}

// p256 is a signature of a hash of 0 to 40 bytes, or nearly one.
func (m maker) p256() [][]byte {
	c := elliptic.P256()
	n := c.Params().N
	d := new(big.Int).Add(m.below(new(big.Int).Sub(n, one)), one)
	x, y := c.ScalarBaseMult(d.Bytes())
	key := elliptic.MarshalCompressed(c, x, y)
	hash := m.bytes(pick(m, 32, 32, 32, 16, 15, 20, 31, 33, 40, 0))
	// s = (z + r d) / k by hand: the library will not sign short hashes as the verifier reads them
	k := new(big.Int).Add(m.below(new(big.Int).Sub(n, one)), one)
	r, _ := c.ScalarBaseMult(k.Bytes())
	r.Mod(r, n)
	z := new(big.Int).SetBytes(hash[:min(32, len(hash))])
	s := new(big.Int).Mul(r, d)
	s.Add(s, z).Mul(s, new(big.Int).ModInverse(k, n)).Mod(s, n)
	if m.in(2) {
		s.Sub(n, s) // high and low are both right
	}
	sig := append(be(r, 32), be(s, 32)...)
	switch m.Intn(12) {
	case 0:
		copy(sig[32*m.Intn(2):], be(m.near(256, n), 32))
	case 1:
		m.flip(sig)
	case 2:
		key[0] = byte(m.Intn(8))
	case 3:
		key[0] = 5
		if half := new(big.Int).Sub(c.Params().P, y); half.Cmp(y) < 0 { // sign for the smaller y
			s = new(big.Int).Mul(r, new(big.Int).Sub(n, d))
			s.Add(s, z).Mul(s, new(big.Int).ModInverse(k, n)).Mod(s, n)
			sig = append(be(r, 32), be(s, 32)...)
		}
	case 4:
		copy(key[1:], be(m.near(256, c.Params().P), 32))
	case 5:
		m.flip(hash)
	}
	return [][]byte{sig, hash, key}
}

// edSmall are encodings of points of small order, canonical and not, and some that are no point.
func (m maker) edSmall() []byte {
	y := pick(m, big.NewInt(0), one, new(big.Int).Sub(edP, one), edP, new(big.Int).Add(edP, one),
		num("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7"),
		num("05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826"),
		big.NewInt(2), new(big.Int).Add(edP, big.NewInt(2)), new(big.Int).Add(edP, big.NewInt(18)))
	b := le(y, 32)
	b[31] |= byte(m.Intn(2)) << 7
	return b
}

func (m maker) ed25519() [][]byte {
	key := ed25519.NewKeyFromSeed(m.bytes(32))
	pub, msg := slices.Clone([]byte(key[32:])), m.bytes(m.Intn(50))
	sig := ed25519.Sign(key, msg)
	switch m.Intn(8) {
	case 0: // S plus the order
		s := slices.Clone(sig[32:])
		slices.Reverse(s)
		n := new(big.Int).SetBytes(s)
		copy(sig[32:], le(n.Add(n, edL), 32))
	case 1:
		m.flip(pick(m, sig, pub, msg))
	case 2: // small A and R, S = 0: valid without cofactor if the orders agree
		pub = m.edSmall()
		copy(sig, m.edSmall())
		clear(sig[32:])
	case 3: // small A, honest R = S B: valid if k A is zero
		pub = m.edSmall()
		for range 12 {
			h := sha512.New()
			h.Write(sig[:32])
			h.Write(pub)
			h.Write(msg)
			if h.Sum(nil)[0]&7 == 0 {
				break
			}
			msg = m.bytes(8)
		}
		var seed [32]byte
		sk := ed25519.NewKeyFromSeed(seed[:])
		copy(sig, sk[32:]) // R = a B with the clamped scalar a, so S = a mod the order
		h := sha512.Sum512(seed[:])
		h[0] &= 248
		h[31] = h[31]&127 | 64
		a := slices.Clone(h[:32])
		slices.Reverse(a)
		n := new(big.Int).SetBytes(a)
		copy(sig[32:], le(n.Mod(n, edL), 32))
	case 4:
		copy(sig[32:], le(m.near(256, edL, new(big.Int).Lsh(one, 252)), 32))
	case 5:
		copy(pub, m.bytes(32))
	}
	return [][]byte{sig, msg, pub}
}

func (m maker) ecrecover() [][]byte {
	key := secp256k1.PrivKeyFromBytes(be(m.near(256, secpN), 32))
	hash := m.bytes(32)
	if m.in(8) {
		hash = be(m.near(256, secpN), 32)
	}
	compact := make([]byte, 65)
	if key.Key.IsZero() {
		m.Read(compact)
	} else {
		copy(compact, secdsa.SignCompact(key, hash, false))
	}
	v, sig := (compact[0]-27)&3, compact[1:]
	switch m.Intn(8) {
	case 0: // the other half, with the other parity
		s := new(big.Int).SetBytes(sig[32:])
		copy(sig[32:], be(s.Sub(secpN, s), 32))
		v ^= 1
	case 1:
		v = byte(m.Intn(4))
	case 2:
		half := new(big.Int).Rsh(secpN, 1)
		copy(sig[32*m.Intn(2):], be(m.near(256, secpN, half, new(big.Int).Sub(secpP, secpN)), 32))
	case 3: // a small r, where r plus the order is below the prime
		copy(sig, be(big.NewInt(int64(m.Intn(40))), 32))
		v = byte(m.Intn(4))
	case 4:
		copy(sig, be(new(big.Int).Add(new(big.Int).Sub(secpP, secpN), big.NewInt(int64(m.Intn(9)-4))), 32))
		v = byte(m.Intn(4))
	case 5: // the key would be infinity: s R = z G with R = G
		copy(sig, be(num("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"), 32))
		copy(sig[32:], hash)
		v = byte(m.Intn(2))
	}
	return [][]byte{hash, sig, {v, byte(m.Intn(2))}}
}

// next makes the i-th input. It takes all functions in turn, and those with a variant for
// NEP-488's correction also in that variant.
func (m maker) next(i int) input {
	fix := pick(m, "", "", "+fix")
	switch i % 15 {
	case 0:
		return input{"bn_mul", [][]byte{m.list(func() []byte { return append(m.bnG1(), le(m.near(pick[uint](m, 253, 253, 256), bnR), 32)...) })}}
	case 1:
		return input{"bn_sum", [][]byte{m.list(func() []byte { return append(m.sign(), m.bnG1()...) })}}
	case 2:
		return input{"bn_pair", [][]byte{m.bnPairs()}}
	case 3:
		return input{"p1_sum" + fix, [][]byte{m.list(func() []byte { return append(m.sign(), m.blsRaw1()...) })}}
	case 4:
		return input{"p2_sum" + fix, [][]byte{m.list(func() []byte { return append(m.sign(), m.blsRaw2()...) })}}
	case 5:
		return input{"p1_mul" + fix, [][]byte{m.list(func() []byte {
			p := m.blsG1()
			if m.in(5) {
				p = m.blsRaw1()
			}
			return append(p, m.blsScalar()...)
		})}}
	case 6:
		return input{"p2_mul" + fix, [][]byte{m.list(func() []byte {
			p := m.blsG2()
			if m.in(5) {
				p = m.blsRaw2()
			}
			return append(p, m.blsScalar()...)
		})}}
	case 7:
		return input{"map1", [][]byte{m.blsField("map1", 48)}}
	case 8:
		return input{"map2", [][]byte{m.blsField("map2", 96)}}
	case 9:
		return input{"p1_dec" + fix, [][]byte{m.list(func() []byte { return m.blsCompressed(48) })}}
	case 10:
		return input{"p2_dec" + fix, [][]byte{m.list(func() []byte { return m.blsCompressed(96) })}}
	case 11:
		return input{"pair", [][]byte{m.blsPairs()}}
	case 12:
		return input{"p256", m.p256()}
	case 13:
		return input{"ed25519", m.ed25519()}
	}
	return input{"ecrecover", m.ecrecover()}
}
