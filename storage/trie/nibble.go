package trie

import "bytes"

// nibs is a run of n nibbles that starts at nibble off of b. The high half of a byte comes first
// (nearcore nibble_slice.rs). A nibs aliases b.
type nibs struct {
	b      []byte
	off, n int
}

// keyNibs returns the nibbles of key that follow the first `from` nibbles.
func keyNibs(key []byte, from int) nibs { return nibs{key, from, 2*len(key) - from} }

// extNibs returns the nibbles of a hex-prefix encoding, which must not be empty.
func extNibs(enc []byte) nibs {
	if enc[0]&0x10 != 0 {
		return nibs{enc, 1, 2*len(enc) - 1}
	}
	return nibs{enc, 2, 2*len(enc) - 2}
}

func (x nibs) at(i int) byte {
	i += x.off
	c := x.b[i>>1]
	if i&1 == 0 {
		return c >> 4
	}
	return c & 0xf
}

// nibbleAt returns the i-th nibble of key.
func nibbleAt(key []byte, i int) byte {
	c := key[i>>1]
	if i&1 == 0 {
		return c >> 4
	}
	return c & 0xf
}

// from drops the first i nibbles.
func (x nibs) from(i int) nibs { return nibs{x.b, x.off + i, x.n - i} }

// first keeps the first i nibbles.
func (x nibs) first(i int) nibs { return nibs{x.b, x.off, i} }

// appendNibbles appends one byte for each nibble.
func (x nibs) appendNibbles(dst []byte) []byte {
	for i := range x.n {
		dst = append(dst, x.at(i))
	}
	return dst
}

// commonPrefix returns how many leading nibbles x and y share.
func commonPrefix(x, y nibs) int {
	n, i := min(x.n, y.n), 0
	if (x.off^y.off)&1 == 0 { // equal alignment: compare whole bytes, after at most one nibble
		if n > 0 && x.off&1 == 1 {
			if x.at(0) != y.at(0) {
				return 0
			}
			i = 1
		}
		a, b := x.b[(x.off+i)>>1:], y.b[(y.off+i)>>1:]
		for k := 0; i+1 < n && a[k] == b[k]; k++ {
			i += 2
		}
	}
	for i < n && x.at(i) == y.at(i) {
		i++
	}
	return i
}

// compareNibs orders nibble strings lexicographically.
func compareNibs(x, y nibs) int {
	i := commonPrefix(x, y)
	switch {
	case i < x.n && i < y.n:
		return int(x.at(i)) - int(y.at(i))
	case i < x.n:
		return 1
	case i < y.n:
		return -1
	}
	return 0
}

// concat returns x ‖ y in fresh memory.
func concat(x, y nibs) nibs {
	if x.n == 0 {
		return y
	}
	if y.n == 0 {
		return x
	}
	b := make([]byte, (x.n+y.n+1)/2)
	put := func(i int, v byte) {
		if i&1 == 0 {
			b[i>>1] = v << 4
		} else {
			b[i>>1] |= v
		}
	}
	for i := range x.n {
		put(i, x.at(i))
	}
	for i := range y.n {
		put(x.n+i, y.at(i))
	}
	return nibs{b, 0, x.n + y.n}
}

// single returns the run of one nibble.
func single(v byte) nibs { return nibs{nibbleBytes[v&0xf : v&0xf+1], 1, 1} }

var nibbleBytes = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// hexPrefixLen returns the length of the hex-prefix encoding of n nibbles.
func hexPrefixLen(n int) int { return 1 + n/2 }

// putHexPrefix writes the hex-prefix encoding of x, hexPrefixLen(x.n) bytes. In the first byte,
// 0x20 marks a leaf and 0x10 an odd length. If the length is odd, the low half of that byte is the
// first nibble (nearcore nibble_slice.rs:127).
func putHexPrefix(dst []byte, x nibs, leaf bool) {
	var head byte
	if leaf {
		head = 0x20
	}
	odd := x.n & 1
	if odd == 1 {
		head |= 0x10 | x.at(0)
	}
	dst[0] = head
	if (x.off+odd)&1 == 0 {
		copy(dst[1:hexPrefixLen(x.n)], x.b[(x.off+odd)>>1:])
		return
	}
	for i, k := odd, 1; i < x.n; i, k = i+2, k+1 {
		dst[k] = x.at(i)<<4 | x.at(i+1)
	}
}

// matchLeaf returns whether the nibbles of key from pos on equal those of the encoded leaf key enc.
func matchLeaf(key []byte, pos int, enc []byte) bool {
	odd := int(enc[0]>>4) & 1
	if 2*len(key)-pos != 2*len(enc)-2+odd {
		return false
	}
	if odd == 1 { // pos is odd too, because the path ends at a whole byte
		return key[pos>>1]&0xf == enc[0]&0xf && bytes.Equal(key[pos>>1+1:], enc[1:])
	}
	return bytes.Equal(key[pos>>1:], enc[1:])
}

// matchExt returns the number of nibbles of the encoded extension enc, and whether these are the
// nibbles of key from pos on.
func matchExt(key []byte, pos int, enc []byte) (int, bool) {
	if len(enc) == 1 { // fast path for the most frequent length
		return 1, pos < 2*len(key) && nibbleAt(key, pos) == enc[0]&0xf
	}
	e := extNibs(enc)
	if 2*len(key)-pos < e.n {
		return e.n, false
	}
	return e.n, commonPrefix(e, keyNibs(key, pos)) == e.n
}

// packNibbles joins nibbles, of which path has one in each byte, to bytes. If the number of nibbles
// is odd, packNibbles drops the last nibble (nearcore ops/iter.rs key()).
func packNibbles(path []byte) []byte {
	key := make([]byte, len(path)/2)
	for i := range key {
		key[i] = path[2*i]<<4 | path[2*i+1]
	}
	return key
}

// pathNibs returns a path, one nibble a byte, as a packed run.
func pathNibs(path []byte) nibs {
	b := make([]byte, (len(path)+1)/2)
	for i, v := range path {
		b[i>>1] |= v << (4 * (1 - i&1))
	}
	return nibs{b, 0, len(path)}
}
