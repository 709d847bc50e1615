// Package curve implements the mathematics of host functions on bytes: hashes, signatures, and
// sums, products and pairings of points.
//
//	in      bytes from a contract, of any length and content; the caller has charged for them
//	out     the bytes for the register, the number to return, or InvalidInput
//	units   none: the caller charges gas before each step, in nearcore's order
//	bound   time and memory linear in the input. Every function takes less time than its gas stands
//	        for (1 Tgas is 1 ms)
//	errors  InvalidInput, whose text is the msg of the family's HostError. A result that is merely
//	        invalid is false or a code
//	source  nearcore runtime/near-vm-runner/src/logic/{alt_bn128,bls12381}.rs,
//	        wasmtime_runner/logic.rs:900-2000
//
// The results must equal those of blst, zeropool-bn, libsecp256k1, p256 and the crate dalek in
// neard, byte for byte. Where a format leaves a choice (infinity, flags, coordinates not below the
// modulus, points outside the subgroup), the files describe the choice, and the vectors in testdata
// check it. No input panics. Inputs are neither kept nor changed.
package curve

// InvalidInput is the msg of the HostError that ends a call with a malformed argument:
// AltBn128InvalidInput, BLS12381InvalidInput, ECRecoverError, Ed25519VerifyInvalidInput,
// P256VerifyInvalidInput or MlDsaVerifyInvalidInput, by the function. Every error of this package
// is an InvalidInput.
type InvalidInput string

func (e InvalidInput) Error() string { return string(e) }
