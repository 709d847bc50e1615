package logic

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of the prices of the cryptographic functions, and of the order of charges and checks
// (nearcore logic/tests/miscs.rs, ed25519_verify.rs, p256_verify.rs, alt_bn128.rs, bls12381.rs).
// Package curve tests the results.

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHashesMatchAndAreCharged(t *testing.T) {
	for _, test := range []struct {
		name          string
		base, perByte parameters.ExtCost
		units         uint64
		want          string
	}{
		{"sha256", parameters.ExtSHA256Base, parameters.ExtSHA256Byte, 7, "12b0739c2d64f184b4864d2a696fc77f76705cff582b53937a371a242a9ca09e"},
		{"keccak256", parameters.ExtKeccak256Base, parameters.ExtKeccak256Byte, 7, "686e3a7ae6b5d791e7e531a27ba7b13a1a8e81ad0725091ae97340663d550a9f"},
		{"keccak512", parameters.ExtKeccak512Base, parameters.ExtKeccak512Byte, 7, "37866089a87abb5f434c127a920be16a75c29a9d30a05a9268d1767edee6c87d" +
			"3049c5ec7badc0c55a99a7796458d1f08956ef295780dbf988cbdc6d2ea8eabe"},
		// Added by version 87: the same file of the crate near-vm-runner 0.38.0.
		{"sha3_256", parameters.ExtSHA3x256Base, parameters.ExtSHA3x256Byte, 7, "ae2ab8867168e6b4f44df048c72a6eb206a8794d1bb7996cc5ab4e3dba85c1b6"},
		{"sha3_384", parameters.ExtSHA3x384Base, parameters.ExtSHA3x384Byte, 7, "f2d71896cef4f4b14bc4444005697fe88b2c85a01f5b80db875ee7826e3ebd4e" +
			"765f47b247f541d49908c474433653f0"},
		{"sha3_512", parameters.ExtSHA3x512Base, parameters.ExtSHA3x512Byte, 7, "85c4301ecbeec29ebaf676ee2a9ed41bb2485ae5626cc3dddea160dbfc630230" +
			"e00f5fdc23d11bfa2ba8fa0a15196187eb3d058eb65524b3177ea10e1576b4e7"},
		{"ripemd160", parameters.ExtRipemd160Base, parameters.ExtRipemd160Block, 1, "15669c73e8033ad72354811e8f56d46846610ee1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := unhex(t, test.want)
			n := uint64(len(want))
			r := newHarness(t)
			s := r.putString("tesdsst")
			r.must(test.name, s.len, s.ptr, 0)
			r.wantReg(0, want)
			r.wantCosts(costs{
				parameters.ExtBase: 2, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 7, parameters.ExtWriteMemoryBase: 1,
				parameters.ExtWriteMemoryByte: n, parameters.ExtReadRegisterBase: 1, parameters.ExtReadRegisterByte: n, parameters.ExtWriteRegisterBase: 1,
				parameters.ExtWriteRegisterByte: n, test.base: 1, test.perByte: test.units,
			})
			// The result overwrites the register of the argument.
			if err := r.setReg(1, []byte("tesdsst")); err != nil {
				t.Fatal(err)
			}
			r.paid = r.gas.ext
			r.must(test.name, inRegister, 1, 1)
			r.wantCosts(costs{
				parameters.ExtReadRegisterBase: 1, parameters.ExtReadRegisterByte: 7, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: n,
				test.base: 1, test.perByte: test.units,
			})
			r.wantReg(1, want)
		})
	}
	// From 56 bytes on the padding takes another block.
	for n, blocks := range map[uint64]uint64{0: 1, 55: 1, 56: 2, 119: 2, 120: 3} {
		r := newHarness(t)
		r.must("ripemd160", n, 0, 0)
		if got := uint64(r.gas.ext[parameters.ExtRipemd160Block] / r.cfg.Wasm.Ext[parameters.ExtRipemd160Block].Gas); got != blocks {
			t.Errorf("ripemd160 of %d bytes: %d blocks, want %d", n, got, blocks)
		}
	}
}

func TestECRecoverMatchesAndRefusesBadInput(t *testing.T) {
	hash := unhex(t, "ce0677bb30baa8cf067c88db9811f4333d131bf8bcf12fe7065d211dce971008")
	sig := unhex(t, "90f27b8b488db00b00606796d2987f6a5f59ae62ea05effe84fef5b8b0e549984a691139ad57a3f0b906637673aa2f63d1f55cb1a69199d4009eea23ceaddc93")
	key := unhex(t, "e32df42865e97135acfb65f3bae71bdc86f4d49150ad6a440b6f15878109880a0a2b2667f7e725ceea70c673093bf67663e0312623c8e091b13cf2c0f11ef652")
	r := newHarness(t)
	h, s := r.put(hash), r.put(sig)
	if got := r.must("ecrecover", h.len, h.ptr, s.len, s.ptr, 1, 1, 1); got != 1 {
		t.Fatalf("recovered %d", got)
	}
	r.wantCosts(costs{
		parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 96, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: 64,
		parameters.ExtEcrecoverBase: 1,
	})
	r.wantReg(1, key)
	r.paid = r.gas.ext
	zero := slice{uint64(len(r.Memory) - 64), 64}
	clear(r.Memory[zero.ptr:])
	if got := r.must("ecrecover", h.len, h.ptr, zero.len, zero.ptr, 0, 0, 2); got != 0 || r.must("register_len", 2) != inRegister {
		t.Errorf("recovered %d from zeros", got)
	}
	short := costs{parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 96, parameters.ExtEcrecoverBase: 1}
	r.wantCosts(short)
	text := func(s string) HostError { return HostError{Kind: ECRecoverError, Text: s} }
	r.fails(text("The length of the signature: 63, exceeds the limit of 64 bytes"), "ecrecover", h.len, 1<<40, 63, s.ptr, 9, 9, 0)
	r.fails(text("V recovery byte 0 through 3 are valid but was provided 4"), "ecrecover", h.len, 1<<40, 64, s.ptr, 4, 9, 0)
	r.wantCosts(costs{parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 127, parameters.ExtEcrecoverBase: 2})
	r.fails(text("The length of the hash: 33, exceeds the limit of 32 bytes"), "ecrecover", 33, h.ptr, 64, s.ptr, 3, 9, 0)
	r.fails(text("Malleability flag needs to be 0 or 1, but is instead 2"), "ecrecover", 32, h.ptr, 64, s.ptr, 3, 2, 0)
}

// verification is a signature scheme with a valid signature, message and key.
type verification struct {
	fn            string
	base, perByte parameters.ExtCost
	kind          HostErrorKind
	sig, msg, key []byte
	early         []byte // a signature that is rejected before the message is read
	notAPoint     []byte // a key that is not a point of the curve
}

func verifications(t *testing.T) []verification {
	edSig := unhex(t, "91c1cb1272e30e7521d57942820e190424782e8ee2d707427a70611ef9873da5ddf9fc17692838461f98ec8d9a7acf144b764f5aa806dd7ad51d7ec4d868bf06")
	edKey := unhex(t, "207a067892821e25d770f1fba0c47c11ff4b813e54162ece9eb839e076231ab6")
	forged, notEd := bytes.Clone(edSig), bytes.Clone(edKey)
	forged[63], notEd[31] = 0xe1, 0xe1

	raw := unhex(t, "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	secret, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		t.Fatal(err)
	}
	msg := bytes.Repeat([]byte{7}, 32)
	der, err := secret.Sign(nil, msg, crypto.SHA256) // deterministic without a random source
	if err != nil {
		t.Fatal(err)
	}
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &rs); err != nil {
		t.Fatal(err)
	}
	p256Sig := make([]byte, 64)
	rs.R.FillBytes(p256Sig[:32])
	rs.S.FillBytes(p256Sig[32:])
	uncompressed, err := secret.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	p256Key := append([]byte{2 + uncompressed[64]&1}, uncompressed[1:33]...)
	return []verification{
		{"ed25519_verify", parameters.ExtEd25519VerifyBase, parameters.ExtEd25519VerifyByte, Ed25519VerifyInvalidInput,
			edSig, []byte("kajdlfkjalkfjaklfjdkladjfkljadsk"), edKey, forged, notEd},
		{"p256_verify", parameters.ExtP256VerifyBase, parameters.ExtP256VerifyByte, P256VerifyInvalidInput,
			p256Sig, msg, p256Key, make([]byte, 64), make([]byte, 33)},
	}
}

func TestVerifyChecksSignatureAndCosts(t *testing.T) {
	for _, v := range verifications(t) {
		other := bytes.Clone(v.msg)
		other[0] ^= 1
		bad := bytes.Repeat([]byte{1}, 64)
		const (
			nothing = iota // is read after the signature
			message
			all
		)
		for _, test := range []struct {
			name          string
			sig, msg, key []byte
			want          uint64
			err           string
			read          int
		}{
			{"good", v.sig, v.msg, v.key, 1, "", all},
			{"another message", v.sig, other, v.key, 0, "", all},
			{"no message", v.sig, nil, v.key, 0, "", all},
			{"another signature", bad, v.msg, v.key, 0, "", all},
			{"no such signature", v.early, v.msg, v.key, 0, "", nothing},
			{"no such signature, no message", v.early, nil, v.key, 0, "", nothing},
			{"not a point", v.sig, v.msg, v.notAPoint, 0, "", all},
			{"short signature", v.sig[1:], v.msg, v.key, 0, "invalid signature length", nothing},
			{"empty signature", nil, v.msg, v.key, 0, "invalid signature length", nothing},
			{"short key", v.sig, v.msg, v.key[1:], 0, "invalid public key length", all},
		} {
			for in := range 8 { // bits: which of signature, message and key are in a register
				r := newHarness(t)
				want := costs{v.base: 1}
				args := []uint64(nil)
				for i, b := range [][]byte{test.sig, test.msg, test.key} {
					n := uint64(len(b))
					if in>>i&1 == 0 {
						s := r.put(b)
						args = append(args, s.len, s.ptr)
						if i == 0 || test.read == all {
							want[parameters.ExtReadMemoryBase]++
							want[parameters.ExtReadMemoryByte] += n
						}
						continue
					}
					if err := r.setReg(uint64(i), b); err != nil {
						t.Fatal(err)
					}
					args = append(args, inRegister, uint64(i))
					if i == 0 || test.read == all {
						want[parameters.ExtReadRegisterBase]++
						want[parameters.ExtReadRegisterByte] += n
					}
				}
				if test.read == all {
					want[v.perByte] = uint64(len(test.msg))
				}
				r.paid = r.gas.ext
				got, err := r.do(v.fn, args...)
				r.wantCosts(want)
				if test.err != "" {
					if !errors.Is(err, &HostError{Kind: v.kind, Text: test.err}) {
						t.Errorf("%s, %s: %v", v.fn, test.name, err)
					}
				} else if got != test.want || err != nil {
					t.Errorf("%s, %s: %d, %v", v.fn, test.name, got, err)
				}
			}
		}
	}
}

// mlDSA65 returns a valid signature, message and key, made without a random source.
func mlDSA65(t *testing.T) (sig, msg, key []byte) {
	t.Helper()
	pk, sk := mldsa65.NewKeyFromSeed(&[mldsa65.SeedSize]byte{7})
	sig, msg = make([]byte, mldsa65.SignatureSize), []byte("a message")
	if err := mldsa65.SignTo(sk, msg, nil, false, sig); err != nil {
		t.Fatal(err)
	}
	return sig, msg, pk.Bytes()
}

// TestMLDSAVerifyChecksSignatureAndCosts tests a function that version 87 added (crate
// near-vm-runner 0.38.0, logic/tests/ml_dsa_verify.rs).
func TestMLDSAVerifyChecksSignatureAndCosts(t *testing.T) {
	sig, msg, key := mlDSA65(t)
	bad := bytes.Clone(sig)
	bad[5] ^= 1
	for _, test := range []struct {
		sig, msg, key []byte
		want          uint64
		err           string
		read          int // how many of signature, message and key are read
	}{
		{sig, msg, key, 1, "", 3},
		{bad, msg, key, 0, "", 3},
		{sig, nil, key, 0, "", 3},
		{sig, msg, make([]byte, len(key)), 0, "", 3},
		{sig[1:], msg, key, 0, "invalid signature length: expected the input of 3309 bytes, but 3308 was given", 1},
		{sig, msg, key[1:], 0, "invalid key length: expected the input of 1952 bytes, but 1951 was given", 3},
	} {
		r := newHarness(t)
		args, read := []uint64(nil), uint64(0)
		for i, b := range [][]byte{test.sig, test.msg, test.key} {
			s := r.put(b)
			if args = append(args, s.len, s.ptr); i < test.read {
				read += s.len
			}
		}
		got, err := r.do("ml_dsa_verify", args...)
		if test.err != "" {
			if want := (HostError{Kind: MLDSAVerifyInvalidInput, Text: test.err}); !errors.Is(err, &want) {
				t.Errorf("%v, want %v", err, &want)
			}
		} else if got != test.want || err != nil {
			t.Errorf("%d, %v, want %d", got, err, test.want)
		}
		want := costs{parameters.ExtMLDSAVerifyBase: 1, parameters.ExtReadMemoryBase: uint64(test.read), parameters.ExtReadMemoryByte: read}
		if test.read == 3 {
			want[parameters.ExtMLDSAVerifyByte] = uint64(len(test.msg))
		}
		r.wantCosts(want)
	}
}

func TestAltBn128ResultsAndCosts(t *testing.T) {
	le := func(numbers ...string) (b []byte) {
		for _, n := range numbers {
			raw := make([]byte, 32)
			x, _ := new(big.Int).SetString(n, 16)
			x.FillBytes(raw)
			for i := range raw {
				b = append(b, raw[31-i])
			}
		}
		return b
	}
	point := []string{"2d6b17489d86fcd5f91e8e92eb55081d8cb4413e408047249ef4fb5baa1b518b", "1e4d0a30dbadd9dad40f7847c7013754ded8d0371c052d19f01453f4ae1506d7"}
	ones := strings.Repeat("f", 64)
	for _, test := range []struct {
		fn            string
		base, element parameters.ExtCost
		in            []byte
		n             uint64 // number of elements that are paid for
		out           []byte
		err           string // prefix of the error text
	}{
		{"alt_bn128_g1_multiexp", parameters.ExtAltBn128G1MultiexpBase, parameters.ExtAltBn128G1MultiexpElement, nil, 0, le("0", "0"), ""},
		{"alt_bn128_g1_multiexp", parameters.ExtAltBn128G1MultiexpBase, parameters.ExtAltBn128G1MultiexpElement, le(point[0], point[1], "1"), 1, le(point...), ""},
		{"alt_bn128_g1_multiexp", parameters.ExtAltBn128G1MultiexpBase, parameters.ExtAltBn128G1MultiexpElement, []byte("XXXX"), 0, nil,
			"AltBn128 invalid input: slice of size 4 cannot be precisely split into chunks of size 96"},
		{"alt_bn128_g1_multiexp", parameters.ExtAltBn128G1MultiexpBase, parameters.ExtAltBn128G1MultiexpElement, le(point[0], point[1], ones), 1, nil,
			"AltBn128 invalid input: invalid fr"},
		{"alt_bn128_g1_sum", parameters.ExtAltBn128G1SumBase, parameters.ExtAltBn128G1SumElement, append([]byte{0}, le(point...)...), 1, le(point...), ""},
		{"alt_bn128_g1_sum", parameters.ExtAltBn128G1SumBase, parameters.ExtAltBn128G1SumElement, append([]byte{92}, le(point...)...), 1, nil,
			"AltBn128 invalid input: invalid bool"},
		{"alt_bn128_g1_sum", parameters.ExtAltBn128G1SumBase, parameters.ExtAltBn128G1SumElement, append([]byte{0}, le("111", "222")...), 1, nil,
			"AltBn128 invalid input: invalid g1"},
		{"alt_bn128_pairing_check", parameters.ExtAltBn128PairingCheckBase, parameters.ExtAltBn128PairingCheckElement, nil, 0, nil, ""},
		{"alt_bn128_pairing_check", parameters.ExtAltBn128PairingCheckBase, parameters.ExtAltBn128PairingCheckElement, le("0", "0", "0", "0", "0", "111"), 1, nil,
			"AltBn128 invalid input: invalid g2"},
	} {
		r := newHarness(t)
		s := r.put(test.in)
		args := []uint64{s.len, s.ptr, 0}
		if test.fn == "alt_bn128_pairing_check" {
			args = args[:2]
		}
		got, err := r.do(test.fn, args...)
		want := costs{test.base: 1, test.element: test.n, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: s.len}
		if test.out != nil {
			want[parameters.ExtWriteRegisterBase], want[parameters.ExtWriteRegisterByte] = 1, 64
		}
		r.wantCosts(want)
		switch {
		case test.err != "":
			if err == nil || !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("%s of %x: %v", test.fn, test.in, err)
			}
		case err != nil:
			t.Errorf("%s of %x: %v", test.fn, test.in, err)
		case test.out != nil:
			r.wantReg(0, test.out)
		case got != 1:
			t.Errorf("%s of %x: %d", test.fn, test.in, got)
		}
	}
}

// TestBLS12381ElementsArePaidBeforeReading: elements are paid for by the given length before they
// are read. The length that means a register stands for too many elements.
func TestBLS12381ElementsArePaidBeforeReading(t *testing.T) {
	for _, test := range []struct {
		fn            string
		base, element parameters.ExtCost
		item, out     int // in bytes; out: of the result without elements
		each          int // bytes of the result for each element
	}{
		{"bls12381_p1_sum", parameters.ExtBls12381P1SumBase, parameters.ExtBls12381P1SumElement, 97, 96, 0},
		{"bls12381_p2_sum", parameters.ExtBls12381P2SumBase, parameters.ExtBls12381P2SumElement, 193, 192, 0},
		{"bls12381_g1_multiexp", parameters.ExtBls12381G1MultiexpBase, parameters.ExtBls12381G1MultiexpElement, 128, 96, 0},
		{"bls12381_g2_multiexp", parameters.ExtBls12381G2MultiexpBase, parameters.ExtBls12381G2MultiexpElement, 224, 192, 0},
		{"bls12381_map_fp_to_g1", parameters.ExtBls12381MapFpToG1Base, parameters.ExtBls12381MapFpToG1Element, 48, 0, 96},
		{"bls12381_map_fp2_to_g2", parameters.ExtBls12381MapFp2ToG2Base, parameters.ExtBls12381MapFp2ToG2Element, 96, 0, 192},
		{"bls12381_p1_decompress", parameters.ExtBls12381P1DecompressBase, parameters.ExtBls12381P1DecompressElement, 48, 0, 96},
		{"bls12381_p2_decompress", parameters.ExtBls12381P2DecompressBase, parameters.ExtBls12381P2DecompressElement, 96, 0, 192},
	} {
		r := newHarness(t)
		if got := r.must(test.fn, 0, 0, 0); got != 0 || r.must("register_len", 0) != uint64(test.out) {
			t.Errorf("%s of nothing: %d, %d bytes", test.fn, got, r.must("register_len", 0))
		}
		r.paid = r.gas.ext
		item := uint64(test.item)
		_, err := r.do(test.fn, 2*item+1, 0, 0)
		var host *HostError
		if !errors.As(err, &host) || host.Kind != BLS12381InvalidInput {
			t.Errorf("%s of a wrong length: %v", test.fn, err)
		}
		r.wantCosts(costs{test.base: 1, test.element: 2, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 2*item + 1})
		ones := r.put(bytes.Repeat([]byte{0xff}, test.item))
		if got := r.must(test.fn, item, ones.ptr, 7); got != 1 || r.must("register_len", 7) != inRegister {
			t.Errorf("%s of ones: %d", test.fn, got)
		}
		r.paid = r.gas.ext
		if err := r.setReg(1, nil); err != nil {
			t.Fatal(err)
		}
		r.paid = r.gas.ext
		r.fails(HostError{Kind: IntegerOverflow}, test.fn, inRegister, 1, 0)
		r.wantCosts(costs{test.base: 1})
		if strings.Contains(test.fn, "map") { // zero is an element of the field
			zero := slice{ptr: 1 << 15, len: item}
			if got := r.must(test.fn, zero.len, zero.ptr, 2); got != 0 || r.must("register_len", 2) != uint64(test.each) {
				t.Errorf("%s of zero: %d", test.fn, got)
			}
		}
	}
	r := newHarness(t)
	if err := r.setReg(1, nil); err != nil {
		t.Fatal(err)
	}
	r.paid = r.gas.ext
	if got := r.must("bls12381_pairing_check", inRegister, 1); got != 0 {
		t.Errorf("pairing check of nothing: %d", got)
	}
	r.wantCosts(costs{parameters.ExtBls12381PairingBase: 1, parameters.ExtReadRegisterBase: 1})
	if got := r.must("bls12381_pairing_check", 288, 0); got != 1 { // zeros are not points
		t.Errorf("pairing check of zeros: %d", got)
	}
	r.wantCosts(costs{parameters.ExtBls12381PairingBase: 1, parameters.ExtBls12381PairingElement: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 288})
}
