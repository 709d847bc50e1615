package curve

import (
	"fmt"
	"math/big"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Sizes of one element of the BLS12-381 functions, in bytes. Points have ZCash's serialisation
// (bls12381_point.go). Scalars are 32 bytes, little-endian; every value is valid.
const (
	BLS12381P1SumItem        = 1 + blsP1Size
	BLS12381P2SumItem        = 1 + blsP2Size
	BLS12381G1MultiexpItem   = blsP1Size + 32
	BLS12381G2MultiexpItem   = blsP2Size + 32
	BLS12381MapFpToG1Item    = blsFpSize
	BLS12381MapFp2ToG2Item   = 2 * blsFpSize
	BLS12381P1DecompressItem = blsP1Size / 2
	BLS12381P2DecompressItem = blsP2Size / 2
	BLS12381PairingItem      = blsP1Size + blsP2Size
)

// In all functions below, ok is false if an element is invalid; the host function then returns 1
// and writes nothing. If the length of the input is not a multiple of the element's length, the
// error is InvalidInput. fix is the parameter bls12381_not_in_group_fix (the correction of
// NEP-488), which is off in the released versions. Without it, sums and decompression reject the
// points (0, ±2), which are ordinary points of the curve.

// BLS12381P1Sum adds points of E(Fp). Points with sign 1 are negated first. The points need not be
// in G1.
func BLS12381P1Sum(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381P1SumItem, "bls12381_p1_sum"); err != nil {
		return nil, false, err
	}
	var sum bls12381.G1Jac // the zero value is the point at infinity
	for ; len(data) > 0; data = data[BLS12381P1SumItem:] {
		p, ok := blsP1(data[1:BLS12381P1SumItem], fix)
		if !ok || data[0] > 1 {
			return nil, false, nil
		}
		if data[0] == 1 {
			p.Neg(&p)
		}
		sum.AddMixed(&p)
	}
	return blsAppendP1Jac(nil, &sum), true, nil
}

// BLS12381P2Sum is BLS12381P1Sum for points of E'(Fp2).
func BLS12381P2Sum(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381P2SumItem, "bls12381_p2_sum"); err != nil {
		return nil, false, err
	}
	var sum bls12381.G2Jac
	for ; len(data) > 0; data = data[BLS12381P2SumItem:] {
		p, ok := blsP2(data[1:BLS12381P2SumItem], fix)
		if !ok || data[0] > 1 {
			return nil, false, nil
		}
		if data[0] == 1 {
			p.Neg(&p)
		}
		sum.AddMixed(&p)
	}
	return blsAppendP2Jac(nil, &sum), true, nil
}

// BLS12381G1Multiexp returns the sum of the products of each point of G1 and its scalar.
func BLS12381G1Multiexp(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381G1MultiexpItem, "bls12381_p1_multiexp"); err != nil {
		return nil, false, err
	}
	var sum, product bls12381.G1Jac
	for ; len(data) > 0; data = data[BLS12381G1MultiexpItem:] {
		p, ok := blsP1(data[:blsP1Size], fix)
		if !ok || !p.IsInSubGroup() {
			return nil, false, nil
		}
		product.FromAffine(&p)
		product.ScalarMultiplication(&product, blsScalar(data[blsP1Size:BLS12381G1MultiexpItem]))
		sum.AddAssign(&product)
	}
	return blsAppendP1Jac(nil, &sum), true, nil
}

// BLS12381G2Multiexp is BLS12381G1Multiexp for points of G2.
func BLS12381G2Multiexp(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381G2MultiexpItem, "bls12381_p2_multiexp"); err != nil {
		return nil, false, err
	}
	var sum, product bls12381.G2Jac
	for ; len(data) > 0; data = data[BLS12381G2MultiexpItem:] {
		p, ok := blsP2(data[:blsP2Size], fix)
		if !ok || !p.IsInSubGroup() {
			return nil, false, nil
		}
		product.FromAffine(&p)
		product.ScalarMultiplication(&product, blsScalar(data[blsP2Size:BLS12381G2MultiexpItem]))
		sum.AddAssign(&product)
	}
	return blsAppendP2Jac(nil, &sum), true, nil
}

// blsScalar reads a scalar and reduces the scalar modulo the group order. The reduction is correct
// because all multiplied points are in the group.
func blsScalar(le []byte) *big.Int {
	var be [32]byte
	for i, b := range le {
		be[31-i] = b
	}
	var s fr.Element
	return s.SetBytes(be[:]).BigInt(new(big.Int))
}

// BLS12381MapFpToG1 maps each field element into G1 as RFC 9380 does (simplified SWU, isogeny,
// cofactor cleared).
func BLS12381MapFpToG1(data []byte, _ bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381MapFpToG1Item, "bls12381_map_fp_to_g1"); err != nil {
		return nil, false, err
	}
	out = make([]byte, 0, len(data)/BLS12381MapFpToG1Item*blsP1Size)
	for ; len(data) > 0; data = data[BLS12381MapFpToG1Item:] {
		u, ok := blsFp(data[:blsFpSize])
		if !ok {
			return nil, false, nil
		}
		p := bls12381.MapToG1(u)
		out = blsAppendP1(out, &p)
	}
	return out, true, nil
}

// BLS12381MapFp2ToG2 is BLS12381MapFpToG1 from Fp2 into G2.
func BLS12381MapFp2ToG2(data []byte, _ bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381MapFp2ToG2Item, "bls12381_map_fp2_to_g2"); err != nil {
		return nil, false, err
	}
	out = make([]byte, 0, len(data)/BLS12381MapFp2ToG2Item*blsP2Size)
	for ; len(data) > 0; data = data[BLS12381MapFp2ToG2Item:] {
		u, ok := blsFp2(data[:2*blsFpSize])
		if !ok {
			return nil, false, nil
		}
		p := bls12381.MapToG2(u)
		out = blsAppendP2(out, &p)
	}
	return out, true, nil
}

// BLS12381P1Decompress decompresses points of E(Fp), which need not be in G1. The result has both
// coordinates of each point.
func BLS12381P1Decompress(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381P1DecompressItem, "bls12381_p1_decompress"); err != nil {
		return nil, false, err
	}
	out = make([]byte, 0, 2*len(data))
	for ; len(data) > 0; data = data[BLS12381P1DecompressItem:] {
		p, ok := blsP1Compressed(data[:BLS12381P1DecompressItem], fix)
		if !ok {
			return nil, false, nil
		}
		out = blsAppendP1(out, &p)
	}
	return out, true, nil
}

// BLS12381P2Decompress is BLS12381P1Decompress for points of E'(Fp2).
func BLS12381P2Decompress(data []byte, fix bool) (out []byte, ok bool, err error) {
	if err := blsLength(data, BLS12381P2DecompressItem, "bls12381_p2_decompress"); err != nil {
		return nil, false, err
	}
	out = make([]byte, 0, 2*len(data))
	for ; len(data) > 0; data = data[BLS12381P2DecompressItem:] {
		p, ok := blsP2Compressed(data[:BLS12381P2DecompressItem], fix)
		if !ok {
			return nil, false, nil
		}
		out = blsAppendP2(out, &p)
	}
	return out, true, nil
}

// BLS12381PairingCheck returns 0 if the product of all pairings is one, 2 if the product is not
// one, and 1 if a point is invalid or not in its group. The pairing of a point at infinity is one,
// and so is the product of an empty list. There is no parameter fix, because (0, ±2) are not in G1.
func BLS12381PairingCheck(data []byte) (code uint64, err error) {
	if err := blsLength(data, BLS12381PairingItem, "bls12381_pairing_check"); err != nil {
		return 0, err
	}
	n := len(data) / BLS12381PairingItem
	ps, qs := make([]bls12381.G1Affine, 0, n), make([]bls12381.G2Affine, 0, n)
	for ; len(data) > 0; data = data[BLS12381PairingItem:] {
		p, ok := blsP1(data[:blsP1Size], false)
		if !ok || !p.IsInSubGroup() {
			return 1, nil
		}
		q, ok := blsP2(data[blsP1Size:BLS12381PairingItem], false)
		if !ok || !q.IsInSubGroup() {
			return 1, nil
		}
		if !p.IsInfinity() && !q.IsInfinity() {
			ps, qs = append(ps, p), append(qs, q)
		}
	}
	if len(ps) == 0 {
		return 0, nil
	}
	// The error only occurs for slices of different lengths.
	if one, err := bls12381.PairingCheck(ps, qs); err != nil || !one {
		return 2, nil
	}
	return 0, nil
}

func blsLength(data []byte, item int, name string) error {
	if len(data)%item == 0 {
		return nil
	}
	return InvalidInput(fmt.Sprintf("Incorrect input length for %s: %d is not divisible by %d", name, len(data), item))
}
