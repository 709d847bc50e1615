package primitives

import (
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"slices"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// speccheck are the twelve cases of "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko 2020)
// with the results of ed25519-dalek's plain verify.
var speccheck = []struct {
	message, key, signature string
	want                    bool
}{
	{"8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a0000000000000000000000000000000000000000000000000000000000000000", true},
	{"9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04", true},
	{"aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e", true},
	{"9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009", true},
	{"e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed5125ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09", false},
	{"e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405", false},
	{"85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
		"442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
		"e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514", false},
	{"85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
		"442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
		"8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa19427e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22", false},
	{"9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff03be9678ac102edcd92b0210bb34d7428d12ffc5df5f37e359941266a4e35f0f", false},
	{"9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffca8c5b64cd208982aa38d4936621a4775aa233aa0505711d8fdcfdaa943d4908", false},
	{"e96b7021eb39c1a163b6da4e3093dcd3f21387da4cc4572be588fafae23c155b",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dca5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04", false},
	{"39a591f5321bbe07fd5a23dc2f39d025d74526615746727ceefd6e82ae65c06f",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dca5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04", true},
}

// ways checks a signature in all ways, which must agree: without a cache, with a cached key, with a
// table.
func ways(t *testing.T, s Signature, data []byte, key PublicKey) bool {
	t.Helper()
	want := s.Verify(data, key)
	if got := byTable(newVerifier(1, 1, 0), s, data, key); got != want {
		t.Errorf("%v by memory and by table, %v without: signature %x, message %x, key %x", got, want, string(s), data, string(key))
	}
	if len(s) == 65 && len(key) == 33 {
		if got := ed25519.Verify([]byte(key[1:]), data, []byte(s[1:])); got != want {
			t.Errorf("%v by crypto/ed25519, %v here: signature %x, message %x, key %x", got, want, string(s), data, string(key))
		}
	}
	return want
}

func TestSpeccheckResultsAreDaleks(t *testing.T) {
	t.Parallel()
	for i, c := range speccheck {
		if got := ways(t, Signature("\x00"+string(mustHex(c.signature))), mustHex(c.message), PublicKey("\x00"+string(mustHex(c.key)))); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

// TestSignatureOfOtherLengthIsInvalid: a signature that is too short or too long is invalid,
// whatever is cached of its key, even if zeros would make it valid.
func TestSignatureOfOtherLengthIsInvalid(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(ED25519, "short")
	short := 0
	for i := 0; short < 3; i++ {
		data := fmt.Append(nil, i)
		s := sk.Sign(data)
		if ways(t, s+"\x00", data, sk.PublicKey()) {
			t.Error("a signature with another byte is valid")
		}
		if s[64] != 0 {
			continue
		}
		short++
		if ways(t, s[:64], data, sk.PublicKey()) {
			t.Error("a signature without its last byte is valid")
		}
	}
}

// FuzzWays: all ways agree on signatures with flipped bits and parts of small order.
func FuzzWays(f *testing.F) {
	f.Add([]byte("seed"), []byte("message"), uint16(0), uint16(0), uint8(0), uint8(0))
	f.Add([]byte("seed"), []byte("message"), uint16(3), uint16(0), uint8(4), uint8(5))
	f.Add([]byte{}, []byte{}, uint16(0), uint16(777), uint8(20), uint8(9))
	f.Fuzz(func(t *testing.T, seed, data []byte, flip, flip2 uint16, onKey, onR uint8) {
		small := func(i uint8) *curve.EdwardsPoint {
			var c curve.CompressedEdwardsY
			copy(c[:], mustHex(torsionPoints[int(i)%len(torsionPoints)]))
			p := curve.NewEdwardsPoint()
			if _, err := p.SetCompressedY(&c); err != nil {
				t.Fatal(err)
			}
			return p
		}
		wide := sha512.Sum512(seed)
		secret, _ := scalar.NewFromBytesModOrderWide(wide[:])
		wide = sha512.Sum512(wide[:])
		nonce, _ := scalar.NewFromBytesModOrderWide(wide[:])
		if onKey >= 128 {
			secret = scalar.New()
		}
		if onR >= 128 {
			nonce = scalar.New()
		}
		encoded := func(n *scalar.Scalar, with uint8) []byte {
			if n.Equal(scalar.New()) == 1 { // in any encoding
				return mustHex(torsionPoints[int(with)%len(torsionPoints)])
			}
			p := curve.NewEdwardsPoint().MulBasepoint(curve.ED25519_BASEPOINT_TABLE, n)
			var c curve.CompressedEdwardsY
			c.SetEdwardsPoint(p.Add(p, small(with)))
			return c[:]
		}
		a, r := encoded(secret, onKey), encoded(nonce, onR)
		wide = sha512.Sum512(slices.Concat(r, a, data))
		k, _ := scalar.NewFromBytesModOrderWide(wide[:])
		s := scalar.New().Mul(k, secret)
		s.Add(s, nonce)
		end := make([]byte, 32)
		if err := s.ToBytes(end); err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(r, end, a)
		for _, bit := range []uint16{flip, flip2} {
			if bit > 0 {
				all[int(bit/8)%96] ^= 1 << (bit % 8)
			}
		}
		ways(t, Signature("\x00"+string(all[:64])), data, PublicKey("\x00"+string(all[64:])))
	})
}
