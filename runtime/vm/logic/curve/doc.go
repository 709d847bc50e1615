// Package curve implements the mathematics of host functions on bytes: hashes, signatures, and
// sums, products and pairings of points.
//
//	in      bytes from a contract, of any length and content; the caller has charged for them
//	out     the bytes for the register, the number to return, or InvalidInput
//	units   none: the caller charges gas before each step, in nearcore's order
//	bound   time and memory linear in the input. Every function takes less time than its gas pays for
//	        (1 Tgas is 1 ms)
//	errors  InvalidInput: the msg of the HostError that ends the call. An argument that is well-formed
//	        but invalid gives false or a code instead
//	source  nearcore runtime/near-vm-runner/src/logic/{alt_bn128,bls12381}.rs,
//	        wasmtime_runner/logic.rs:900-2000
//
// The results must equal those of blst, zeropool-bn, libsecp256k1, p256 and the crate dalek in
// neard, byte for byte. Some formats leave a choice: infinity, flags, coordinates not below the
// modulus, points outside the subgroup. The files describe these choices, and the vectors in
// testdata check them. No input causes a panic. Functions neither keep nor change their inputs.
package curve

// InvalidInput is the msg of the HostError that ends a call with a malformed argument. The kind of
// the HostError depends on the function: AltBn128InvalidInput, BLS12381InvalidInput,
// ECRecoverError, Ed25519VerifyInvalidInput, P256VerifyInvalidInput or MLDSAVerifyInvalidInput.
// Every error of this package is an InvalidInput.
type InvalidInput string

func (e InvalidInput) Error() string { return string(e) }
