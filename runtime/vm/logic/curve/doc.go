// Package curve computes what the math host functions compute: hashes, signatures, and sums,
// products and pairings of points, as functions of bytes.
//
//	in      the bytes a contract passed, of any length and content; the caller has charged for
//	        them
//	out     the bytes for the register, the number to return, or InvalidInput
//	units   none here: gas is the caller's, who pays before each step in nearcore's order
//	bound   time and memory linear in the input; every function stays below the time its gas
//	        stands for (1 Tgas is 1 ms)
//	errors  InvalidInput, whose text is the msg of the family's HostError; what is merely not
//	        valid is false or a code
//	source  nearcore runtime/near-vm-runner/src/logic/{alt_bn128,bls12381}.rs,
//	        wasmtime_runner/logic.rs:900-2000
//
// The same bytes must give the same answer as blst, zeropool-bn, libsecp256k1, p256 and
// ed25519-dalek give inside neard. Where formats leave a choice (infinity, flags, coordinates not
// below the modulus, points outside the subgroup) the files say what that choice is and the vectors
// in testdata hold it. No input panics, and none is kept or changed.
package curve

// InvalidInput is the msg of the HostError with which a malformed argument ends a call:
// AltBn128InvalidInput, BLS12381InvalidInput, ECRecoverError, Ed25519VerifyInvalidInput,
// P256VerifyInvalidInput or MlDsaVerifyInvalidInput, by the function called. Every error of this
// package is one.
type InvalidInput string

func (e InvalidInput) Error() string { return string(e) }
