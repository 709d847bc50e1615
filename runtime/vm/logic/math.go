package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/logic/curve"
)

// Mathematical host functions. Each function has its own base price and depends only on its
// arguments.

// hashing (value_len, value_ptr, register_id) returns a host function that writes a hash and has a
// price per byte.
func hashing(base, perByte parameters.ExtCost, sum func([]byte) []byte) hostFunc {
	return func(l *Logic, a []uint64) (uint64, error) {
		value, err := l.payArg(base, a[0], a[1])
		if err != nil {
			return 0, err
		}
		if err := l.gas.payPer(perByte, uint64(len(value))); err != nil {
			return 0, err
		}
		return 0, l.setRegister(a[2], sum(value))
	}
}

var (
	sha256 = hashing(parameters.ExtSHA256Base, parameters.ExtSHA256Byte, func(b []byte) []byte {
		h := curve.SHA256(b)
		return h[:]
	})
	keccak256 = hashing(parameters.ExtKeccak256Base, parameters.ExtKeccak256Byte, func(b []byte) []byte {
		h := curve.Keccak256(b)
		return h[:]
	})
	keccak512 = hashing(parameters.ExtKeccak512Base, parameters.ExtKeccak512Byte, func(b []byte) []byte {
		h := curve.Keccak512(b)
		return h[:]
	})
	sha3x256 = hashing(parameters.ExtSHA3x256Base, parameters.ExtSHA3x256Byte, func(b []byte) []byte {
		h := curve.SHA3_256(b)
		return h[:]
	})
	sha3x384 = hashing(parameters.ExtSHA3x384Base, parameters.ExtSHA3x384Byte, func(b []byte) []byte {
		h := curve.SHA3_384(b)
		return h[:]
	})
	sha3x512 = hashing(parameters.ExtSHA3x512Base, parameters.ExtSHA3x512Byte, func(b []byte) []byte {
		h := curve.SHA3_512(b)
		return h[:]
	})
)

// payArg pays the base price and reads an argument.
func (l *Logic) payArg(base parameters.ExtCost, n, ptr uint64) ([]byte, error) {
	if err := l.gas.pay(base); err != nil {
		return nil, err
	}
	return l.arg(n, ptr)
}

// ripemd160 (value_len, value_ptr, register_id) has a price per block of 64 bytes, padding
// included.
func ripemd160(l *Logic, a []uint64) (uint64, error) {
	value, err := l.payArg(parameters.ExtRipemd160Base, a[0], a[1])
	if err != nil {
		return 0, err
	}
	if err := l.gas.payPer(parameters.ExtRipemd160Block, (uint64(len(value))+8)/64+1); err != nil {
		return 0, err
	}
	h := curve.RIPEMD160(value)
	return 0, l.setRegister(a[2], h[:])
}

// invalid returns a HostError of kind k with the text of err, an error of package curve; nil if err
// is nil.
func invalid(k HostErrorKind, err error) error {
	if err == nil {
		return nil
	}
	return &HostError{Kind: k, Text: err.Error()}
}

// ecrecover (hash_len, hash_ptr, sig_len, sig_ptr, v, malleability_flag, register_id) writes the
// key and returns 1. ecrecover returns 0 if there is no key.
func ecrecover(l *Logic, a []uint64) (uint64, error) {
	sig, err := l.payArg(parameters.ExtEcrecoverBase, a[2], a[3])
	if err != nil {
		return 0, err
	}
	if err := curve.ECRecoverSignature(sig, a[4]); err != nil {
		return 0, invalid(ECRecoverError, err)
	}
	hash, err := l.arg(a[0], a[1])
	if err != nil {
		return 0, err
	}
	if err := curve.ECRecoverHash(hash); err != nil {
		return 0, invalid(ECRecoverError, err)
	}
	if err := curve.ECRecoverFlag(a[5]); err != nil {
		return 0, invalid(ECRecoverError, err)
	}
	if m := l.call.Block.Mocks; m != nil && m.ECRecover != "" {
		return 1, l.setRegister(a[6], []byte(m.ECRecover.Raw()))
	}
	key, ok := curve.ECRecover(hash, sig, a[4], a[5])
	if !ok {
		return 0, nil
	}
	return 1, l.setRegister(a[6], key[:])
}

// scheme is a signature scheme that contracts can verify.
type scheme struct {
	base, perByte parameters.ExtCost // costs of a call, and of each byte of the message
	invalid       HostErrorKind      // error for malformed arguments
	// signature checks the signature. If ok is false, the result is 0 and no other argument is
	// read.
	signature func([]byte) (ok bool, err error)
	key       func([]byte) error
	verify    func(sig, msg, key []byte) bool
	// mocked returns whether a sandbox treats every well-formed signature as valid; nil: never.
	mocked func(*primitives.Mocks) bool
}

func (s *scheme) isMocked(l *Logic) bool {
	m := l.call.Block.Mocks
	return m != nil && s.mocked != nil && s.mocked(m)
}

// verifying (sig_len, sig_ptr, msg_len, msg_ptr, pub_key_len, pub_key_ptr) returns a host function
// that returns 1 if the signature is valid, else 0.
func verifying(s scheme) hostFunc {
	return func(l *Logic, a []uint64) (uint64, error) {
		sig, err := l.payArg(s.base, a[0], a[1])
		if err != nil {
			return 0, err
		}
		mocked := s.isMocked(l)
		if ok, err := s.signature(sig); err != nil || !ok && !mocked {
			return 0, invalid(s.invalid, err)
		}
		msg, err := l.arg(a[2], a[3])
		if err != nil {
			return 0, err
		}
		if err := l.gas.payPer(s.perByte, uint64(len(msg))); err != nil {
			return 0, err
		}
		key, err := l.arg(a[4], a[5])
		if err != nil {
			return 0, err
		}
		if err := s.key(key); err != nil {
			return 0, invalid(s.invalid, err)
		}
		if mocked || s.verify(sig, msg, key) {
			return 1, nil
		}
		return 0, nil
	}
}

var (
	ed25519Verify = verifying(scheme{
		parameters.ExtEd25519VerifyBase, parameters.ExtEd25519VerifyByte, Ed25519VerifyInvalidInput,
		curve.Ed25519Signature, curve.Ed25519Key, curve.Ed25519Verify, func(m *primitives.Mocks) bool { return m.Ed25519 },
	})
	p256Verify = verifying(scheme{
		parameters.ExtP256VerifyBase, parameters.ExtP256VerifyByte, P256VerifyInvalidInput,
		curve.P256Signature, curve.P256Key, curve.P256Verify, func(m *primitives.Mocks) bool { return m.P256 },
	})
	mlDSAVerify = verifying(scheme{
		parameters.ExtMLDSAVerifyBase, parameters.ExtMLDSAVerifyByte, MLDSAVerifyInvalidInput,
		func(sig []byte) (bool, error) { err := curve.MLDSASignature(sig); return err == nil, err },
		curve.MLDSAKey, curve.MLDSAVerify, nil,
	})
)

// altBn128 (value_len, value_ptr) returns a host function on alt_bn128. The host function pays per
// element after it has called count, which also checks the length.
func altBn128(base, element parameters.ExtCost, count func([]byte) (uint64, error),
	run func(l *Logic, a []uint64, data []byte) (uint64, error)) hostFunc {
	return func(l *Logic, a []uint64) (uint64, error) {
		data, err := l.payArg(base, a[0], a[1])
		if err != nil {
			return 0, err
		}
		n, err := count(data)
		if err != nil {
			return 0, invalid(AltBn128InvalidInput, err)
		}
		if err := l.gas.payPer(element, n); err != nil {
			return 0, err
		}
		return run(l, a, data)
	}
}

// toPoint returns a run function that writes a point into register a[2].
func toPoint(f func([]byte) ([64]byte, error)) func(l *Logic, a []uint64, data []byte) (uint64, error) {
	return func(l *Logic, a []uint64, data []byte) (uint64, error) {
		point, err := f(data)
		if err != nil {
			return 0, invalid(AltBn128InvalidInput, err)
		}
		return 0, l.setRegister(a[2], point[:])
	}
}

var (
	altBn128G1Multiexp = altBn128(parameters.ExtAltBn128G1MultiexpBase, parameters.ExtAltBn128G1MultiexpElement,
		curve.AltBN128G1MultiexpElements, toPoint(curve.AltBN128G1Multiexp))
	altBn128G1Sum = altBn128(parameters.ExtAltBn128G1SumBase, parameters.ExtAltBn128G1SumElement,
		curve.AltBN128G1SumElements, toPoint(curve.AltBN128G1Sum))
	altBn128PairingCheck = altBn128(parameters.ExtAltBn128PairingCheckBase, parameters.ExtAltBn128PairingCheckElement,
		curve.AltBN128PairingElements, func(_ *Logic, _ []uint64, data []byte) (uint64, error) {
			one, err := curve.AltBN128PairingCheck(data)
			if err != nil || !one {
				return 0, invalid(AltBn128InvalidInput, err)
			}
			return 1, nil
		})
)

// bls12381 (value_len, value_ptr, register_id) returns a host function on BLS12-381, which returns
// 1 for invalid input. The host function pays per element, according to value_len, before it reads
// anything. The input cannot be in a register: the length inRegister is too large to be paid for.
func bls12381(base, element parameters.ExtCost, item uint64, f func(data []byte, fix bool) ([]byte, bool, error)) hostFunc {
	return func(l *Logic, a []uint64) (uint64, error) {
		if err := l.gas.pay(base); err != nil {
			return 0, err
		}
		if err := l.gas.payPer(element, a[0]/item); err != nil {
			return 0, err
		}
		data, err := l.arg(a[0], a[1])
		if err != nil {
			return 0, err
		}
		out, ok, err := f(data, l.wasm.BLS12381NotInGroupFix)
		if err != nil {
			return 0, invalid(BLS12381InvalidInput, err)
		}
		if !ok {
			return 1, nil
		}
		return 0, l.setRegister(a[2], out)
	}
}

var (
	blsP1Sum = bls12381(parameters.ExtBls12381P1SumBase, parameters.ExtBls12381P1SumElement,
		curve.BLS12381P1SumItem, curve.BLS12381P1Sum)
	blsP2Sum = bls12381(parameters.ExtBls12381P2SumBase, parameters.ExtBls12381P2SumElement,
		curve.BLS12381P2SumItem, curve.BLS12381P2Sum)
	blsG1Multiexp = bls12381(parameters.ExtBls12381G1MultiexpBase, parameters.ExtBls12381G1MultiexpElement,
		curve.BLS12381G1MultiexpItem, curve.BLS12381G1Multiexp)
	blsG2Multiexp = bls12381(parameters.ExtBls12381G2MultiexpBase, parameters.ExtBls12381G2MultiexpElement,
		curve.BLS12381G2MultiexpItem, curve.BLS12381G2Multiexp)
	blsMapFpToG1 = bls12381(parameters.ExtBls12381MapFpToG1Base, parameters.ExtBls12381MapFpToG1Element,
		curve.BLS12381MapFpToG1Item, curve.BLS12381MapFpToG1)
	blsMapFp2ToG2 = bls12381(parameters.ExtBls12381MapFp2ToG2Base, parameters.ExtBls12381MapFp2ToG2Element,
		curve.BLS12381MapFp2ToG2Item, curve.BLS12381MapFp2ToG2)
	blsP1Decompress = bls12381(parameters.ExtBls12381P1DecompressBase, parameters.ExtBls12381P1DecompressElement,
		curve.BLS12381P1DecompressItem, curve.BLS12381P1Decompress)
	blsP2Decompress = bls12381(parameters.ExtBls12381P2DecompressBase, parameters.ExtBls12381P2DecompressElement,
		curve.BLS12381P2DecompressItem, curve.BLS12381P2Decompress)
)

// blsPairingCheck (value_len, value_ptr) returns 0 if the product of the pairings is one, 2 if the
// product is not one, and 1 for invalid input. blsPairingCheck pays per element of the data that it
// has read.
func blsPairingCheck(l *Logic, a []uint64) (uint64, error) {
	data, err := l.payArg(parameters.ExtBls12381PairingBase, a[0], a[1])
	if err != nil {
		return 0, err
	}
	if err := l.gas.payPer(parameters.ExtBls12381PairingElement, uint64(len(data))/curve.BLS12381PairingItem); err != nil {
		return 0, err
	}
	code, err := curve.BLS12381PairingCheck(data)
	return code, invalid(BLS12381InvalidInput, err)
}
