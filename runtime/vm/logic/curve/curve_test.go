package curve

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

// TestHashesMatchStandards checks the hashes of "tesdsst", which are those of nearcore's
// logic/tests/miscs.rs, and of the empty input, which are those of the standards.
func TestHashesMatchStandards(t *testing.T) {
	sum := func(name string, got []byte, want string) {
		if hex.EncodeToString(got) != want {
			t.Errorf("%s = %x, want %s", name, got, want)
		}
	}
	in := []byte("tesdsst")
	s, k, k5, r := SHA256(in), Keccak256(in), Keccak512(in), RIPEMD160(in)
	sum("sha256", s[:], "12b0739c2d64f184b4864d2a696fc77f76705cff582b53937a371a242a9ca09e")
	sum("keccak256", k[:], "686e3a7ae6b5d791e7e531a27ba7b13a1a8e81ad0725091ae97340663d550a9f")
	sum("keccak512", k5[:], "37866089a87abb5f434c127a920be16a75c29a9d30a05a9268d1767edee6c87d3049c5ec7badc0c55a99a7796458d1f08956ef295780dbf988cbdc6d2ea8eabe")
	sum("ripemd160", r[:], "15669c73e8033ad72354811e8f56d46846610ee1")
	s, k, k5, r = SHA256(nil), Keccak256(nil), Keccak512(nil), RIPEMD160(nil)
	sum("sha256", s[:], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	sum("keccak256", k[:], "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")
	sum("keccak512", k5[:], "0eab42de4c3ceb9235fc91acffe746b29c29a8c366b7c60e4e67c466f36a4304c00fa9caf9d87976ba469bcbe06713b435f091ef2769fb160cdab33d3670680e")
	sum("ripemd160", r[:], "9c1185a5c5e9fc54612808977ee8f548b2258d31")
	s3, s4, s5 := SHA3_256(nil), SHA3_384(nil), SHA3_512(nil)
	sum("sha3_256", s3[:], "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a")
	sum("sha3_384", s4[:], "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2ac3713831264adb47fb6bd1e058d5f004")
	sum("sha3_512", s5[:], "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a615b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26")
}

// TestInvalidInputHasNeardsError checks the texts of neard's errors.
func TestInvalidInputHasNeardsError(t *testing.T) {
	_, sig := Ed25519Signature(make([]byte, 63))
	_, p256 := P256Signature(make([]byte, 65))
	_, bn := AltBN128G1MultiexpElements(make([]byte, 97))
	_, _, bls := BLS12381G1Multiexp(make([]byte, 129), false)
	_, sign := AltBN128G1Sum(append([]byte{2}, make([]byte, 64)...))
	_, g1 := AltBN128G1Sum(append([]byte{0, 0xab}, make([]byte, 63)...))
	for _, c := range []struct {
		err  error
		want string
	}{
		{ECRecoverSignature(make([]byte, 65), 9), "The length of the signature: 65, exceeds the limit of 64 bytes"},
		{ECRecoverSignature(make([]byte, 64), 4), "V recovery byte 0 through 3 are valid but was provided 4"},
		{ECRecoverHash(make([]byte, 31)), "The length of the hash: 31, exceeds the limit of 32 bytes"},
		{ECRecoverFlag(2), "Malleability flag needs to be 0 or 1, but is instead 2"},
		{sig, "invalid signature length"},
		{Ed25519Key(make([]byte, 33)), "invalid public key length"},
		{p256, "invalid signature length"},
		{P256Key(make([]byte, 32)), "invalid public key length"},
		{MLDSASignature(make([]byte, 5)), "invalid signature length: expected the input of 3309 bytes, but 5 was given"},
		{MLDSAKey(make([]byte, 1951)), "invalid key length: expected the input of 1952 bytes, but 1951 was given"},
		{bn, "slice of size 97 cannot be precisely split into chunks of size 96"},
		{bls, "Incorrect input length for bls12381_p1_multiexp: 129 is not divisible by 128"},
		{sign, "invalid bool: [2]"},
		{g1, "invalid g1: [AB" + strings.Repeat(", 0", 63) + "]"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("error = %v, want %s", c.err, c.want)
		}
		if _, ok := c.err.(InvalidInput); !ok {
			t.Errorf("%T, want InvalidInput", c.err)
		}
	}
	if err := ECRecoverSignature(make([]byte, 64), 3); err != nil {
		t.Error(err)
	}
}

// TestMLDSARefusesAnyChangedByte: a signature is valid, and is not if any byte of it, of the
// message or of the key is changed (logic/tests/ml_dsa_verify.rs of later versions does the same).
func TestMLDSARefusesAnyChangedByte(t *testing.T) {
	m := newMaker(t, 1)
	pub, key, err := mldsa65.GenerateKey(m)
	if err != nil {
		t.Fatal(err)
	}
	msg, sig := []byte("message"), make([]byte, mldsa65.SignatureSize)
	if err := mldsa65.SignTo(key, msg, nil, false, sig); err != nil {
		t.Fatal(err)
	}
	raw := pub.Bytes()
	if !MLDSAVerify(sig, msg, raw) {
		t.Error("a good signature is refused")
	}
	for i, part := range [][]byte{sig, msg, raw} {
		for range 20 {
			at, bit := m.Intn(len(part)), byte(1)<<m.Intn(8)
			part[at] ^= bit
			if MLDSAVerify(sig, msg, raw) {
				t.Errorf("byte %d of part %d changed, and the signature still holds", at, i)
			}
			part[at] ^= bit
		}
	}
	if MLDSAVerify(sig[1:], msg, raw) || MLDSAVerify(sig, msg, raw[1:]) {
		t.Error("short arguments hold")
	}
}

// TestLargeInputsTakeLinearTime: the largest inputs that a contract can pay for, and larger ones,
// work, and the time stays linear.
func TestLargeInputsTakeLinearTime(t *testing.T) {
	m := newMaker(t, 2)
	p := slices.Repeat(append([]byte{0}, m.blsG1()...), 2000)
	if _, ok, err := BLS12381P1Sum(p, false); !ok || err != nil {
		t.Errorf("sum of 2000 points: %v %v", ok, err)
	}
	if ok, err := AltBN128PairingCheck(make([]byte, 192*2000)); !ok || err != nil {
		t.Errorf("2000 pairs at infinity: %v %v", ok, err)
	}
}

// FuzzFunctions: no input makes a function panic, change its input, or return two different
// results. The first byte selects the function. The rest is its argument, or is split into three
// arguments at positions that the next two bytes give.
func FuzzFunctions(f *testing.F) {
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	m := newMaker(f, 3)
	for i := range 90 {
		in := m.next(i)
		name, _ := strings.CutSuffix(in.name, "+fix")
		seed := []byte{byte(slices.Index(names, name)), 0, 0}
		if len(in.args) == 3 {
			seed[1], seed[2] = byte(len(in.args[0])), byte(len(in.args[1]))
		}
		f.Add(append(seed, bytes.Join(in.args, nil)...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 3 {
			return
		}
		name, i, j, data := names[int(in[0])%len(names)], int(in[1]), int(in[2]), in[3:]
		i = min(i, len(data))
		j = min(i+j, len(data))
		args := [][]byte{data}
		switch name {
		case "p256", "ed25519":
			args = [][]byte{data[:i], data[i:j], data[j:]}
			MLDSAVerify(data[:i], data[i:j], data[j:])
		case "ecrecover":
			args = [][]byte{data[:i], data[i:j], append(slices.Clone(data[j:]), 0, 0)}
		}
		kept := slices.Clone(in)
		for _, fix := range []bool{false, true} {
			a, b := functions[name](args, fix), functions[name](args, fix)
			if a != b {
				t.Errorf("%s of %x: %s, then %s", name, data, a, b)
			}
		}
		if !bytes.Equal(in, kept) {
			t.Errorf("%s changed its input", name)
		}
		SHA256(data)
		Keccak256(data)
		Keccak512(data)
		RIPEMD160(data)
	})
}
