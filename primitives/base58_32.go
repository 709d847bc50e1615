package primitives

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// Base58 of 32 bytes, the length of hashes and most keys, by tables. The number is split into
// eight words of 32 bits. A table has, for each word, its weight in digits of base 58^5. So the
// digits are sums of independent products, and carries are propagated once at the end. The
// algorithm is that of Firedancer's fd_base58. Every sum stays below 2^64
// (TestBase58TableDoesNotOverflow).
const (
	base58Fifth  = 58 * 58 * 58 * 58 * 58 // base of a digit, about 2^29.3
	base58Fifths = 9                      // number of digits, sufficient because 58^45 > 2^256
)

// base58Words[i][j] is digit j of 2^(32*(7-i)) in base 58^5, the highest first.
var base58Words = func() (t [8][base58Fifths]uint64) {
	for i := range t {
		v, rest := new(big.Int).Lsh(big.NewInt(1), uint(32*(7-i))), new(big.Int)
		for j := base58Fifths - 1; j >= 0; j-- {
			v.QuoRem(v, big.NewInt(base58Fifth), rest)
			t[i][j] = rest.Uint64()
		}
	}
	return t
}()

// base58Pairs are the texts of 0 to 58^2-1, two characters each.
var base58Pairs = func() (t [58 * 58][2]byte) {
	for i := range t {
		t[i] = [2]byte{base58Alphabet[i/58], base58Alphabet[i%58]}
	}
	return t
}()

// appendBase58Of32 appends the text of 32 bytes.
func appendBase58Of32(dst []byte, raw [32]byte) []byte {
	var sum [base58Fifths]uint64
	zeros := 0 // each leading zero byte is one leading 1
	for i := range base58Words {
		w := uint64(binary.BigEndian.Uint32(raw[4*i:]))
		if zeros == 4*i {
			zeros += bits.LeadingZeros32(uint32(w)) / 8
		}
		t := &base58Words[i]
		for j := range sum {
			sum[j] += w * t[j]
		}
	}
	for j := len(sum) - 1; j > 0; j-- {
		sum[j-1] += sum[j] / base58Fifth
		sum[j] %= base58Fifth
	}
	var text [5 * base58Fifths]byte
	for j, v := range sum {
		p := text[5*j : 5*j+5]
		low := v % (58 * 58)
		v /= 58 * 58
		mid := v % (58 * 58)
		p[0] = base58Alphabet[v/(58*58)]
		p[1], p[2] = base58Pairs[mid][0], base58Pairs[mid][1]
		p[3], p[4] = base58Pairs[low][0], base58Pairs[low][1]
	}
	ones := 0
	for ones < len(text) && text[ones] == base58Alphabet[0] {
		ones++
	}
	return append(dst, text[ones-min(ones, zeros):]...)
}
