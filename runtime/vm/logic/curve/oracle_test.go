package curve

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// math is a line of math.jsonl.gz: what nearcore's host function did with an input.
type math struct {
	F    string
	In   [][]byte
	V, M uint64
	Kind string
	Code uint64
	Out  []byte
	Err  string // with the family's prefix
}

// TestMathFunctionsMatchOracle runs the vectors that internal/testkit/oracle made: good, bad and odd inputs
// of every math host function.
func TestMathFunctionsMatchOracle(t *testing.T) {
	count := make(map[string]int)
	for _, file := range []string{"testdata/math.jsonl.gz", "testdata/math88.jsonl.gz"} {
		for m := range testutil.Vectors[math](t, file) {
			count[m.F]++
			code, out, err := m.call()
			got := ""
			if err != nil {
				got, code, out = mathPrefix[m.F]+err.Error(), 0, nil
			}
			if code != m.Code || !bytes.Equal(out, m.Out) || got != m.Err {
				t.Errorf("%s(%x, v %d, m %d), %s:\n got %d %x %q\nwant %d %x %q", m.F, m.In, m.V, m.M, m.Kind, code, out, got, m.Code, m.Out, m.Err)
			}
		}
	}
	for f := range mathPrefix {
		t.Run(f, func(t *testing.T) {
			if count[f] < 100 {
				t.Errorf("%d vectors", count[f])
			}
		})
	}
}

// mathPrefix: function -> how the text of its HostError begins.
var mathPrefix = map[string]string{
	"sha256": "", "keccak256": "", "keccak512": "", "ripemd160": "",
	"alt_bn128_g1_multiexp": "AltBn128 invalid input: ", "alt_bn128_g1_sum": "AltBn128 invalid input: ", "alt_bn128_pairing_check": "AltBn128 invalid input: ",
	"bls12381_p1_sum": "BLS12-381 invalid input: ", "bls12381_p2_sum": "BLS12-381 invalid input: ",
	"bls12381_g1_multiexp": "BLS12-381 invalid input: ", "bls12381_g2_multiexp": "BLS12-381 invalid input: ",
	"bls12381_map_fp_to_g1": "BLS12-381 invalid input: ", "bls12381_map_fp2_to_g2": "BLS12-381 invalid input: ",
	"bls12381_p1_decompress": "BLS12-381 invalid input: ", "bls12381_p2_decompress": "BLS12-381 invalid input: ",
	"bls12381_pairing_check": "BLS12-381 invalid input: ",
	"ed25519_verify":         "ED25519 signature verification error: ", "p256_verify": "P256 signature verification error: ", "ecrecover": "ECDSA recover error: ",
	"sha3_256": "", "sha3_384": "", "sha3_512": "", "ml_dsa_verify": "ML-DSA-65 signature verification error: ",
	"universal_state_init_to_account_id": "",
}

var mathBLS = map[string]func([]byte, bool) ([]byte, bool, error){
	"bls12381_p1_sum": BLS12381P1Sum, "bls12381_p2_sum": BLS12381P2Sum,
	"bls12381_g1_multiexp": BLS12381G1Multiexp, "bls12381_g2_multiexp": BLS12381G2Multiexp,
	"bls12381_map_fp_to_g1": BLS12381MapFpToG1, "bls12381_map_fp2_to_g2": BLS12381MapFp2ToG2,
	"bls12381_p1_decompress": BLS12381P1Decompress, "bls12381_p2_decompress": BLS12381P2Decompress,
}

// call does what the host function does, in the same order. It returns the number that the
// function returns and the register that it writes.
func (m *math) call() (code uint64, out []byte, err error) {
	in := m.In[0]
	switch m.F {
	case "sha256":
		h := SHA256(in)
		return 0, h[:], nil
	case "keccak256":
		h := Keccak256(in)
		return 0, h[:], nil
	case "keccak512":
		h := Keccak512(in)
		return 0, h[:], nil
	case "ripemd160":
		h := RIPEMD160(in)
		return 0, h[:], nil
	case "sha3_256":
		h := SHA3_256(in)
		return 0, h[:], nil
	case "sha3_384":
		h := SHA3_384(in)
		return 0, h[:], nil
	case "sha3_512":
		h := SHA3_512(in)
		return 0, h[:], nil
	case "universal_state_init_to_account_id":
		init := primitives.RawStateInit(in)
		if _, err := init.Decode(); err != nil {
			return primitives.StateInitExitStatus(err), nil, nil
		}
		return 0, []byte(init.DerivedAccount()), nil
	case "ml_dsa_verify":
		if err := MLDSASignature(in); err != nil {
			return 0, nil, err
		}
		if err := MLDSAKey(m.In[2]); err != nil {
			return 0, nil, err
		}
		return bit(MLDSAVerify(in, m.In[1], m.In[2])), nil, nil
	case "alt_bn128_g1_multiexp":
		if _, err := AltBN128G1MultiexpElements(in); err != nil {
			return 0, nil, err
		}
		p, err := AltBN128G1Multiexp(in)
		return 0, p[:], err
	case "alt_bn128_g1_sum":
		if _, err := AltBN128G1SumElements(in); err != nil {
			return 0, nil, err
		}
		p, err := AltBN128G1Sum(in)
		return 0, p[:], err
	case "alt_bn128_pairing_check":
		if _, err := AltBN128PairingElements(in); err != nil {
			return 0, nil, err
		}
		ok, err := AltBN128PairingCheck(in)
		return bit(ok), nil, err
	case "bls12381_pairing_check":
		code, err := BLS12381PairingCheck(in)
		return code, nil, err
	case "ed25519_verify":
		ok, err := Ed25519Signature(in)
		if !ok || err != nil {
			return 0, nil, err
		}
		if err := Ed25519Key(m.In[2]); err != nil {
			return 0, nil, err
		}
		return bit(Ed25519Verify(in, m.In[1], m.In[2])), nil, nil
	case "p256_verify":
		ok, err := P256Signature(in)
		if !ok || err != nil {
			return 0, nil, err
		}
		if err := P256Key(m.In[2]); err != nil {
			return 0, nil, err
		}
		return bit(P256Verify(in, m.In[1], m.In[2])), nil, nil
	case "ecrecover":
		if err := ECRecoverSignature(m.In[1], m.V); err != nil {
			return 0, nil, err
		}
		if err := ECRecoverHash(in); err != nil {
			return 0, nil, err
		}
		if err := ECRecoverFlag(m.M); err != nil {
			return 0, nil, err
		}
		key, ok := ECRecover(in, m.In[1], m.V, m.M)
		if !ok {
			return 0, nil, nil
		}
		return 1, key[:], nil
	}
	out, ok, err := mathBLS[m.F](in, false)
	return bit(!ok), out, err
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
