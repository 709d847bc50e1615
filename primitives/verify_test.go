package primitives

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// ed25519Order is the order of the base point, little-endian.
var ed25519Order = mustHex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// torsionPoints are the encodings of the eight points of small order, the canonical ones first.
var torsionPoints = []string{
	"0100000000000000000000000000000000000000000000000000000000000000", // the identity
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
	"0000000000000000000000000000000000000000000000000000000000000000", // order 4
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"0100000000000000000000000000000000000000000000000000000000000080", // not canonical: the identity as -0
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // p+1
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", // order 2 as -0
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // p, order 4
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}

// TestSmallOrderRMustBeCanonical signs with the secret 0 under every key of small order: R is the
// point that satisfies the cofactorless equation, in each of its encodings. dalek's verify only
// accepts the canonical R, whatever the encoding of A.
func TestSmallOrderRMustBeCanonical(t *testing.T) {
	t.Parallel()
	verifier, tables := NewVerifier(4), newVerifier(maxTables, 1, 0)
	accepted := 0
	for _, a := range torsionPoints {
		for _, r := range torsionPoints {
			for m := range 8 {
				msg := []byte{byte(m)}
				sig := slices.Concat([]byte{0}, mustHex(r), make([]byte, 32)) // S = 0
				key := slices.Concat([]byte{0}, mustHex(a))
				// 0·B = R + h·A, compared by bytes.
				h := sha512.New()
				h.Write(sig[1:33])
				h.Write(key[1:])
				h.Write(msg)
				k, err := scalar.NewFromBytesModOrderWide(h.Sum(nil))
				if err != nil {
					t.Fatal(err)
				}
				var point, zero curve.EdwardsPoint
				var enc curve.CompressedEdwardsY
				copy(enc[:], key[1:])
				if _, err := point.SetCompressedY(&enc); err != nil {
					t.Fatal(err)
				}
				point.Mul(&point, k)
				point.Sub(zero.Identity(), &point)
				enc.SetEdwardsPoint(&point)
				want := string(enc[:]) == string(sig[1:33])
				if want {
					accepted++
				}
				if got := Signature(sig).Verify(msg, PublicKey(key)); got != want {
					t.Errorf("A %s R %s message %d: %v, want %v", a, r, m, got, want)
				}
				if got := verifier.Verify(Signature(sig), msg, PublicKey(key)); got != want {
					t.Errorf("cached: A %s R %s message %d: %v, want %v", a, r, m, got, want)
				}
				if got := byTable(tables, Signature(sig), msg, PublicKey(key)); got != want {
					t.Errorf("by table: A %s R %s message %d: %v, want %v", a, r, m, got, want)
				}
				if got := ed25519.Verify(key[1:], msg, sig[1:]); got != want {
					t.Errorf("crypto/ed25519: A %s R %s message %d: %v, want %v", a, r, m, got, want)
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("no case was a valid signature")
	}
}

// byTable checks a signature three times by a verifier that makes tables at once: with a new key,
// with a key that gets its table, and with a key that has it. The results must agree.
func byTable(v *Verifier, s Signature, data []byte, key PublicKey) bool {
	first, second, third := v.Verify(s, data, key), v.Verify(s, data, key), v.Verify(s, data, key)
	if first != second || first != third {
		panic(fmt.Sprintf("%v without a table, %v and %v with one", first, second, third))
	}
	return first
}

// TestTorsionPartIsRefused adds a torsion part to R, to A and to both: the cofactorless equation
// refuses what a batch or ZIP-215 check accepts.
func TestTorsionPartIsRefused(t *testing.T) {
	t.Parallel()
	secret, err := scalar.NewFromBytesModOrderWide(slices.Repeat([]byte{7}, 64))
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := scalar.NewFromBytesModOrderWide(slices.Repeat([]byte{9}, 64))
	if err != nil {
		t.Fatal(err)
	}
	var enc curve.CompressedEdwardsY
	copy(enc[:], mustHex(torsionPoints[4])) // order 8
	var torsion, identity curve.EdwardsPoint
	if _, err := torsion.SetCompressedY(&enc); err != nil {
		t.Fatal(err)
	}
	identity.Identity()
	sign := func(onR, onA *curve.EdwardsPoint, msg []byte) (sig, key []byte, k *scalar.Scalar) {
		var A, R curve.EdwardsPoint
		A.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, secret).Add(&A, onA)
		R.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, nonce).Add(&R, onR)
		var a, r curve.CompressedEdwardsY
		a.SetEdwardsPoint(&A)
		r.SetEdwardsPoint(&R)
		h := sha512.New()
		h.Write(r[:])
		h.Write(a[:])
		h.Write(msg)
		k, err := scalar.NewFromBytesModOrderWide(h.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		var s scalar.Scalar
		s.Mul(k, secret)
		s.Add(&s, nonce)
		out := make([]byte, 32)
		if err := s.ToBytes(out); err != nil {
			t.Fatal(err)
		}
		return slices.Concat(r[:], out), a[:], k
	}
	valid := 0
	for m := range 40 {
		msg := fmt.Appendf(nil, "message %d", m)
		for _, c := range []struct {
			name   string
			onR, A *curve.EdwardsPoint
		}{{"plain", &identity, &identity}, {"R", &torsion, &identity}, {"A", &identity, &torsion}, {"both", &torsion, &torsion}} {
			sig, key, k := sign(c.onR, c.A, msg)
			// S·B - k·A = R (+ torsion) - k·torsion: equal to R iff k times A's torsion part
			// cancels.
			var left, part curve.EdwardsPoint
			left.Identity()
			part.Mul(c.A, k)
			left.Sub(&left, &part)
			want := left.Equal(c.onR) == 1
			if want {
				valid++
			}
			s, pk := Signature("\x00"+string(sig)), PublicKey("\x00"+string(key))
			if got := s.Verify(msg, pk); got != want {
				t.Errorf("torsion on %s, message %d: %v, want %v", c.name, m, got, want)
			}
			if got := byTable(newVerifier(1, 1, 0), s, msg, pk); got != want {
				t.Errorf("by table: torsion on %s, message %d: %v, want %v", c.name, m, got, want)
			}
			if got := ed25519.Verify(key, msg, sig); got != want {
				t.Errorf("crypto/ed25519: torsion on %s, message %d: %v, want %v", c.name, m, got, want)
			}
			if got, want := pk.IsValidStakingKey(), c.A == &identity; got != want {
				t.Errorf("torsion on %s: staking key %v, want %v", c.name, got, want)
			}
		}
	}
	if valid <= 40 {
		t.Errorf("only %d signatures were valid", valid)
	}
}

func TestUnreducedSIsRefused(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(ED25519, "large")
	sig := []byte(sk.Sign([]byte("m")))
	add := func(s []byte, order []byte) (carry int) { // s += order
		for i := range s {
			v := int(s[i]) + int(order[i]) + carry
			s[i], carry = byte(v), v>>8
		}
		return carry
	}
	for i := 1; add(sig[33:], ed25519Order) == 0; i++ {
		s := Signature(sig)
		if s.Verify([]byte("m"), sk.PublicKey()) || byTable(newVerifier(1, 1, 0), s, []byte("m"), sk.PublicKey()) {
			t.Fatalf("S + %d·order is accepted", i)
		}
	}
}

func TestStakingKeysAreTorsionFree(t *testing.T) {
	t.Parallel()
	for i, text := range torsionPoints {
		// Only the identity, in any encoding, is free of torsion.
		want := i == 0 || i >= 8 && i <= 10
		if got := PublicKey("\x00" + string(mustHex(text))).IsValidStakingKey(); got != want {
			t.Errorf("staking key %s: %v, want %v", text, got, want)
		}
	}
	if !SecretKeyFromSeed(ED25519, "v").PublicKey().IsValidStakingKey() {
		t.Error("an ordinary key is refused")
	}
	for _, scheme := range []KeyType{SECP256K1, MLDSA65} {
		if SecretKeyFromSeed(scheme, "v").PublicKey().IsValidStakingKey() {
			t.Errorf("a %v key may stake", scheme)
		}
	}
	if PublicKey("\x00" + string(slices.Repeat([]byte{2}, 32))).IsValidStakingKey() {
		t.Error("a key that is no point may stake")
	}
}

func TestSecp256k1FollowsNearcoresRules(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(SECP256K1, "rules")
	data := HashBytes([]byte("x"))
	good := []byte(sk.Sign(data[:]))
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	edit := func(f func(sig []byte)) Signature {
		s := slices.Clone(good)
		f(s)
		return Signature(s)
	}
	tests := []struct {
		name string
		sig  Signature
		data []byte
		want bool
	}{
		{"as signed", Signature(good), data[:], true},
		{"another recovery id", edit(func(s []byte) { s[65] ^= 1 }), data[:], true},
		{"recovery id 3", edit(func(s []byte) { s[65] = 3 }), data[:], true},
		{"recovery id 4", edit(func(s []byte) { s[65] = 4 }), data[:], false},
		{"recovery id 255", edit(func(s []byte) { s[65] = 255 }), data[:], false},
		{"31 bytes", Signature(good), data[:31], false},
		{"33 bytes", Signature(good), append(data[:], 0), false},
		{"high s", edit(func(s []byte) {
			v := new(big.Int).SetBytes(s[33:65])
			v.Sub(n, v).FillBytes(s[33:65])
		}), data[:], false},
		{"s = order", edit(func(s []byte) { n.FillBytes(s[33:65]) }), data[:], false},
		{"r = order", edit(func(s []byte) { n.FillBytes(s[1:33]) }), data[:], false},
		{"r = 0", edit(func(s []byte) { clear(s[1:33]) }), data[:], false},
		{"s = 0", edit(func(s []byte) { clear(s[33:65]) }), data[:], false},
		{"4s", Signature("\x01" + string(slices.Repeat([]byte{4}, 65))), nil, false}, // signature.rs:1382
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.sig.Verify(tt.data, sk.PublicKey()); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	var zero [64]byte
	if Signature(good).Verify(data[:], PublicKey("\x01"+string(zero[:]))) {
		t.Error("a key off the curve verifies")
	}
}

func TestMLDSA65RefusesChangedSignature(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(MLDSA65, "rules")
	sig, pk := sk.Sign([]byte("m")), sk.PublicKey()
	if !sig.Verify([]byte("m"), pk) {
		t.Error("own signature does not verify")
	}
	if sig.Verify([]byte("n"), pk) || sig.Verify([]byte("m"), SecretKeyFromSeed(MLDSA65, "other").PublicKey()) {
		t.Error("another message or key verifies")
	}
	for i := 1; i < len(sig); i += 97 {
		b := []byte(sig)
		b[i] ^= 0x10
		if Signature(b).Verify([]byte("m"), pk) {
			t.Errorf("a signature with byte %d changed verifies", i)
		}
	}
}

// TestCachedVerifyEqualsPlainVerify compares the plain and the caching check over good and damaged
// signatures.
func TestCachedVerifyEqualsPlainVerify(t *testing.T) {
	t.Parallel()
	verifier, tables := NewVerifier(8), newVerifier(8, 1, 0)
	rng := NewStdRng([32]byte{1})
	for i := range 200 {
		sk := SecretKeyFromSeed(ED25519, fmt.Sprint("agrees", i%20))
		sig, key := []byte(sk.Sign([]byte{byte(i)})), []byte(sk.PublicKey())
		want := true
		switch i % 4 {
		case 1:
			sig[1+rng.UniformUint32(64)] ^= 1 << rng.UniformUint32(8)
			want = false
		case 2:
			key[1+rng.UniformUint32(32)] ^= 1 << rng.UniformUint32(8)
			want = false
		}
		if got := Signature(sig).Verify([]byte{byte(i)}, PublicKey(key)); got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
		if got := verifier.Verify(Signature(sig), []byte{byte(i)}, PublicKey(key)); got != want {
			t.Errorf("%d: remembering: %v, want %v", i, got, want)
		}
		if got := byTable(tables, Signature(sig), []byte{byte(i)}, PublicKey(key)); got != want {
			t.Errorf("%d: by table: %v, want %v", i, got, want)
		}
	}
	if verifier.Verify("", nil, "") || Signature("").Verify(nil, ZeroED25519Key) {
		t.Error("no signature verifies")
	}
}

// TestVerifierBoundsKeysAndTables: the bounds of keys and tables hold, those in use stay, and
// messages of any length are hashed alike.
func TestVerifierBoundsKeysAndTables(t *testing.T) {
	t.Parallel()
	v := newVerifier(maxTables+40, 3, 100)
	check := func(word string, times int) {
		t.Helper()
		sk := SecretKeyFromSeed(ED25519, word)
		for i := range times {
			data := make([]byte, 64*(i%3)+i%2)
			if sig := sk.Sign(data); !v.Verify(sig, data, sk.PublicKey()) || v.Verify(sig, append(data, 0), sk.PublicKey()) {
				t.Fatalf("%s, check %d", word, i)
			}
		}
	}
	table := func(word string) bool {
		e := v.keys[SecretKeyFromSeed(ED25519, word).PublicKey()]
		return e != nil && e.Value.(*knownKey).table != nil
	}
	check("ours", 10)
	check("once", 1)
	if !table("ours") || table("once") {
		t.Fatalf("a frequent key has a table: %v; one that check twice: %v", table("ours"), table("once"))
	}
	for i := range 2 * maxTables {
		check(fmt.Sprint("other", i), 6)
		if !table(fmt.Sprint("other", i)) {
			t.Errorf("other %d has no table, though others' were not used for long", i)
		}
		check("ours", 1)
		if len(v.keys) > maxTables+40 || v.recent.Len() != len(v.keys) || len(v.tables) > maxTables || !table("ours") {
			t.Fatalf("%d keys, %d in order, %d tables; ours has one: %v", len(v.keys), v.recent.Len(), len(v.tables), table("ours"))
		}
	}
	if len(v.keys) != maxTables+40 || len(v.tables) != maxTables {
		t.Errorf("%d keys, %d tables", len(v.keys), len(v.tables))
	}
	for _, k := range v.tables {
		if v.keys[k.key] == nil || v.keys[k.key].Value != any(k) {
			t.Error("a table of a key that is forgotten")
		}
	}
	v.stale = 1 << 40
	for _, k := range v.tables {
		k.late = 40
	}
	if check("late", 35); table("late") {
		t.Error("a key has the table of one that is in use as much")
	}
	if check("late", 10); !table("late") || len(v.tables) != maxTables {
		t.Errorf("a key that comes twice as often as another has a table: %v, one of %d", table("late"), len(v.tables))
	}
	if bad := PublicKey("\x00" + string(slices.Repeat([]byte{2}, 32))); byTable(v, SecretKeyFromSeed(ED25519, "x").Sign(nil), nil, bad) || v.keys[bad] != nil {
		t.Error("what is no point verifies, or is remembered")
	}
}

// TestFrequentKeyKeepsItsTable: an attacker that keeps as many keys busy as there are tables, with
// a small part of all checks, does not keep them from a more frequent key. Keys that occur once do
// not displace one with a table.
func TestFrequentKeyKeepsItsTable(t *testing.T) {
	t.Parallel()
	const often, stale = 4, 2048
	v := newVerifier(maxTables+20, often, stale)
	check := func(word string) {
		sk := SecretKeyFromSeed(ED25519, word)
		v.known(sk.PublicKey())
	}
	table := func(word string) bool {
		e := v.keys[SecretKeyFromSeed(ED25519, word).PublicKey()]
		return e != nil && e.Value.(*knownKey).table != nil
	}
	manyKeys := func() {
		for i := range maxTables {
			check(fmt.Sprint("other", i))
		}
	}
	for range often + 1 {
		manyKeys()
	}
	if len(v.tables) != maxTables {
		t.Fatalf("other keys have %d tables", len(v.tables))
	}
	// Half of all checks are ours. Each attacker's key comes once in 128 checks: often enough to
	// stay fresh.
	for range 3 * stale / (2 * maxTables) {
		manyKeys()
		for i := range maxTables {
			check(fmt.Sprint("ours", i%4))
		}
	}
	for i := range 4 {
		if !table(fmt.Sprint("ours", i)) {
			t.Errorf("key %d, which comes 16 times as often as a other's, has no table", i)
		}
	}
	had := slices.Clone(v.tables)
	for range 4 * stale / maxTables {
		manyKeys()
	}
	if !slices.Equal(v.tables, had) && len(v.tables) != maxTables {
		t.Errorf("%d tables", len(v.tables))
	}
	made := 0
	for range 40 {
		// Each as often as the others: one more table would displace one that is used as much.
		for i := range 2 * maxTables {
			before := slices.Clone(v.tables)
			check(fmt.Sprint("turn", i%(maxTables+10)))
			if !slices.Equal(before, v.tables) {
				made++
			}
		}
	}
	if made > 2*maxTables {
		t.Errorf("keys that come in turn have driven out each other's tables %d times", made)
	}
	v = newVerifier(8, often, stale)
	for range often + 1 {
		check("ours")
	}
	for i := range 100 {
		check(fmt.Sprint("once", i))
	}
	if len(v.keys) != 8 || !table("ours") {
		t.Errorf("of %d keys ours has a table: %v, behind keys that check once", len(v.keys), table("ours"))
	}
}

func BenchmarkVerify(b *testing.B) {
	data := HashBytes([]byte("bench"))
	for _, scheme := range []KeyType{ED25519, SECP256K1, MLDSA65} {
		sk := SecretKeyFromSeed(scheme, "bench")
		sig, pk := sk.Sign(data[:]), sk.PublicKey()
		b.Run(fmt.Sprintf("scheme=%v/op=verify", scheme), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sig.Verify(data[:], pk)
			}
		})
		b.Run(fmt.Sprintf("scheme=%v/op=sign", scheme), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sk.Sign(data[:])
			}
		})
	}
	sk := SecretKeyFromSeed(ED25519, "bench")
	sig, pk := sk.Sign(data[:]), sk.PublicKey()
	b.Run("scheme=ed25519/op=verify-known-key", func(b *testing.B) {
		v := newVerifier(16, 1<<62, 0)
		b.ReportAllocs()
		for b.Loop() {
			v.Verify(sig, data[:], pk)
		}
	})
	b.Run("scheme=ed25519/op=verify-frequent-key", func(b *testing.B) {
		v := newVerifier(16, 1, 0)
		b.ReportAllocs()
		for b.Loop() {
			v.Verify(sig, data[:], pk)
		}
	})
	b.Run("scheme=ed25519/op=verify-new-key", func(b *testing.B) {
		var keys [64]PublicKey
		var sigs [64]Signature
		for i := range keys {
			sk := SecretKeyFromSeed(ED25519, fmt.Sprint(i))
			keys[i], sigs[i] = sk.PublicKey(), sk.Sign(data[:])
		}
		v, i := NewVerifier(16), 0
		b.ReportAllocs()
		for b.Loop() {
			v.Verify(sigs[i], data[:], keys[i])
			i = (i + 1) % len(keys)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{64, 300, 8192} {
		buf := make([]byte, n)
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				HashBytes(buf)
			}
		})
	}
}
