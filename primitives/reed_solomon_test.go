package primitives

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// gfMul multiplies in GF(2^8) over 0x11D, bit by bit.
func gfMul(a, b byte) (out byte) {
	for ; b != 0; b >>= 1 {
		if b&1 == 1 {
			out ^= a
		}
		high := a >> 7
		a <<= 1
		if high == 1 {
			a ^= 0x1d
		}
	}
	return out
}

func gfInv(a byte) byte {
	for b := range 256 {
		if gfMul(a, byte(b)) == 1 {
			return byte(b)
		}
	}
	panic("no inverse")
}

// slowParity encodes by definition: row r of the Vandermonde matrix is r^0, r^1, ...; multiplied by
// the inverse of its top square it starts with the identity. Equivalently, the parity row
// interpolates the data.
func slowParity(data [][]byte, total int) [][]byte {
	d := len(data)
	// Coefficients c with sum_j c_j·i^j = data_i for i < d, by Gaussian elimination per byte
	// column.
	rows := make([][]byte, d)
	for i := range rows {
		rows[i] = make([]byte, d+len(data[0]))
		p := byte(1)
		for j := range d {
			rows[i][j] = p
			p = gfMul(p, byte(i))
		}
		copy(rows[i][d:], data[i])
	}
	for col := range d {
		pivot := col
		for rows[pivot][col] == 0 {
			pivot++
		}
		rows[col], rows[pivot] = rows[pivot], rows[col]
		inv := gfInv(rows[col][col])
		for k := range rows[col] {
			rows[col][k] = gfMul(rows[col][k], inv)
		}
		for i := range rows {
			if f := rows[i][col]; i != col && f != 0 {
				for k := range rows[i] {
					rows[i][k] ^= gfMul(f, rows[col][k])
				}
			}
		}
	}
	parity := make([][]byte, 0, total-d)
	for r := d; r < total; r++ {
		out := make([]byte, len(data[0]))
		p := byte(1)
		for j := range d {
			for k := range out {
				out[k] ^= gfMul(p, rows[j][d+k])
			}
			p = gfMul(p, byte(r))
		}
		parity = append(parity, out)
	}
	return parity
}

func TestReedSolomonMatchesDefinition(t *testing.T) {
	t.Parallel()
	rng := NewStdRng([32]byte{5})
	for _, c := range [][2]int{{1, 2}, {1, 3}, {2, 3}, {1, 4}, {3, 10}, {16, 50}, {33, 100}, {85, 256}, {255, 256}} {
		data, total := c[0], c[1]
		rs, err := NewReedSolomon(data, total)
		if err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, data*3-min(data-1, 2))
		rng.Read(payload)
		parts, err := rs.Encode(payload)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(parts[data:], slowParity(parts[:data], total), bytes.Equal) {
			t.Errorf("%d of %d: parity differs from the definition", data, total)
		}
		root, proofs := MerklizeParts(parts)
		if PartsTree(parts).Root() != root {
			t.Errorf("%d of %d: roots differ", data, total)
		}
		for i, p := range proofs {
			if !p.VerifyAt(root, PartLeaf(parts[i]), uint64(i), uint64(total)) {
				t.Errorf("%d of %d: proof %d", data, total, i)
			}
		}
		// Any `data` parts restore all.
		for range 3 {
			order := countIDs(total)
			Shuffle(rng, order)
			some := make([][]byte, total)
			for _, i := range order[:data] {
				some[i] = parts[i]
			}
			got, err := rs.Decode(slices.Clone(some), uint64(len(payload)))
			if err != nil || !bytes.Equal(got, payload) {
				t.Errorf("%d of %d: decoded %x, %v, want %x", data, total, got, err, payload)
			}
			if err := rs.Reconstruct(some, uint64(len(payload))); err != nil || !slices.EqualFunc(some, parts, bytes.Equal) {
				t.Errorf("%d of %d: reconstruction differs: %v", data, total, err)
			}
			some = make([][]byte, total)
			for _, i := range order[:data-1] {
				some[i] = parts[i]
			}
			if err := rs.Reconstruct(some, uint64(len(payload))); !errors.Is(err, ErrParts) {
				t.Errorf("%d of %d: too few parts: %v", data, total, err)
			}
		}
	}
}

// TestNeardChunkPartsHaveTheirRoots has two chunk bodies of a chain that neard made
// (native.jsonl.gz, nearcore f0c7706f1: 50 seats, heights 39 and 549, one transaction and no
// outgoing receipt each) with the roots in their headers.
func TestNeardChunkPartsHaveTheirRoots(t *testing.T) {
	t.Parallel()
	rs, err := NewReedSolomon(ChunkPartCounts(50))
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"68xQRSkWAyJ1BWaj9XdG2oPo71f9cERkzrCNUZDUQhEY": "AQAAAA8AAABhbGljZS50ZXN0Lm5lYXIAIdkewD51XVs9kZrKPDEgt4NkO4eva67SLcJUZMC1" +
			"O2+GhB4AAAAAAA0AAABib2IudGVzdC5uZWFyUlRuo09DCDKeLRdXZC774TsJiUc4pivLAp/iN+3LR0AAAAAAAH+z6CICXJKnOgDeP/STSnQBAZf1MCe0xRruYi6UpUwz5jjv4xYR" +
			"aiv4EDzjv1r/Srb79fnyUHOWWqKXCaRhmwUAAAAA",
		"BDGXAmZZCzg1sBwWKBeGpwu4aN3YgtqSY2YjjrJKydQv": "AQAAAA8AAABjYXJvbC50ZXN0Lm5lYXIAwW/rlUu+4xGPcYUcg5nJzbyP9pxWsmT8KSjuxxUn" +
			"m0jDxi0AAAAAAA8AAABjYXJvbC50ZXN0Lm5lYXKXTJzEGm6HSnPVx1q3rP7+ldi9wrbhAG2U3zt7XS13kAEAAAABAAAAAABjlJHHEM0xdAUb1Gv+fxrPKJiEa+RK2g3eZCBBn1ky" +
			"T4jZPKpHTqmHNR6vwRFDnh+mC3G1Fuy9NpMA4WHFSkYHAAAAAA==",
	} {
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := rs.Encode(body)
		if err != nil {
			t.Fatal(err)
		}
		if got := PartsTree(parts).Root(); got.String() != want {
			t.Errorf("root = %v, want %s", got, want)
		}
	}
}

func TestReedSolomonRefusesBadCounts(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 2}, {2, 2}, {3, 2}, {1, 257}, {-1, 5}} {
		if _, err := NewReedSolomon(c[0], c[1]); !errors.Is(err, ErrParts) {
			t.Errorf("%d of %d: %v", c[0], c[1], err)
		}
	}
	rs, err := NewReedSolomon(2, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rs.Encode(nil); !errors.Is(err, ErrParts) {
		t.Errorf("no payload: %v", err)
	}
	part := []byte{1, 2}
	for _, tt := range []struct {
		parts  [][]byte
		length uint64
	}{
		{[][]byte{part, part, nil}, 4}, {[][]byte{part, part[:1], nil, nil}, 4}, {[][]byte{part, part, nil, nil}, 5},
		{[][]byte{part, part, nil, nil}, 2}, {[][]byte{part, part, nil, nil}, 0}, {[][]byte{part, part, nil, nil}, ^uint64(0)},
		{[][]byte{{}, {}, nil, nil}, 0}, {[][]byte{{}, {}, nil, nil}, 1},
	} {
		if _, err := rs.Decode(tt.parts, tt.length); !errors.Is(err, ErrParts) {
			t.Errorf("%v of length %d: %v", tt.parts, tt.length, err)
		}
	}
}

func TestPartCountsMatchNearcore(t *testing.T) {
	t.Parallel()
	for seats, want := range map[int][2]int{0: {1, 2}, 1: {1, 2}, 2: {1, 2}, 3: {1, 3}, 4: {1, 4}, 6: {1, 6}, 7: {2, 7}, 50: {16, 50}, 100: {33, 100}} {
		if data, total := ChunkPartCounts(seats); data != want[0] || total != want[1] {
			t.Errorf("%d seats: %d of %d, want %v", seats, data, total, want)
		}
	}
	for n := 2; n <= MaxReedSolomonParts; n++ {
		want := max(int(float64(n)*0.6), 1) // nearcore's formula
		if data, total := WitnessPartCounts(n); data != want || total != n {
			t.Errorf("%d validators: %d of %d, want %d", n, data, total, want)
		}
	}
}

func BenchmarkReedSolomon(b *testing.B) {
	for _, c := range [][2]int{{1, 3}, {16, 50}, {33, 100}} {
		rs, err := NewReedSolomon(c[0], c[1])
		if err != nil {
			b.Fatal(err)
		}
		payload := make([]byte, 1<<20)
		b.Run(fmt.Sprintf("data=%d/total=%d/bytes=1MiB", c[0], c[1]), func(b *testing.B) {
			b.SetBytes(1 << 20)
			for b.Loop() {
				if _, err := rs.Encode(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
