package logic

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Cases of nearcore's logic/tests with a single input: alt_bn128.rs, bls12381.rs, p256_verify.rs,
// p256_verify_wycheproof.rs, ed25519_verify.rs. TestNearcoresFilesAreReproduced of package curve
// runs the files of test vectors (ecrecover-tests.json, bls12381_test_vectors).

// littleEndian encodes hexadecimal numbers as 32 bytes each, but "0:" to "255:" as a single byte,
// like the macro le_bytes of alt_bn128.rs.
func littleEndian(t *testing.T, words string) (b []byte) {
	t.Helper()
	for _, w := range strings.Fields(words) {
		if one, ok := strings.CutSuffix(w, ":"); ok {
			var n byte
			if _, err := fmt.Sscan(one, &n); err != nil {
				t.Fatal(err)
			}
			b = append(b, n)
			continue
		}
		number := unhex(t, strings.Repeat("0", 64-len(w))+w)
		slices.Reverse(number)
		b = append(b, number...)
	}
	return b
}

func TestAltBn128MatchesNearcoresCases(t *testing.T) {
	const (
		a = "2d6b17489d86fcd5f91e8e92eb55081d8cb4413e408047249ef4fb5baa1b518b 1e4d0a30dbadd9dad40f7847c7013754ded8d0371c052d19f01453f4ae1506d7"
		b = "12b453155ca3be5d0b14a4804cc39a0b4635b06d512735350cd031051644d3ec 2944829dcfa7dd72bb04d12e46869e6a6c8162698f9a6c35724f91f597e25fc4"
		c = "26a1602aeb36e32dd1c534b1c014e920b138f4a8b87f2833ea6051c8cbd5eea2 01eb929f0ab6720df89837a84f2787d6d8a8bd97e0daab0576321d85143633ee"
		d = "15ad51e3d708bdf9ae99a3732af9354cc7b0f2ce71832b958b3e9b0215e63578 231d7b68932527abdeb71488bd5c1e339306c10490d3c65f7daaa651a367c618"
		e = "1302ac2f870ef22bdec4cd48058f309bcef761a7b40f78744157f3bbf25a016d 0c75e87050e62a4c3bf1e261da5a0f11c7ccaa090a0585365658f7a2b4b96fee"
		// c + d + e
		sum = "2ee5c54dee890fb79c9964f7a08c7295111990435dc3adff9fb6d63aadded21f 2c3fa1abf295e7df565379efcdb0398d08fc959a0a7e5d3f30118fefe9450a67"
		// points of both curves
		p  = "0763111c06b5066cc812f8e058d5b82a7bc356c83a1a5ab743ea4e7163d90a75 041068a8ed41f6755c1ad2d30aacc3974a4fae3293aee34c7103b4c073358624 "
		q  = "1f1cebcff0a999ffa7c1b582e9afd6c875760fde2679e9fd830bf3979504b04f 179fe95fb3fb3807ebbad5ed2b40ddd06f7b73525382a64a43489606b3454a53 "
		p2 = "291aea4fac742aaf8772caa00c8763d509c3d6f20d1be64d73c10d06db031a01 1de7a958e4adb3a128cd3b942b13bc85ee4124f0dee6f4266b39707c81c06fd4 " +
			"1e2d816ba8b96e5cb444883a2b095533becb805c654418fa2c65bba533a34311 195dd519dc841a301a14de412c520b858c01ccc7ba0bd4177dd85d4b116416bb "
		q2 = "201eef3c872a7313da79f6aa628cc9795314fbac78484fdae2eba5086755ad6d 204e0376b942fe92ba6e2746d07d62f5dede7b8b6e172fa89ea0c5c4ccabaa31 " +
			"00e9f62300f921f5d4f2f7008aec59449a3f5e75add585ec4eccf04f5dc5b32f 17c150f0fb2ff472816b41868b98b9170233ee4647fe4bc41a1336c9a2c6567c "
	)
	for _, test := range []struct {
		row, in, want string // want: numbers, or the result code
		err           string // part of the error text
	}{
		{"g1_multiexp:109", "", "0 0", ""},
		{"g1_multiexp:110", a + " 1", a, ""},
		{"g1_multiexp:117", b + " 112b450c0769c7cd80ffa552aaab2153adb5646664ee091639784a7f887411f7 " +
			"032b2c8b9f1e7f5e53c262ae87ccd1366df1af019f2dbfe1a58a6749ba4b923f 0017741cde8d55ccce3a1dac210f531d22f574885226ea46fbbce4a4c75f7ed8 " +
			"19e4956d3cf5e04f938bc9dee72f2fcab15934c7e0450ae15afee161606b071a",
			"2923a9d452a047e0f24ab419d7893ecbf0c32a842afd88f991a6723decba82aa 2e3a00f94191675c0730510133c2fca248160750d87b5157c534146d4d260b61", ""},
		{"g1_multiexp:126", c + " 1 " + d + " 1 " + e + " 1", sum, ""},
		{"g1_multiexp:137", "88: 88: 88: 88:", "", "slice of size 4 cannot be precisely split into chunks of size 96"},
		{"g1_multiexp:138", "92 2944829dcfa7dd72bb04d12e46869e6a6c8162698f9a6c35724f91f597e25fc4 112b450c0769c7cd80ffa552aaab2153adb5646664ee091639784a7f887411f7",
			"", "invalid g1"},
		{"g1_multiexp:142", b + " " + strings.Repeat("f", 64), "", "invalid fr"},
		{"g1_sum:173", "", "0 0", ""},
		{"g1_sum:174", "0: " + a, a, ""},
		{"g1_sum:180", "0: " + b + " 1: 032b2c8b9f1e7f5e53c262ae87ccd1366df1af019f2dbfe1a58a6749ba4b923f " +
			"304cda5602a44a5cea16280a60720540748bf609164ae0464063a772111d7e6f",
			"1e2e53eecef3185d5c874e783cb184d302692a22c20f5f3b3993882e184d8fe8 03fc2454d3d88f9eac441e9b85a9041e925f30cca7a82d039d1ffb582bfb2004", ""},
		{"g1_sum:190", "0: " + c + " 0: " + d + " 0: " + e, sum, ""},
		{"g1_sum:201", "92:", "", "slice of size 1 cannot be precisely split into chunks of size 65"},
		{"g1_sum:202", "0: 111 222", "", "invalid g1"},
		{"g1_sum:208", "92: " + b, "", "invalid bool"},
		{"pairing_check:236", "", "1", ""},
		{"pairing_check:237", p + p2 + q + q2, "1", ""},
		{"pairing_check:252", p + p2 + p + q2, "0", ""},
		{"pairing_check:268", "88: 88: 88: 88:", "", "slice of size 4 cannot be precisely split into chunks of size 192"},
		{"pairing_check:269", "0 0 0 0 0 111", "", "invalid g2"},
	} {
		t.Run(test.row, func(t *testing.T) {
			r := newHarness(t)
			s := r.put(littleEndian(t, test.in))
			name, _, _ := strings.Cut(test.row, ":")
			if name == "pairing_check" {
				got, err := r.do("alt_bn128_pairing_check", s.len, s.ptr)
				if test.err == "" && (err != nil || fmt.Sprint(got) != test.want) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
					t.Errorf("alt_bn128.rs %s: %d, %v, want %s%s", test.row, got, err, test.want, test.err)
				}
				return
			}
			_, err := r.do("alt_bn128_"+name, s.len, s.ptr, 0)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("alt_bn128.rs %s: %v, want %s", test.row, err, test.err)
				}
				return
			}
			if err != nil {
				t.Errorf("alt_bn128.rs %s: %v", test.row, err)
				return
			}
			r.wantReg(0, littleEndian(t, test.want))
		})
	}
}

// TestBLS12381MatchesNearcoresCases: the point (0, 2) is on the curve but not in the group, and p
// is not an element of the field. Inputs end at and beyond the end of the memory.
func TestBLS12381MatchesNearcoresCases(t *testing.T) {
	p := unhex(t, "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab")
	minus2 := bytes.Clone(p)
	minus2[47] -= 2
	nought := func(n int) []byte { return make([]byte, n) }
	last := func(b []byte, v byte) []byte { b[len(b)-1] = v; return b }
	one := append([]byte{1}, nought(31)...)
	generator := unhex(t, "13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e"+
		"024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"+
		"0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be"+
		"0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801")
	for _, test := range []struct {
		row, name string
		in        []byte
		fix       bool
		want      uint64
		out       []byte
	}{
		{"938 of 2", "bls12381_g1_multiexp", append(last(nought(96), 2), one...), false, 1, nil},
		{"938 of -2", "bls12381_g1_multiexp", slices.Concat(nought(48), minus2, one), false, 1, nil},
		{"927 of 2, fixed", "bls12381_g1_multiexp", append(last(nought(96), 2), one...), true, 1, nil},
		{"1105", "bls12381_map_fp_to_g1", p, false, 1, nil},
		{"1111 first", "bls12381_map_fp2_to_g2", append(p[:48:48], nought(48)...), false, 1, nil},
		{"1111 second", "bls12381_map_fp2_to_g2", append(nought(48), p...), false, 1, nil},
		{"1228", "bls12381_p1_decompress", append([]byte{0x80}, nought(47)...), false, 1, nil},
		{"1228 fixed", "bls12381_p1_decompress", append([]byte{0x80}, nought(47)...), true, 0, last(nought(96), 2)},
		{"1296", "bls12381_pairing_check", append(last(nought(96), 2), generator...), false, 1, nil},
		{"1296 fixed", "bls12381_pairing_check", append(last(nought(96), 2), generator...), true, 1, nil},
		{"1465 p1", "bls12381_g1_multiexp", nil, false, 0, append([]byte{0x40}, nought(95)...)},
		{"1465 p2", "bls12381_g2_multiexp", nil, false, 0, append([]byte{0x40}, nought(191)...)},
		{"1465 fp", "bls12381_map_fp_to_g1", nil, false, 0, []byte{}},
		{"1465 fp2", "bls12381_map_fp2_to_g2", nil, false, 0, []byte{}},
		{"1465 pairing", "bls12381_pairing_check", nil, false, 0, nil},
		{"1465 decompress p1", "bls12381_p1_decompress", nil, false, 0, []byte{}},
		{"1465 decompress p2", "bls12381_p2_decompress", nil, false, 0, []byte{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t, func(r *harness) { r.cfg.Wasm.BLS12381NotInGroupFix = test.fix })
			s := r.put(test.in)
			args := []uint64{s.len, s.ptr, 0}
			if test.name == "bls12381_pairing_check" {
				args = args[:2]
			}
			if got := r.must(test.name, args...); got != test.want {
				t.Errorf("bls12381.rs:%s: %d, want %d", test.row, got, test.want)
			}
			if test.out != nil {
				r.wantReg(0, test.out)
			}
		})
	}
	for _, test := range []struct {
		name    string
		item, n uint64 // over 64 KiB
	}{
		{"bls12381_p1_sum", 97, 676}, {"bls12381_p2_sum", 193, 340}, {"bls12381_g1_multiexp", 128, 600}, {"bls12381_g2_multiexp", 224, 300},
		{"bls12381_map_fp_to_g1", 48, 1500}, {"bls12381_map_fp2_to_g2", 96, 700}, {"bls12381_p1_decompress", 48, 1500},
		{"bls12381_p2_decompress", 96, 700}, {"bls12381_pairing_check", 288, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []uint64{test.item * test.n, 0, 0}
			if test.name == "bls12381_pairing_check" {
				args = args[:2]
			}
			r := newHarness(t, gasLimits(1_000_000*tera, 1_000_000*tera)) // nearcore's test does not say whether memory or gas ends the call
			r.fails(HostError{Kind: MemoryAccessViolation}, test.name, args...)
			args[0] = test.item - 1
			_, err := r.do(test.name, args...)
			if host := (*HostError)(nil); !errors.As(err, &host) || host.Kind != BLS12381InvalidInput {
				t.Errorf("bls12381.rs:753 %s of %d bytes: %v", test.name, test.item-1, err)
			}
		})
	}
}

func TestP256MatchesWycheproof(t *testing.T) {
	const key, zero = "022927b10512bae3eddcfe467828128bad2903269919f7086069c8c4df6c732838",
		"0000000000000000000000000000000000000000000000000000000000000000"
	for _, test := range []struct {
		row, key, msg, sig string
		want               uint64
	}{
		{"50", key, "3639383139", "64a1aab5000d0e804f3e2fc02bdee9be8ff312334e2ba16d11547c97711c898e6af015971cc30be6d1a206d4e013e0997772a2f91d73286ffd683b9bb2cf4f1b", 1},
		{"62", key, "313233343030", "2ba3a8be6b94d5ec80a6d9d1190a436effe50d85a1eee859b8cc6af9bd5c2e184cd60b855d442f5b3c7b11eb6c4e0ae7525fe710fab9aa7c77a67f79e6fadd76", 1},
		{"74", "0268ec6e298eafe16539156ce57a14b04a7047c221bafc3a582eaeb0d857c4d946", "313233343030",
			"7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a97fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a9", 1},
		{"88", key, "313233343030", zero + zero, 0},
		{"100", key, "313233343030", zero[1:] + "1" + zero, 0},
		{"112", key, "313233343030", "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551" + zero, 0},
		{"124", key, "313233343030", "d45c5740946b2a147f59262ee6f5bc90bd01ed280528b62b3aed5fc93f06f739b329f479a2bbd0a5c384ee1493b1f5186a87139cac5df4087c134b49156847db", 0},
		{"136", "05" + key[2:], "313233343030", "2ba3a8be6b94d5ec80a6d9d1190a436effe50d85a1eee859b8cc6af9bd5c2e184cd60b855d442f5b3c7b11eb6c4e0ae7525fe710fab9aa7c77a67f79e6fadd76", 0},
	} {
		t.Run(test.row, func(t *testing.T) {
			r := newHarness(t)
			hash := primitives.HashBytes(unhex(t, test.msg))
			sig, msg, key := r.put(unhex(t, test.sig)), r.put(hash[:]), r.put(unhex(t, test.key))
			if got := r.must("p256_verify", sig.len, sig.ptr, msg.len, msg.ptr, key.len, key.ptr); got != test.want {
				t.Errorf("p256_verify_wycheproof.rs:%s: %d, want %d", test.row, got, test.want)
			}
		})
	}
}

// TestVerifyRefusesMalformedInput covers the cases that TestVerifyChecksSignatureAndCosts does not
// apply to both schemes.
func TestVerifyRefusesMalformedInput(t *testing.T) {
	sign := func(secret string, msg []byte) (sig, key []byte) {
		k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unhex(t, secret))
		if err != nil {
			t.Fatal(err)
		}
		der, err := k.Sign(nil, msg, crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		var rs struct{ R, S *big.Int }
		if _, err := asn1.Unmarshal(der, &rs); err != nil {
			t.Fatal(err)
		}
		sig = make([]byte, 64)
		rs.R.FillBytes(sig[:32])
		rs.S.FillBytes(sig[32:])
		point, err := k.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return sig, append([]byte{2 + point[64]&1}, point[1:33]...)
	}
	long := make([]byte, 256)
	for i := range long {
		long[i] = byte(i)
	}
	const secret = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"
	sig, key := sign(secret, long[:32]) // only the first 32 bytes are read
	_, other := sign("112233445566778899aabbccddeeff0102030405060708090a0b0c0d0e0f1021", long[:32])
	for _, test := range []struct {
		row   string
		bytes uint64
		key   []byte
		want  uint64
	}{{"p256_verify.rs:149", 32, other, 0}, {"p256_verify.rs:292", 256, key, 1}, {"p256_verify.rs:292, another message", 256, other, 0}} {
		t.Run(test.row, func(t *testing.T) {
			r := newHarness(t)
			s, m, k := r.put(sig), r.put(long[:test.bytes]), r.put(test.key)
			if got := r.must("p256_verify", s.len, s.ptr, m.len, m.ptr, k.len, k.ptr); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
			r.wantCosts(costs{
				parameters.ExtReadMemoryBase: 3, parameters.ExtReadMemoryByte: 64 + test.bytes + 33, parameters.ExtP256VerifyBase: 1, parameters.ExtP256VerifyByte: test.bytes,
			})
		})
	}
	// p256_verify.rs:426, ed25519_verify.rs:217: one byte in a register; writing the register costs
	// gas as well.
	for _, v := range verifications(t) {
		for in, text := range []string{"invalid signature length", "", "invalid public key length"} {
			if text == "" {
				continue
			}
			r := newHarness(t)
			if err := r.setReg(1, []byte{0}); err != nil {
				t.Fatal(err)
			}
			s, m, k := r.put(v.sig), r.put(v.msg), r.put(v.key)
			want := costs{
				parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: 1, parameters.ExtReadRegisterBase: 1, parameters.ExtReadRegisterByte: 1, v.base: 1,
			}
			if in == 0 {
				s = slice{1, inRegister}
			} else {
				k = slice{1, inRegister}
				want[parameters.ExtReadMemoryBase], want[parameters.ExtReadMemoryByte], want[v.perByte] = 2, 96, 32
			}
			r.fails(HostError{Kind: v.kind, Text: text}, v.fn, s.len, s.ptr, m.len, m.ptr, k.len, k.ptr)
			r.wantCosts(want)
		}
	}
}
